//! `export`, `import` of its files, and `copy`, between real servers.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::callers::ask;
use crate::doubt::{Gate, in_doubt};
use crate::program::{Server, run, signal};

/// Fragile values of each type.
fn values(value_type: &str) -> Vec<Value> {
    match value_type {
        "string" => vec![json!(""), json!("a\"b,c\nd\r"), json!("\u{feff}é😀"), json!(" spaces ")],
        "int64" => vec![json!(i64::MIN), json!(i64::MAX), json!(0)],
        "double" => vec![json!(1e300), json!(-0.0), json!(0.1), json!(5e-324)],
        "bool" => vec![json!(true), json!(false)],
        "bytes" => vec![json!(""), json!("AP8="), json!("LA==")],
        _ => vec![json!(null), json!({"b": [1, "x,\""], "a": 1.5}), json!("text"), json!([])],
    }
}

const TYPES: [&str; 6] = ["string", "int64", "double", "bool", "bytes", "json"];

/// Adds items with their nanoseconds, some of one timestamp.
fn fill(server: &Server, feature: &str, entity: usize, values: &[Value]) {
    let item = |(n, value): (usize, &Value)| json!({"timestamp": 1_724_949_845_430_000_001_u64 + n as u64 / 2, "value": value});
    let items: Vec<_> = values.iter().enumerate().map(item).collect();
    let path = format!("/v1/lists/customer/{feature}/c%2F{entity}%22,%C3%A9/items");
    ask(server.address(), "POST", &path, &json!({"items": items}).to_string()).expect(200);
}

fn rows(server: &Server, feature: &str) -> BTreeSet<String> {
    let finished = server.run(&["export", "customer", feature]);
    assert_eq!(finished.status, 0, "{finished:?}");
    finished.out.lines().map(str::to_owned).collect()
}

#[test]
fn exports_of_every_form_import_unchanged() {
    let (one, other) = (Server::start(), Server::start());
    for value_type in TYPES {
        one.feature(value_type, value_type);
        fill(&one, value_type, 1, &values(value_type));
        fill(&one, value_type, 2, &values(value_type)[..1]);
        let expected = rows(&one, value_type);
        assert_eq!(expected.len(), values(value_type).len() + 1, "{expected:?}");
        for form in ["csv", "csv.gz", "csv.zst", "ndjson", "ndjson.gz", "ndjson.zst"] {
            other.feature(value_type, value_type);
            let file = one.dir.path().join(format!("{value_type}.{form}"));
            let file = file.to_str().unwrap();
            let reported = one.ok(&["export", "customer", value_type, "--file", file]);
            assert_eq!(reported, format!("{} items of 2 lists\n", expected.len()));
            match form {
                // With the earlier names of the columns.
                "csv" => other.ok(&["import", "--entity-type", "customer", "--feature", value_type, file]),
                _ => other.ok(&["import", "customer", value_type, file]),
            };
            assert_eq!(rows(&other, value_type), expected, "{form}");
            other.ok(&["feature", "delete", "customer", value_type, "--yes"]);
            let again = one.run(&["export", "customer", value_type, "--file", file]).failed(1);
            assert!(again.contains("already exists"), "{again}");
        }
    }
}

#[test]
fn a_format_in_place_of_the_file_names_the_right_option() {
    for arguments in [&["export", "user", "seen"][..], &["entity", "export", "user"]] {
        for file in ["seen.ndjson", "./json"] {
            let finished = run(&[arguments, &["--output", file]].concat());
            assert!(finished.status == 2 && finished.err.contains("name the file with --file"), "{finished:?}");
            assert!(finished.err.contains(file) && finished.err.contains("table, json, ndjson"), "{finished:?}");
        }
    }
    // Without a file name, the output has no hint about one.
    let finished = run(&["feature", "list", "--output", "seen.ndjson"]);
    assert!(finished.status == 2 && !finished.err.contains("--file"), "{finished:?}");
}

