//! Times as people and other programs write them, on the command line and in files.

use serde::Deserialize;

use crate::program::Server;

#[derive(Deserialize)]
struct Table {
    files: Vec<Spelling>,
}

#[derive(Deserialize)]
struct Spelling {
    form: String,
    text: String,
    at: Option<String>,
    refused: Option<String>,
}

fn create(server: &Server) {
    let feature = ["feature", "create", "customer", "f", "--value-type", "string", "--ttl", "20y"];
    server.ok(&[&feature[..], &["--timestamp-ahead-max", "none"]].concat());
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// `timestamp` of each item, newest first.
fn times(server: &Server, entity_id: &str) -> Vec<String> {
    server.items("f", entity_id).iter().map(|item| item.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn a_file_has_every_spelling_of_the_table() {
    let server = Server::start();
    create(&server);
    let table: Table = serde_json::from_str(include_str!("../support/typed_times.json")).unwrap();
    let mut writer = csv::Writer::from_path(server.dir.path().join("in.csv")).unwrap();
    writer.write_record(["entity_id", "timestamp", "value"]).unwrap();
    for (number, spelling) in table.files.iter().enumerate() {
        writer.write_record([&format!("u{number}"), &*spelling.text, "x"]).unwrap();
    }
    writer.flush().unwrap();
    let finished = server.run(&["import", "customer", "f", "in.csv", "--bad-rows", "bad.csv"]);
    assert_eq!(finished.status, 0, "{finished:?}");
    assert_eq!(finished.err.matches("read as UTC").count(), 1, "{finished:?}");
    let bad = std::fs::read_to_string(server.dir.path().join("bad.csv")).unwrap();
    for (number, Spelling { form, at, refused, .. }) in table.files.iter().enumerate() {
        assert_eq!(times(&server, &format!("u{number}")), at.iter().cloned().collect::<Vec<_>>(), "{form}");
        let reason = refused.as_deref().unwrap_or_default();
        let row = bad.lines().find(|line| line.contains(&format!(",u{number},")));
        assert_eq!(row.is_some_and(|row| row.contains(reason)), refused.is_some(), "{form}: {row:?}");
    }
}

#[test]
fn commands_take_dates_and_times_relative_to_now() {
    let server = Server::start();
    create(&server);
    for (value, at) in [("old", "2024-08-29"), ("day", "-1d2h"), ("new", "now")] {
        let finished = server.run(&["list", "add", "customer", "f", "u", value, "--timestamp", at]);
        assert_eq!(finished.status, 0, "{finished:?}");
    }
    let count = |bounds: &[&str]| server.run(&[&["list", "count", "customer", "f", "u"], bounds].concat());
    for (bounds, expected) in [
        (&["--min-timestamp", "-1w"][..], "2"),
        (&["--min-timestamp", "-1h", "--max-timestamp", "+1h"], "1"),
        (&["--max-timestamp", "2024-08-29T00:00:00Z"], "1"),
    ] {
        let finished = count(bounds);
        assert_eq!((finished.out.trim(), finished.err.as_str()), (expected, ""), "{bounds:?}");
    }
    let finished = count(&["--min-timestamp", "2024-08-28", "--max-timestamp", "2024-08-30 12:00"]);
    assert_eq!((finished.status, finished.out.trim()), (0, "1"));
    assert_eq!(finished.err, "note: 2024-08-28 has no time zone and is read as UTC\n");
    assert!(times(&server, "u").contains(&"2024-08-29T00:00:00.000000000Z".to_owned()));
    for (text, part) in [
        ("7d", "write -7d for 7d ago"),
        ("1724949845", "likely seconds: write 2024-08-29T16:44:05"),
        ("yesterday", "now, -7d (7 days ago)"),
        ("11/20/2026", "write the year first"),
    ] {
        let refused = count(&["--min-timestamp", text]);
        assert!(refused.status == 2 && refused.err.contains(part), "{refused:?}");
    }
    server.ok(&["audit", "--since", "-1h"]);
}

#[test]
fn bounds_of_an_index_are_numbers_or_times() {
    let server = Server::start();
    server.ok(&["entity-type", "create", "customer", "-o", "json"]);
    server.ok(&["entity", "put", "customer", "u-1", r#"{"city":"Paris","score":7.5}"#, "-o", "json"]);
    for (index, order) in [("by_city", &[][..]), ("by_score", &["--order-by", "/score"])] {
        let create = ["index", "create", "customer", index, "--property", "/city", "--wait", "-o", "json"];
        server.ok(&[&create[..], order].concat());
    }
    for (index, bounds, is_found) in [
        ("by_city", &["--min", "-1h"][..], true),
        ("by_city", &["--min", "2024-08-29T00:00:00Z", "--max", "+1h"], true),
        ("by_city", &["--max", "-1h"], false),
        ("by_score", &["--min", "-1", "--max", "7.5"], true),
        ("by_score", &["--min", "8e0"], false),
        ("by_score", &["--max", "1950-08-29T00:00:00Z"], true),
        ("by_score", &["--max", "1950-08-29"], true),
        ("by_score", &["--max", "\"1950-08-29T00:00:00Z\""], true),
        ("by_city", &["--min", "3 hours ago"], true),
        ("by_city", &["--max", "3 hours ago"], false),
    ] {
        let found = server.run(&[&["entity", "find", "customer", index, "--value", "Paris"], bounds].concat());
        assert_eq!((found.status, found.out.contains("u-1")), (0, is_found), "{bounds:?}: {found:?}");
    }
    let refused = server.run(&["entity", "find", "customer", "by_city", "--value", "Paris", "--min", "yesterday"]);
    assert!(refused.status == 2 && refused.err.contains("-7d (7 days ago)"), "{refused:?}");
}

#[test]
fn files_of_other_programs_are_read_with_their_dialect() {
    let server = Server::start();
    create(&server);
    let import = |file: &str, more: &[&str]| server.run(&[&["import", "customer", "f", file], more].concat());
    let text = "\u{feff}entity_id;timestamp;value\r\na;11/20/2024 16:44;\"x;é\"\r\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let file = server.write("excel.csv", utf16);
    let refused = import(&file, &[]);
    assert!(refused.status == 1 && refused.err.contains("pass --delimiter ';'"), "{refused:?}");
    let refused = import(&file, &["--delimiter", ";"]);
    assert!(refused.status == 1 && refused.err.contains("--timestamp-format '%m/%d/%Y %H:%M'"), "{refused:?}");
    let zone = ["--delimiter", ";", "--timestamp-format", "%m/%d/%Y %H:%M", "--timezone", "-05:00"];
    let finished = import(&file, &zone);
    assert_eq!((finished.status, finished.err.as_str()), (0, ""), "{finished:?}");
    assert_eq!(server.items("f", "a"), ["2024-11-20T21:44:00.000000000Z \"x;é\""]);

    let file = server.write("tabs.csv", "entity_id\ttimestamp\tvalue\nb\t1732139040.5\tx,y\nb\tsoon\tz\n");
    let tabs = ["--delimiter", "tab", "--timestamp-unit", "s", "--bad-rows", "bad.csv", "-o", "json"];
    assert_eq!(json(&import(&file, &tabs).ok())["bad"], 1);
    assert_eq!(server.items("f", "b"), ["2024-11-20T21:44:00.500000000Z \"x,y\""]);
    // The file of bad rows has the same delimiter, so that the same command reads it.
    let bad = std::fs::read_to_string(server.dir.path().join("bad.csv")).unwrap();
    let corrected = server.write("corrected.csv", bad.replace("\tsoon\t", "\t1732139041\t"));
    import(&corrected, &["--delimiter", "tab", "--timestamp-unit", "s"]).ok();
    assert_eq!(server.items("f", "b").len(), 2);

    for (option, value) in [("--delimiter", "ab"), ("--timezone", "Mars"), ("--timestamp-format", "%H:%M")] {
        assert_eq!(import(&file, &[option, value]).status, 2, "{option}");
    }
}

#[test]
fn a_ttl_has_weeks_and_years_and_its_refusal_names_the_units() {
    let server = Server::start();
    let create = |name: &str, ttl: &str| {
        server.run(&["feature", "create", "customer", name, "--value-type", "string", "--ttl", ttl, "-o", "json"])
    };
    assert_eq!(json(&create("a", "2w").ok())["ttl"], "14d");
    assert_eq!(json(&create("b", "1y").ok())["ttl"], "365d");
    for ttl in ["30", "30days", "1M"] {
        let refused = create("c", ttl);
        assert!(refused.status == 2 && refused.err.contains("units y, w, d, h, m, s"), "{refused:?}");
    }
}
