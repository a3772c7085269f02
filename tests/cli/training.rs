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
    let reported = server.ok(&[
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
    assert_eq!(reported, "6 rows with 11 items\n");
    output
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_training_set_has_lists_as_of_each_row() {
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
        // An empty cell is null. A column of numbers has numbers.
        assert_eq!(row["label"], label.parse::<i64>().map_or(Value::Null, |label| json!(label)));
        assert_eq!(row["note"], if note.is_empty() { Value::Null } else { json!(note) });
    }
    assert_eq!(rows[0]["seen"], json!([]));
    let seen: Vec<_> = rows[2]["seen"].as_array().unwrap().iter().map(|item| &item["value"]).collect();
    assert_eq!(seen, ["b\"2", "b\"1", "b\"0"]);
    assert_eq!((&rows[2]["bought"][0]["value"], &rows[3]["bought"]), (&json!(9_007_199_254_740_993_i64), &json!([])));
    // The output is a spine as well, compressed and as CSV, and gives the same result.
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
    // All items, of every type.
    server.ok(&["export", "customer", "state", "--file", &path("state.parquet")]);
    let rows = parquet(&path("state.parquet"));
    assert_eq!((bytes_of(&rows[0], 5), rows[0].get_string(6).unwrap().as_str()), (r#"{"x":[1]}"#.into(), "k"));
}

#[test]
fn an_impossible_join_is_refused_and_leaves_no_file() {
    let server = filled();
    let path = |name: &str| server.dir.path().join(name).to_str().unwrap().to_owned();
    let refused = |arguments: &[&str], status| {
        let error = server.run(&[&["export", "customer"], arguments].concat()).failed(status);
        assert!(!fs::exists(path("out.parquet")).unwrap());
        error
    };
    let to = ["--file", &path("out.parquet")];
    assert!(refused(&[&["seen", "bought"], &to[..]].concat(), 2).contains("--spine"));
    let spine = |text: &str| server.write("s.csv", text);
    let seconds = spine("entity_id,timestamp\na,1724949845\n");
    let from = ["seen", "--spine", &seconds];
    let reported = refused(&[&from, &to[..]].concat(), 1);
    assert!(reported.contains("s.csv:2: timestamp: ") && reported.contains("--timestamp-unit"), "{reported}");
    server.ok(&[&["export", "customer"], &from[..], &to, &["--timestamp-unit", "s"]].concat());
    fs::remove_file(path("out.parquet")).unwrap();
    spine("entity_id,timestamp\na,2199-01-01T00:00:00Z\n");
    let reported = refused(&[&from, &to[..]].concat(), 1);
    assert!(reported.contains("s.csv:2: ") && reported.contains("future"), "{reported}");
    spine("entity_id,at\na,2024-01-01T00:00:00Z\n");
    assert!(refused(&[&from, &to[..]].concat(), 1).contains("has no column \"timestamp\""));
    let reported = refused(&[&["nothing", "--spine", &seconds], &to[..]].concat(), 1);
    assert!(reported.contains("feature_not_found"), "{reported}");
    let reported = refused(&["seen", "--as-of", "2199-01-01T00:00:00Z", to[0], to[1]], 1);
    assert!(reported.contains("future"), "{reported}");
}

#[test]
fn a_training_set_changes_no_cell_of_its_spine() {
    let server = filled();
    let path = |name: &str| server.dir.path().join(name).to_str().unwrap().to_owned();
    let names = ["mixed", "id", "zip", "version", "flag", "idx", "score", "is_new"];
    let cells = [
        ["9007199254740993", "18446744073709551615", "00184", "1.10", "True", "1", "0.25", "true"],
        ["0.5", "18446744073709551614", "75007", "1.9", "False", "-2", "1e-05", "false"],
    ];
    let at = "2024-08-29T16:44:07.430000000Z";
    let row = |cells: &[&str; 8]| format!("a,{at},{}\n", cells.join(","));
    let text: String = cells.iter().map(row).collect();
    let spine = server.write("s.csv", format!("entity_id,timestamp,{}\n{text}", names.join(",")));
    for name in ["set.csv", "set.ndjson", "set.parquet"] {
        server.ok(&["export", "customer", "seen", "--spine", &spine, "--file", &path(name)]);
    }
    let mut csv = csv::Reader::from_path(path("set.csv")).unwrap();
    for (record, cells) in csv.records().zip(cells) {
        assert_eq!(record.unwrap().iter().skip(2).take(8).collect::<Vec<_>>(), cells);
    }
    let rows = lines(&fs::read_to_string(path("set.ndjson")).unwrap());
    for (row, cells) in rows.iter().zip(cells) {
        let text = |name: &&str| row[*name].as_str().map_or_else(|| row[*name].to_string(), str::to_owned);
        let found = names.iter().map(text).collect::<Vec<_>>();
        // serde_json has another text for the same double.
        assert_eq!(found.iter().map(|cell| cell.replace("0.00001", "1e-05")).collect::<Vec<_>>(), cells);
    }
    let rows = parquet(&path("set.parquet"));
    for (row, cells) in rows.iter().zip(cells) {
        for column in [0, 2, 3, 4] {
            assert_eq!(row.get_string(2 + column).unwrap(), cells[column]);
        }
        assert_eq!(row.get_ulong(3).unwrap().to_string(), cells[1]);
        assert_eq!(row.get_long(7).unwrap().to_string(), cells[5]);
        assert_eq!(row.get_double(8).unwrap(), cells[6].parse::<f64>().unwrap());
        assert_eq!(row.get_bool(9).unwrap().to_string(), cells[7]);
    }
    // A spine in NDJSON distinguishes numbers from strings, regardless of the column's other values.
    let line = |mixed: &str| format!("{{\"entity_id\":\"a\",\"timestamp\":\"{at}\",\"mixed\":{mixed}}}\n");
    let mixed = ["9007199254740993", "0.50", "\"0.50\"", "[1]"];
    let spine = server.write("s.ndjson", mixed.map(line).concat());
    for name in ["two.ndjson", "two.parquet"] {
        server.ok(&["export", "customer", "seen", "--spine", &spine, "--file", &path(name)]);
    }
    let text = fs::read_to_string(path("two.ndjson")).unwrap();
    for ((row, line), cell) in parquet(&path("two.parquet")).iter().zip(text.lines()).zip(mixed) {
        assert!(line.contains(&format!("\"mixed\":{cell},")), "{line}");
        assert_eq!(bytes_of(row, 2), cell);
    }
}

#[test]
fn a_truncated_spine_is_refused_and_leaves_no_file() {
    let server = filled();
    let out = server.dir.path().join("out.ndjson");
    let join = |spine: &str, more: &[&str]| {
        let arguments = ["export", "customer", "seen", "--spine", spine, "--file", out.to_str().unwrap()];
        server.run(&[&arguments, more].concat())
    };
    let head = "entity_id,timestamp,label\n";
    for (name, text, expected) in [
        ("s.csv", format!("{head}a,{BASE},\"1\na,{BASE},0\na,{BASE},1\n"), "s.csv:2: unclosed quote"),
        ("s.csv", format!("{head}a,{BASE},\"1\"0\n"), "s.csv:2: text after a closing quote"),
        ("s.csv", format!("{head}a,{BASE},1\na,{BASE}"), "s.csv:3: the file ends within"),
        ("s.csv", format!("x\u{1b}[31m,{head}"), "s.csv: has two columns"),
        ("s.csv", "x\u{1b}[31m,timestamp\n".to_owned(), "s.csv: has no column"),
        ("s.ndjson", format!("{{\"entity_id\":\"a\",\"timestamp\":{BASE}}}\n{{\"ent"), "s.ndjson:2: EOF"),
        ("s.csv.gz", String::new(), "s.csv.gz: the file is empty"),
    ] {
        let text = if expected.contains("two columns") { text.replace("label", "x\u{1b}[31m") } else { text };
        let reported = join(&server.write(name, text), &[]).failed(1);
        assert!(reported.contains(expected) && !reported.contains('\u{1b}'), "{name}: {reported}");
        assert!(!out.exists());
    }
    let open = server.write("s.csv", format!("\u{feff}{head}a,{BASE},1"));
    let finished = join(&open, &[]);
    assert!(finished.status == 0 && finished.err.contains("s.csv:2: the last row has no line end"), "{finished:?}");
    fs::remove_file(&out).unwrap();
    let escaped = server.write("s.csv", format!("{head}a,{BASE},\"\\\"hi\\\"\"\n"));
    assert!(join(&escaped, &[]).failed(1).contains("--csv-escape backslash"));
    assert_eq!(join(&escaped, &["--csv-escape", "backslash"]).ok(), "1 row with 1 item\n");
    assert_eq!(lines(&fs::read_to_string(&out).unwrap())[0]["label"], "\"hi\"");
}
