//! `export` as of a moment, to Parquet, and training sets joined with a spine.

use std::fs::{self, File};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, ListAccessor, Row, RowAccessor};
use serde_json::{Value, json};

use crate::callers::ask;
use crate::program::Server;

const BASE: u64 = 1_724_949_845_430_000_000;
const SECOND: u64 = 1_000_000_000;

fn add(server: &Server, feature: &str, entity: &str, items: &[Value]) {
    let body = json!({"items": items}).to_string();
    ask(server.address(), "POST", &format!("/v1/lists/customer/{feature}/{entity}/items"), &body).expect(200);
}

/// Two lists of `seen`, one of `bought`, and a set of keys.
fn filled() -> Server {
    let server = Server::start();
    server.feature("seen", "string");
    server.feature("bought", "int64");
    let keyed =
        ["feature", "create", "customer", "state", "--value-type", "json", "--ttl", "7300d", "--identity", "key"];
    server.ok(&keyed);
    let at = |n: u64| BASE + n * SECOND;
    for entity in ["a", "b"] {
        let items: Vec<_> = (0..5).map(|n| json!({"timestamp": at(n), "value": format!("{entity}\"{n}")})).collect();
        add(&server, "seen", entity, &items);
    }
    add(&server, "bought", "b", &[json!({"timestamp": at(2), "value": 9_007_199_254_740_993_i64})]);
    add(&server, "state", "a", &[json!({"timestamp": at(1), "key": "k", "value": {"x": [1]}})]);
    server
}

/// The rows of a spine: before, between and after the items, and of an entity without any.
fn spine() -> Vec<(&'static str, u64, &'static str, &'static str)> {
    vec![
        ("a", BASE - 1, "1", "before, \"all\""),
        ("a", BASE, "0", ""),
        ("b", BASE + 2 * SECOND, "1", "x"),
        ("b", BASE + 2 * SECOND - 1, "", "x"),
        ("a", BASE + 9 * SECOND, "1", "x"),
        ("nobody", BASE + 9 * SECOND, "1", "x"),
    ]
}

fn write_spine(server: &Server) -> String {
    let cell = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let row = |(entity, at, label, note)| format!("{},{entity},{at},{label}\n", cell(note));
    let rows: String = spine().into_iter().map(row).collect();
    server.write("spine.csv", format!("note,user,at,label\n{rows}"))
}

fn join(server: &Server, spine: &str, name: &str) -> String {
    let output = server.dir.path().join(name).to_str().unwrap().to_owned();
    let told = server.ok(&[
        "export",
        "customer",
        "seen",
        "bought",
        "state",
        "--spine",
        spine,
        "--entity-id-column",
        "user",
        "--timestamp-column",
        "at",
        "--limit",
        "3",
        "--file",
        &output,
    ]);
    assert_eq!(told, "6 rows with 11 items\n");
    output
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_training_set_has_what_the_lists_showed_at_each_rows_moment_and_nothing_later() {
    let server = filled();
    let file = write_spine(&server);
    let rows = lines(&fs::read_to_string(join(&server, &file, "set.ndjson")).unwrap());
    assert_eq!(rows.len(), 6);
    for (row, (entity, at, label, note)) in rows.iter().zip(spine()) {
        for feature in ["seen", "bought", "state"] {
            let path = format!("/v1/lists/customer/{feature}/{entity}/items?as_of={at}&limit=3");
            assert_eq!(row[feature], ask(server.address(), "GET", &path, "").expect(200)["items"], "{row}");
        }
        assert_eq!(row["user"], entity);
        // An empty cell is nothing; a column of numbers has numbers.
        assert_eq!(row["label"], label.parse::<i64>().map_or(Value::Null, |label| json!(label)));
        assert_eq!(row["note"], if note.is_empty() { Value::Null } else { json!(note) });
    }
    assert_eq!(rows[0]["seen"], json!([]));
    let seen: Vec<_> = rows[2]["seen"].as_array().unwrap().iter().map(|item| &item["value"]).collect();
    assert_eq!(seen, ["b\"2", "b\"1", "b\"0"]);
    assert_eq!((&rows[2]["bought"][0]["value"], &rows[3]["bought"]), (&json!(9_007_199_254_740_993_i64), &json!([])));
    // The same again from what was written, which is a spine as well, compressed and as CSV.
    let again = server.dir.path().join("again.csv.gz").to_str().unwrap().to_owned();
    let spine = server.dir.path().join("set.ndjson").to_str().unwrap().to_owned();
    let columns = ["--entity-id-column", "user", "--timestamp-column", "at", "--file", &again];
    let twice = [&["export", "customer", "bought", "--spine", &spine][..], &columns].concat();
    assert!(server.run(&twice).failed(2).contains("\"bought\""));
    server.feature("more", "bool");
    server.ok(&[&["export", "customer", "more", "--spine", &spine][..], &columns].concat());
    let text = std::io::read_to_string(flate2::read::MultiGzDecoder::new(File::open(again).unwrap())).unwrap();
    assert!(text.starts_with("user,at,note,label,seen,bought,state,more\na,2024-08-29T16:44:05.429999999Z,"), "{text}");
    assert_eq!(text.lines().count(), 7);
}

fn parquet(file: &str) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_training_set_in_parquet_has_typed_columns_and_lists_of_structs() {
    let server = filled();
    let file = write_spine(&server);
    let expected = lines(&fs::read_to_string(join(&server, &file, "set.ndjson")).unwrap());
    let rows = parquet(&join(&server, &file, "set.parquet"));
    let names: Vec<_> = rows[0].get_column_iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["user", "at", "note", "label", "seen", "bought", "state"]);
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(row.get_string(0).unwrap(), expected["user"].as_str().unwrap());
        let label = row.get_long(3).map_or(Value::Null, |label| json!(label));
        assert_eq!(label, expected["label"], "{row}");
        for (column, feature) in [(4, "seen"), (5, "bought"), (6, "state")] {
            let (list, expected) = (row.get_list(column).unwrap(), expected[feature].as_array().unwrap());
            assert_eq!(list.len(), expected.len(), "{row}");
            for (place, expected) in expected.iter().enumerate() {
                let item = list.get_group(place).unwrap();
                let value = match feature {
                    "seen" => json!(item.get_string(1).unwrap()),
                    "bought" => json!(item.get_long(1).unwrap()),
                    _ => {
                        assert_eq!(item.get_string(2).unwrap(), "k");
                        serde_json::from_str(&bytes_of(item, 1)).unwrap()
                    }
                };
                assert_eq!(value, expected["value"], "{row}");
            }
        }
    }
    assert!(!fs::exists(server.dir.path().join("set.parquet.part")).unwrap());
}

