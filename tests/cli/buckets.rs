//! Buckets on the command line: in definitions and their files, and a copy to a version with different buckets.

use serde_json::{Value, json};

use crate::callers::ask;
use crate::program::Server;

fn versions(server: &Server) -> Vec<(String, Value)> {
    let shown: Value = serde_json::from_str(&server.ok(&["feature", "get", "user", "seen", "-o", "json"])).unwrap();
    let versions = shown["versions"].as_array().unwrap().iter();
    versions.map(|version| (version["version"].as_str().unwrap().to_owned(), version["bucket"].clone())).collect()
}

#[test]
fn definitions_and_their_files_have_buckets() {
    let (one, other) = (Server::start(), Server::start());
    let create = ["feature", "create", "user", "seen", "--value-type", "string", "--ttl", "30d", "--bucket", "month"];
    let shown = one.ok(&create);
    assert!(shown.contains("bucket       month"), "{shown}");
    one.ok(&["version", "create", "user", "seen", "same"]);
    one.ok(&["version", "create", "user", "seen", "day", "--bucket", "day"]);
    one.ok(&["version", "create", "user", "seen", "whole", "--bucket", "none"]);
    one.ok(&["version", "create", "user", "seen", "set", "--bucket", "none", "--identity", "value"]);
    let reported = one.run(&["version", "create", "user", "seen", "x", "--bucket", "hour"]);
    assert!(reported.status == 2 && reported.err.contains("day, week, month, year or none"), "{reported:?}");
    let expected = [("", "month"), ("day", "day"), ("same", "month"), ("set", ""), ("whole", "")];
    let expected = expected
        .map(|(version, bucket)| (version.to_owned(), if bucket.is_empty() { Value::Null } else { json!(bucket) }));
    assert_eq!(versions(&one), expected);
    let text = one.ok(&["feature", "export"]);
    let file = other.write("features.yaml", &text);
    let planned = other.ok(&["feature", "import", &file]);
    assert!(planned.contains("+ user.seen: string, ttl 30d, bucket month\n"), "{planned}");
    assert!(planned.contains("version day: ttl 30d, bucket day\n"), "{planned}");
    assert_eq!(versions(&other), expected);
    assert_eq!(other.ok(&["feature", "import", &file]), "no changes\n");
    let changed = other.write("changed.yaml", text.replacen("bucket: month", "bucket: week", 1));
    let reported = other.run(&["feature", "import", &changed]).failed(1);
    assert!(reported.contains("cannot be changed") && reported.contains("liststore copy"), "{reported}");
}

/// As docs/reference/transfer.md describes: writers add to both versions from some moment on, during the copy.
#[test]
fn a_copy_to_another_version_under_writes_loses_and_duplicates_nothing() {
    let server = Server::start();
    server.ok(&["feature", "create", "user", "seen", "--value-type", "int64", "--ttl", "7000d"]);
    let base = 1_724_949_845_430_000_000_u64;
    let rows: String =
        (0..3_000).map(|n| format!("u-{},{},{n}\n", n % 300, base + n * 86_400_000_000_000 / 40)).collect();
    let file = server.write("before.csv", format!("entity_id,timestamp,value\n{rows}"));
    server.ok(&["import", "user", "seen", &file]);
    server.ok(&["version", "create", "user", "seen", "by_month", "--bucket", "month"]);
    let add = |version: &str, n: u64| {
        let path = format!("/v1/lists/user/seen/u-{}/items?version={version}", n % 350);
        let item = json!({"timestamp": base + 10_000_000_000_000_000 + n, "value": n});
        ask(server.address(), "POST", &path, &json!({"items": [item]}).to_string()).expect(200);
    };
    let copy = ["copy", "--from", &server.url, "--to", &server.url, "user", "seen", "--version", ""];
    let copy = [&copy[..], &["--to-version", "by_month"]].concat();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (live, finished) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0;
            // Some before the copy, some during it, and some after it.
            while count < 200 || !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                add("", count);
                add("by_month", count);
                count += 1;
            }
            count
        });
        let finished = server.run(&copy);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        (writer.join().unwrap(), finished)
    });
    // The comparison may have found an item whose counterpart was still in flight.
    assert!(finished.status == 0 || finished.err.contains("differ"), "{finished:?}");
    let reported: Value = serde_json::from_str(&server.ok(&[&copy[..], &["-o", "json"]].concat())).unwrap();
    assert_eq!(
        (&reported[0]["from"], &reported[0]["to"]["items"]),
        (&reported[0]["to"], &json!(3_000 + live)),
        "{reported}"
    );
    let reported = server.run(&["copy", "--from", &server.url, "--to", &server.url, "user", "seen", "--version", "no"]);
    assert!(reported.failed(1).contains("create it first"));
    server.ok(&["version", "create", "user", "seen", "shorter", "--ttl", "1d"]);
    let reported = server.run(&[&copy[..9], &["--to-version", "shorter"]].concat()).failed(1);
    assert!(reported.contains("must have the same value type, ttl, max_items and identity"), "{reported}");
}
