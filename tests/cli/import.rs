//! `import`: the accepted files, and the results of their rows.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::doubt::unreadable;
use crate::program::{CommandOutput, Server, repository};

/// An import of customers, with the usual columns and integer timestamps in seconds.
pub fn arguments<'a>(feature: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["import", "--entity-type", "customer", "--feature", feature];
    arguments.extend(["--entity-id-column", "user", "--timestamp-column", "at"]);
    if !more.contains(&"--timestamp-unit") {
        arguments.extend(["--timestamp-unit", "s"]);
    }
    arguments.extend(more);
    arguments
}

/// Imports a file of this content.
fn import(server: &Server, feature: &str, name: &str, content: &str, more: &[&str]) -> CommandOutput {
    let file = server.write(name, content);
    server.run(&arguments(feature, &[more, &[&file]].concat()))
}

/// Seconds since the Unix epoch, in November 2023.
pub fn seconds(n: u64) -> u64 {
    1_700_000_000 + n
}

/// The summary without its times.
pub fn counts(summary: &str) -> &str {
    summary.split(" (").next().unwrap()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_sample_reads_back_unchanged() {
    let server = Server::start();
    server.feature("purchase", "string");
    server.feature("basket", "json");
    let file = repository().join("examples/purchases.csv");
    let file = file.to_str().unwrap();
    let columns = ["--entity-id-column", "customer_id", "--timestamp-column", "invoice_date"];
    // Some rows repeat the item of another row.
    for (feature, values, distinct) in [
        ("purchase", ["--value-column", "stock_code"], 1892),
        ("basket", ["--value-columns", "stock_code,quantity"], 1900),
    ] {
        // Twice: the second time changes nothing.
        for (added, there) in [(distinct, 1905 - distinct), (0, 1905)] {
            let start = ["import", "--entity-type", "customer", "--feature", feature];
            let out = server.ok(&[&start[..], &columns, &values, &[file]].concat());
            let expected = format!("1905 rows: {added} items added, {there} already there, 0 already expired, 0 bad");
            assert_eq!(counts(&out), expected);
        }
    }
    let mut purchases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut baskets = purchases.clone();
    for record in csv::Reader::from_path(file).unwrap().records() {
        let record = record.unwrap();
        let timestamp = record[2].replace('Z', ".000000000Z");
        purchases.entry(record[0].to_owned()).or_default().push(format!("{timestamp} \"{}\"", &record[1]));
        let basket = format!(r#"{timestamp} {{"quantity":"{}","stock_code":"{}"}}"#, &record[4], &record[1]);
        baskets.entry(record[0].to_owned()).or_default().push(basket);
    }
    assert!(purchases.len() > 20);
    // All items of a few lists. Ties have their own order.
    for (feature, expected) in [("purchase", purchases), ("basket", baskets)] {
        for (entity_id, mut expected) in expected.into_iter().take(12) {
            let mut items = server.items(feature, &entity_id);
            assert!(items.is_sorted_by(|a, b| a[..30] >= b[..30]), "{items:?}");
            items.sort();
            expected.sort();
            expected.dedup();
            assert_eq!(items, expected, "{feature} {entity_id}");
        }
    }
}

#[test]
fn cells_become_values_of_the_features_type() {
    let server = Server::start();
    for (value_type, cell, value) in [
        ("string", "12", "\"12\""),
        ("int64", "12.0", "12"),
        ("double", "1.50", "1.5"),
        ("bool", "True", "true"),
        ("bytes", "AP8=", "\"AP8=\""),
        ("json", "\"{\"\"b\"\": [1], \"\"a\"\": null}\"", r#"{"a":null,"b":[1]}"#),
    ] {
        server.feature(value_type, value_type);
        let finished = import(
            &server,
            value_type,
            "in.csv",
            &format!("user,at,v\nu,1700000005,{cell}\n"),
            &["--value-column", "v"],
        );
        assert_eq!(counts(&finished.ok()), "1 row: 1 item added, 0 already there, 0 already expired, 0 bad");
        assert_eq!(server.items(value_type, "u"), [format!("2023-11-14T22:13:25.000000000Z {value}")]);
    }
    let finished = import(
        &server,
        "int64",
        "in.csv",
        "user,at,v\nu,1700000005,12\nu,1700000006,twelve\n",
        &["--value-column", "v"],
    );
    assert!(finished.err.contains("in.csv, line 3: v: must be an integer"), "{finished:?}");
}

/// An item counts as already there if its list shows it, whatever else the list has.
#[test]
fn items_that_were_already_there_are_counted_apart() {
    let server = Server::start();
    server.feature("f", "string");
    let more = ["--value-column", "v"];
    let added = |rows: &str, more: &[&str]| {
        let finished = import(&server, "f", "in.csv", &format!("user,at,v\n{rows}"), more);
        counts(&finished.ok()).split(": ").nth(1).unwrap().split(", 0 already expired").next().unwrap().to_owned()
    };
    // Enough items that the range of a few rows is not read as a whole.
    let all: String = (0..1_000).map(|n| format!("u,{},a\n", seconds(n))).collect();
    assert_eq!(added(&all, &more), "1000 items added, 0 already there");
    let few = [0, 500, 999].map(|n| format!("u,{0},a\nu,{0},b\n", seconds(n))).concat();
    assert_eq!(added(&few, &more), "3 items added, 3 already there");
    assert_eq!(added(&few, &more), "0 items added, 6 already there");
    // Another value at the same time, and the same value at another time.
    assert_eq!(
        added(&format!("u,{},c\nu,{},a\n", seconds(1), seconds(1_000)), &more),
        "2 items added, 0 already there"
    );
    // Rows with many others in between are found with a few reads, or not compared.
    let apart = |every: u64| (0..20).map(|n| format!("u,{},a\n", seconds(n * every))).collect::<String>();
    assert_eq!(added(&apart(25), &more), "0 items added, 20 already there");
    let all: String = (1_001..2_000).map(|n| format!("u,{},a\n", seconds(n))).collect();
    assert_eq!(added(&all, &more), "999 items added, 0 already there");
    assert_eq!(added(&apart(100), &more), "20 items added or already there");
    // Other lists have other items.
    assert_eq!(added(&few.replace("u,", "w,"), &more), "6 items added, 0 already there");
    assert_eq!(added(&few, &["--value-column", "v", "--compare", "0"]), "6 items added or already there");
    let file = server.write("in.csv", format!("user,at,v\n{few}{}", few.replace("u,", "x,")));
    let finished = server.run(&arguments("f", &["--value-column", "v", "--compare", "1", "-o", "json", &file]));
    assert!(finished.err.starts_with("note: 6 of 12 items were compared with their lists"), "{finished:?}");
    let summary: serde_json::Value = serde_json::from_str(&finished.out).unwrap();
    let there = summary["already_there"].as_u64().unwrap();
    assert_eq!((&summary["compared"], summary["added"].as_u64()), (&6.into(), Some(12 - there)));
}

#[test]
fn members_of_a_set_that_were_already_there_are_counted_apart() {
    let server = Server::start();
    for identity in ["key", "value"] {
        let create = ["feature", "create", "customer", identity, "--value-type", "string", "--ttl", "7300d"];
        server.ok(&[&create[..], &["--identity", identity, "-o", "json"]].concat());
        let added = |rows: &str| {
            let more = ["--value-column", "v"];
            let finished = import(&server, identity, "in.csv", &format!("user,at,key,v\n{rows}"), &more);
            counts(&finished.ok()).split(": ").nth(1).unwrap().split(", 0 already expired").next().unwrap().to_owned()
        };
        let (early, late) = (seconds(1), seconds(2));
        assert_eq!(added(&format!("u,{early},a,x\nu,{early},b,y\n")), "2 items added, 0 already there");
        // A member that is renewed was there, and a row may repeat another one of the file.
        let rows = format!("u,{late},a,x\nu,{late},c,z\nu,{early},c,z\n");
        assert_eq!(added(&rows), "1 item added, 2 already there");
    }
}

#[test]
fn lists_that_cannot_be_read_are_imported_without_a_comparison() {
    let server = Server::start();
    server.feature("f", "string");
    let file = server.write("in.csv", "user,at,v\nu,1700000001,a\nw,1700000001,a\n");
    let url = unreadable(server.address().to_owned());
    let finished = server.run(&arguments("f", &["--value-column", "v", "--url", &url, &file]));
    assert!(
        finished.err.starts_with("warning: cannot compare more items with their lists: may not read"),
        "{finished:?}"
    );
    assert_eq!(finished.err.lines().count(), 1, "{finished:?}");
    assert_eq!(
        (finished.status, counts(&finished.out)),
        (0, "2 rows: 2 items added or already there, 0 already expired, 0 bad")
    );
    assert_eq!(server.items("f", "u").len(), 1);
}

#[test]
fn ndjson_keeps_its_types() {
    let server = Server::start();
    server.feature("f", "json");
    server.feature("n", "int64");
    let rows = "{\"user\":17850,\"at\":\"2024-01-01T00:00:00Z\",\"v\":{\"b\":1.0},\"w\":[true,null],\"x\":0}\n\n\
                {\"user\":\"u\",\"at\":1704067200000,\"v\":\"s\",\"w\":-1}\n";
    let more = ["--value-columns", "w,v", "--timestamp-unit", "ms"];
    assert_eq!(
        counts(&import(&server, "f", "in.ndjson", rows, &more).ok()),
        "2 rows: 2 items added, 0 already there, 0 already expired, 0 bad"
    );
    assert_eq!(server.items("f", "17850"), [r#"2024-01-01T00:00:00.000000000Z {"v":{"b":1},"w":[true,null]}"#]);
    assert_eq!(server.items("f", "u"), [r#"2024-01-01T00:00:00.000000000Z {"v":"s","w":-1}"#]);
    let big = "{\"user\":\"u\",\"at\":\"1704067200000000000\",\"v\":9007199254740993}\n";
    import(&server, "n", "in.jsonl", big, &["--value-column", "v", "--timestamp-unit", "ns"]).ok();
    assert_eq!(server.items("n", "u"), ["2024-01-01T00:00:00.000000000Z 9007199254740993"]);
}

#[test]
fn files_may_be_several_compressed_and_standard_input() {
    let server = Server::start();
    server.feature("f", "string");
    let plain = server.write("plain.csv", "user,at,v\nu,1700000001,plain\n");
    let other = server.write("other.csv.gz", gzip("at,v,user,more\n1700000002,\"gz, \"\"other\"\" order\",u,x\n"));
    let more = ["--value-column", "v", "--format", "csv", &plain, "-", &other];
    let finished = server.run_with_input(&arguments("f", &more), &gzip("user,at,v\nu,1700000003,stdin\n"));
    assert_eq!(counts(&finished.ok()), "3 rows: 3 items added, 0 already there, 0 already expired, 0 bad");
    let values: Vec<String> = server.items("f", "u").iter().map(|item| item[31..].to_owned()).collect();
    assert_eq!(values, ["\"stdin\"", "\"gz, \\\"other\\\" order\"", "\"plain\""]);
}

#[test]
fn a_byte_order_mark_is_skipped_and_backslashes_escape_on_request() {
    let server = Server::start();
    server.feature("f", "string");
    let marked = "\u{feff}user,at,v\nu,1700000001,a\n";
    assert!(import(&server, "f", "in.csv", marked, &["--value-column", "v"]).ok().starts_with("1 row: 1 "));
    let marked = "\u{feff}{\"user\":\"u\",\"at\":1700000002,\"v\":\"b\"}\n";
    assert!(import(&server, "f", "in.ndjson", marked, &["--value-column", "v"]).ok().starts_with("1 row: 1 "));
    let spark = "user,at,v\nu,1700000003,\"say \\\"hi\\\", C:\\\\\"\n";
    let reported = import(&server, "f", "in.csv", spark, &["--value-column", "v"]);
    assert!(reported.status == 1 && reported.err.contains("--csv-escape backslash"), "{reported:?}");
    let read = import(&server, "f", "in.csv", spark, &["--value-column", "v", "--csv-escape", "backslash"]);
    assert!(read.ok().starts_with("1 row: 1 "));
    let values: Vec<String> = server.items("f", "u").iter().map(|item| item[31..].to_owned()).collect();
    assert_eq!(values, [r#""say \"hi\", C:\\""#, "\"b\"", "\"a\""]);
}

#[test]
fn items_go_to_the_named_version_and_the_expired_are_counted() {
    let server = Server::start();
    server.ok(&["feature", "create", "customer", "f", "--value-type", "string", "--ttl", "30d", "-o", "json"]);
    server.ok(&["version", "create", "customer", "f", "v2", "--ttl", "7300d", "-o", "json"]);
    let rows = "user,at,v\nu,2010-12-01T08:26:00Z,old\n";
    let finished = import(&server, "f", "in.csv", rows, &["--value-column", "v"]);
    assert!(finished.status == 1 && finished.err.contains("1 of 1 items have already expired"), "{finished:?}");
    assert_eq!(counts(&finished.out), "1 row: 0 items added, 0 already there, 1 already expired, 0 bad");
    let finished = import(&server, "f", "in.csv", rows, &["--value-column", "v", "--yes"]);
    assert_eq!(counts(&finished.ok()), "1 row: 0 items added, 0 already there, 1 already expired, 0 bad");
    let finished = import(&server, "f", "in.csv", rows, &["--value-column", "v", "--version", "v2", "-o", "json"]);
    let summary: serde_json::Value = serde_json::from_str(&finished.ok()).unwrap();
    assert_eq!((&summary["rows"], &summary["added"], &summary["already_expired"]), (&1.into(), &1.into(), &0.into()));
    let reported = import(&server, "f", "in.csv", rows, &["--value-column", "v", "--version", "v3"]).failed(1);
    assert!(reported.contains("no version \"v3\""), "{reported}");
}

#[test]
fn many_or_large_items_are_sent_in_parts() {
    let server = Server::start();
    server.feature("f", "string");
    let rows: String = (0..2_500).map(|n| format!("many,{},v{n}\n", seconds(n))).collect();
    // 60 values of 60,000 bytes: 3.6 MB for one list, above the server's limit for a body.
    let large: String = (0..60).map(|n| format!("large,{},{}\n", seconds(n), "x".repeat(60_000))).collect();
    let finished = import(&server, "f", "in.csv", &format!("user,at,v\n{rows}{large}"), &["--value-column", "v"]);
    assert_eq!(counts(&finished.ok()), "2560 rows: 2560 items added, 0 already there, 0 already expired, 0 bad");
    assert_eq!((server.items("f", "many").len(), server.items("f", "large").len()), (2_500, 60));
}

#[test]
fn a_server_with_a_smaller_bound_gets_smaller_bodies() {
    let server = Server::start_with(&[("LISTSTORE__HTTP__BODY_BYTES_MAX", "4 KiB")]);
    server.feature("f", "string");
    let rows: String = (0..500).map(|n| format!("u,{},v{n}\n", seconds(n))).collect();
    let huge = format!("u,{},{}\n", seconds(999), "x".repeat(5_000));
    let finished = import(
        &server,
        "f",
        "in.csv",
        &format!("user,at,v\n{rows}{huge}"),
        &["--value-column", "v", "--bad-rows", "bad.csv"],
    );
    assert_eq!(counts(&finished.ok()), "501 rows: 500 items added, 0 already there, 0 already expired, 1 bad");
    assert_eq!(server.items("f", "u").len(), 500);
}

#[test]
fn a_busy_server_is_retried() {
    let one_at_a_time = [
        ("LISTSTORE__ITEMS__ACTORS", "1"),
        ("LISTSTORE__ITEMS__PERMITS_PER_ACTOR", "1"),
        ("LISTSTORE__ITEMS__PERMIT_WAIT_MS", "0"),
        // A permit that waits for a slow disk would be taken until the import gives up.
        ("LISTSTORE__ITEMS__EMBEDDED__FSYNC", "interval"),
    ];
    let server = Server::start_with(&one_at_a_time);
    server.feature("f", "string");
    let rows: String = (0..2_000).map(|n| format!("u{},{},v\n", n % 200, seconds(n))).collect();
    let more = ["--value-column", "v", "--concurrency", "16"];
    let finished = import(&server, "f", "in.csv", &format!("user,at,v\n{rows}"), &more);
    assert_eq!(counts(&finished.ok()), "2000 rows: 2000 items added, 0 already there, 0 already expired, 0 bad");
    assert_eq!(server.items("f", "u7").len(), 10);
}