#[test]
fn options_of_a_spine_are_refused_without_one() {
    for option in [["--delimiter", ";"], ["--timezone", "+01:00"], ["--csv-escape", "backslash"]] {
        let finished = run(&[&["export", "user", "seen", "--format", "csv"], &option[..]].concat());
        assert!(finished.status == 2 && finished.err.contains("name it with --spine"), "{finished:?}");
    }
}

/// Enough lists for several parts.
fn fill_many(server: &Server) {
    server.feature("many", "int64");
    let rows: String =
        (0..1_700).map(|n| format!("u-{},{},{n}\n", n % 1_200, 1_724_949_845_430_000_000_u64 + n)).collect();
    let file = server.write("many.csv", format!("entity_id,timestamp,value\n{rows}"));
    server.ok(&["import", "--entity-type", "customer", "--feature", "many", &file]);
}

#[test]
fn an_interrupted_export_continues_where_it_ended() {
    let server = Server::start();
    fill_many(&server);
    let expected = rows(&server, "many");
    assert_eq!(expected.len(), 1_700);
    // The state after the first part, at the beginning of the next one.
    let page = ask(server.address(), "GET", "/v1/features/customer/many/entities?page_size=500", "").expect(200);
    let first: BTreeSet<_> = page["entities"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let entity = |row: &str| serde_json::from_str::<Value>(row).unwrap()["entity_id"].as_str().unwrap().to_owned();
    let written: Vec<_> = expected.iter().filter(|row| first.contains(&*entity(row))).cloned().collect();
    let whole = written.join("\n") + "\n";
    let part = server.write("many.ndjson.part", format!("{whole}{{\"cut of"));
    let file = part.strip_suffix(".part").unwrap().to_owned();
    let state = json!({
        "run": format!("the export of customer.many, version \"\", from {} as Ndjson", server.url),
        "state": {
            "exported": {"lists": 500, "items": written.len()},
            "bytes": whole.len(),
            "page_token": page["next_page_token"],
        },
    });
    server.write("gone.ndjson.state", state.to_string());
    let gone = server.dir.path().join("gone.ndjson");
    let reported = server.run(&["export", "customer", "many", "--file", gone.to_str().unwrap()]).failed(1);
    assert!(reported.ends_with("remove it and its .state file, and export again"), "{reported}");
    // A failure after the beginning stores the position, and reports it.
    let mut refused = state.clone();
    refused["state"]["page_token"] = json!("nonsense");
    let state_file = server.write("many.ndjson.state", refused.to_string());
    let reported = server.run(&["export", "customer", "many", "--file", &file]).failed(1);
    let hint = format!("; run the same command again to continue, or remove {part} and {state_file} to start over");
    assert!(reported.contains("invalid_page_token") && reported.ends_with(&hint), "{reported}");
    assert!(fs::exists(&part).unwrap() && fs::exists(&state_file).unwrap());
    let state = server.write("many.ndjson.state", state.to_string());
    let reported = server.run(&["export", "customer", "many", "--version", "v2", "--file", &file]).failed(1);
    assert!(reported.contains("version_not_found"), "{reported}");
    // A file must not combine lists of two servers.
    let other = Server::start();
    other.feature("many", "int64");
    let reported = other.run(&["export", "customer", "many", "--file", &file]).failed(1);
    assert!(reported.contains("another run"), "{reported}");
    let reported = server.ok(&["export", "customer", "many", "--file", &file]);
    assert_eq!(reported, "1700 items of 1200 lists, some of them by an earlier run\n");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 1_700);
    assert!(text.lines().map(str::to_owned).collect::<BTreeSet<_>>() == expected);
    assert!(!fs::exists(state).unwrap() && !fs::exists(part).unwrap());
    // Each part of a compressed file is a separate stream, and readers join them.
    for ending in ["gz", "zst"] {
        let file = server.dir.path().join(format!("many.ndjson.{ending}"));
        let reported = server.ok(&["export", "customer", "many", "--file", file.to_str().unwrap(), "--output", "json"]);
        let reported: Value = serde_json::from_str(&reported).unwrap();
        assert_eq!(reported, json!({"items": 1_700, "lists": 1_200, "resumed": false}));
        let packed = fs::File::open(file).unwrap();
        let text = match ending {
            "gz" => std::io::read_to_string(flate2::read::MultiGzDecoder::new(packed)),
            _ => std::io::read_to_string(zstd::Decoder::new(packed).unwrap()),
        };
        assert_eq!(text.unwrap().lines().count(), 1_700);
    }
}