/// JSON, which the reader gives as bytes.
fn bytes_of(row: &Row, column: usize) -> String {
    match row.get_column_iter().nth(column).unwrap().1 {
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).unwrap(),
        Field::Str(text) => text.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn an_export_as_of_a_moment_has_no_later_item_in_any_format() {
    let server = filled();
    let path = |name: &str| server.dir.path().join(name).to_str().unwrap().to_owned();
    for name in ["then.ndjson", "then.csv", "then.parquet"] {
        let then = ["export", "customer", "seen", "--as-of", "2024-08-29T16:44:07.43Z", "--file", &path(name)];
        assert_eq!(server.ok(&then), "6 items of 2 lists\n");
    }
    let expected = lines(&fs::read_to_string(path("then.ndjson")).unwrap());
    assert!(expected.iter().all(|row| row["timestamp"].as_str().unwrap() <= "2024-08-29T16:44:07.430000000Z"));
    let rows = parquet(&path("then.parquet"));
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(row.get_string(3).unwrap(), expected["entity_id"].as_str().unwrap());
        assert_eq!(row.get_string(5).unwrap(), expected["value"].as_str().unwrap());
    }
    // All there is, of every type.
    server.ok(&["export", "customer", "state", "--file", &path("state.parquet")]);
    let rows = parquet(&path("state.parquet"));
    assert_eq!((bytes_of(&rows[0], 5), rows[0].get_string(6).unwrap().as_str()), (r#"{"x":[1]}"#.into(), "k"));
}

#[test]
fn what_cannot_be_joined_is_refused_and_leaves_nothing_under_the_name() {
    let server = filled();
    let path = |name: &str| server.dir.path().join(name).to_str().unwrap().to_owned();
    let refused = |arguments: &[&str], status| {
        let said = server.run(&[&["export", "customer"], arguments].concat()).failed(status);
        assert!(!fs::exists(path("out.parquet")).unwrap());
        said
    };
    let to = ["--file", &path("out.parquet")];
    assert!(refused(&[&["seen", "bought"], &to[..]].concat(), 2).contains("--spine"));
    let spine = |text: &str| server.write("s.csv", text);
    let seconds = spine("entity_id,timestamp\na,1724949845\n");
    let from = ["seen", "--spine", &seconds];
    let told = refused(&[&from, &to[..]].concat(), 1);
    assert!(told.contains("s.csv:2: timestamp: ") && told.contains("--timestamp-unit"), "{told}");
    server.ok(&[&["export", "customer"], &from[..], &to, &["--timestamp-unit", "s"]].concat());
    fs::remove_file(path("out.parquet")).unwrap();
    spine("entity_id,timestamp\na,2199-01-01T00:00:00Z\n");
    let told = refused(&[&from, &to[..]].concat(), 1);
    assert!(told.contains("s.csv:2: ") && told.contains("passed"), "{told}");
    spine("entity_id,at\na,2024-01-01T00:00:00Z\n");
    assert!(refused(&[&from, &to[..]].concat(), 1).contains("has no column \"timestamp\""));
    let told = refused(&[&["nothing", "--spine", &seconds], &to[..]].concat(), 1);
    assert!(told.contains("feature_not_found"), "{told}");
    assert!(refused(&["seen", "--as-of", "2199-01-01T00:00:00Z", to[0], to[1]], 1).contains("passed"));
}