/// The file is complete or missing, wherever the run is killed, and the same command completes it.
#[test]
fn a_killed_export_leaves_no_file_and_continues() {
    let server = Server::start();
    fill_many(&server);
    server.ok(&["entity-type", "create", "customer"]);
    let bags: String =
        (0..1_200).map(|n| format!("{{\"entity_id\":\"u-{n}\",\"properties\":{{\"n\":{n}}}}}\n")).collect();
    server.ok(&["entity", "import", "customer", &server.write("bags.ndjson", bags)]);
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    for (name, export, rows) in [
        ("killed.ndjson", &["export", "customer", "many"][..], 1_700),
        ("killed.csv", &["export", "customer", "many"], 1_701),
        ("bags.out.ndjson", &["entity", "export", "customer"], 1_200),
    ] {
        let whole = server.dir.path().join(format!("whole.{name}"));
        server.ok(&[export, &["--file", whole.to_str().unwrap()]].concat());
        let whole = sorted(&fs::read_to_string(whole).unwrap());
        assert_eq!(whole.len(), rows);
        // Before the first part, in it, after it, and in the last one.
        for answers in [1, 2, 8, 15] {
            let gate = Gate::start(server.address().to_owned(), answers);
            let file = server.dir.path().join(format!("{answers}.{name}"));
            let arguments = [export, &["--file", file.to_str().unwrap(), "--url", &gate.url]].concat();
            let mut process = server.spawn(&arguments);
            gate.until_closed();
            signal(&process, Signal::SIGKILL);
            process.wait().unwrap();
            assert!(!file.exists(), "{name} {answers}");
            gate.open();
            let reported = server.ok(&arguments);
            assert_eq!(reported.contains("an earlier run"), answers >= 8, "{name} {answers}: {reported}");
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.lines().count() == rows && sorted(&text) == whole, "{name} {answers}");
            for ending in ["part", "state"] {
                assert!(!server.dir.path().join(format!("{answers}.{name}.{ending}")).exists());
            }
        }
    }
}

#[test]
fn a_copy_has_all_definitions_and_items_and_reports_exceptions() {
    let (one, other) = (Server::start(), Server::start());
    fill_many(&one);
    for value_type in TYPES {
        one.feature(value_type, value_type);
        fill(&one, value_type, 1, &values(value_type));
    }
    one.ok(&["version", "create", "customer", "json", "v2", "--ttl", "6000d"]);
    one.ok(&["list", "add", "customer", "json", "u", "--version", "v2", "--value", "{}"]);
    // One list that exceeds an answer.
    let rows_of_one: String =
        (0..12_000).map(|n| format!("long,{},{n}\n", 1_724_949_845_430_000_000_u64 + n)).collect();
    let file = one.write("long.csv", format!("entity_id,timestamp,value\n{rows_of_one}"));
    one.ok(&["import", "--entity-type", "customer", "--feature", "many", &file]);

    let copy = ["copy", "--from", &one.url, "--to", &other.url, "--state", "copy.state", "-o", "json"];
    let copied: Value = serde_json::from_str(&other.ok(&copy)).unwrap();
    assert_eq!(copied.as_array().unwrap().len(), 8, "{copied}");
    let many = copied.as_array().unwrap().iter().find(|copied| copied["feature"] == "customer.many").unwrap();
    assert_eq!((&many["to"]["lists"], &many["to"]["items"]), (&json!(1_201), &json!(13_700)), "{many}");
    assert_eq!((&many["from"], &many["copied"]), (&many["to"], &json!(13_700)));
    for feature in TYPES.into_iter().chain(["many"]) {
        assert!(rows(&one, feature) == rows(&other, feature), "{feature}");
    }
    let shown = |server: &Server| {
        let shown: Value =
            serde_json::from_str(&server.ok(&["feature", "get", "customer", "json", "-o", "json"])).unwrap();
        let versions = shown["versions"].as_array().unwrap().iter();
        let versions: Vec<_> = versions.map(|version| (version["version"].clone(), version["ttl"].clone())).collect();
        (shown["value_type"].clone(), versions)
    };
    assert_eq!(shown(&one), shown(&other));
    assert!(!fs::exists(other.dir.path().join("copy.state")).unwrap());

    // A repetition changes nothing, and finds surplus items of the target.
    let reported = other.ok(&["copy", "--from", &one.url, "--to", &other.url]);
    assert!(reported.contains("COPIED") && reported.contains(" 13700 "), "{reported}");
    other.ok(&["list", "add", "customer", "bool", "u", "--value", "true"]);
    let finished = other.run(&["copy", "--from", &one.url, "--to", &other.url, "customer"]);
    assert_eq!(finished.status, 1);
    assert!(
        finished.err.contains("differ") && finished.err.contains("customer.bool") && !finished.err.contains("many"),
        "{finished:?}"
    );
    assert!(finished.out.contains("DIFFERENT"), "{finished:?}");
    one.feature("other", "string");
    other.feature("other", "int64");
    let reported = other.run(&["copy", "--from", &one.url, "--to", &other.url, "customer", "other"]).failed(1);
    assert!(reported.contains("value type"), "{reported}");
    let reported = other.run(&["copy", "--from", &one.url, "--to", &other.url, "costumer"]).failed(1);
    assert!(reported.contains("has no feature of the entity type costumer"), "{reported}");
}

/// Otherwise a copy would stop at its own definitions.
#[test]
fn a_copy_continues_with_features_whose_creation_got_no_answer() {
    let (one, other) = (Server::start(), Server::start());
    one.feature("json", "json");
    one.ok(&["version", "create", "customer", "json", "v2", "--ttl", "6000d", "--max-items", "7"]);
    one.ok(&["version", "update", "customer", "json", "v2", "--timestamp-ahead-max", "none"]);
    one.ok(&["list", "add", "customer", "json", "u", "--version", "v2", "--value", "{}"]);
    let target = in_doubt(other.address().to_owned());
    let copied = one.ok(&["copy", "--from", &one.url, "--to", &target, "-o", "json"]);
    let copied: Value = serde_json::from_str(&copied).unwrap();
    let alike = copied.as_array().unwrap().iter().map(|version| version["from"] == version["to"]);
    assert_eq!(alike.collect::<Vec<_>>(), [true, true], "{copied}");
    let shown: Value = serde_json::from_str(&other.ok(&["feature", "get", "customer", "json", "-o", "json"])).unwrap();
    assert_eq!(shown["versions"][1]["max_items"], 7, "{shown}");
    assert_eq!(shown["versions"][1]["timestamp_ahead_max"], "none", "{shown}");
}

/// A new feature is copied before the one at which the copy was interrupted.
#[test]
fn an_interrupted_copy_continues_despite_new_features() {
    let (one, other) = (Server::start(), Server::start());
    fill_many(&one);
    one.feature("before", "string");
    one.ok(&["list", "add", "customer", "before", "u", "--value", "a"]);
    let page = ask(one.address(), "GET", "/v1/features/customer/many/entities?page_size=500", "").expect(200);
    let state = json!({
        "run": format!("the copy from {} to {}", one.url, other.url),
        "state": {
            "done": [],
            "begun": {"version": ["customer.many", ""], "page_token": page["next_page_token"]},
        },
    });
    let file = other.write("copy.state", state.to_string());
    let reported = other.ok(&["copy", "--from", &one.url, "--to", &other.url, "--state", &file]);
    assert!(!reported.contains("DIFFERENT"), "{reported}");
    assert!(rows(&one, "before") == rows(&other, "before") && rows(&one, "many") == rows(&other, "many"));
}
