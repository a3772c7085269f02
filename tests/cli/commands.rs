//! `feature`, `version` and `list` against a server.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::program::{Server, run};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn features_are_managed_from_creation_to_history() {
    let server = Server::start();
    let created = server.ok(&[
        "feature",
        "create",
        "user",
        "seen",
        "--value-type",
        "string",
        "--ttl",
        "90m",
        "--owner",
        "feed",
        "--label",
        "b=2",
        "--label",
        "a=x=y",
        "--description",
        "what they saw",
        "--user",
        "ann",
        "-o",
        "json",
    ]);
    let created = json(&created);
    assert_eq!((&created["ttl"], &created["labels"]), (&json!("1h30m"), &json!({"a": "x=y", "b": "2"})));
    assert_eq!(json(&server.ok(&["feature", "get", "user", "seen", "-o", "json"])), created);

    let reported =
        server.run(&["feature", "create", "user", "seen", "--value-type", "string", "--ttl", "1d"]).failed(1);
    assert!(reported.starts_with("error: ") && reported.contains("(feature_exists, HTTP status 409)"), "{reported}");

    let updated = server.ok(&["feature", "update", "user", "seen", "--ttl", "2h", "--no-labels", "-o", "json"]);
    assert_eq!((&json(&updated)["ttl"], &json(&updated)["labels"]), (&json!("2h"), &json!({})));
    let reported = server.run(&["feature", "update", "user", "seen", "--owner", "x", "--if-match", "\"0\""]).failed(1);
    assert!(reported.contains("etag_mismatch"), "{reported}");

    server.ok(&["version", "create", "user", "seen", "2024/08", "--ttl", "1d", "-o", "json"]);
    server.ok(&["version", "update", "user", "seen", "2024/08", "--ttl", "2d", "-o", "json"]);
    let shown = server.ok(&["feature", "get", "user", "seen"]);
    assert!(shown.contains("(default)  2h") && shown.contains("2024/08    2d"), "{shown}");
    let version = json(&server.ok(&["version", "get", "user", "seen", "2024/08", "-o", "json"]));
    assert_eq!((&version["version"], &version["ttl"]), (&json!("2024/08"), &json!("2d")));
    let versions = server.ok(&["version", "list", "user", "seen", "-o", "ndjson"]);
    assert_eq!(versions.lines().map(|line| json(line)["ttl"].clone()).collect::<Vec<_>>(), ["2h", "2d"]);
    let deleted = server.ok(&["version", "delete", "user", "seen", "2024/08", "--yes"]);
    assert!(deleted.starts_with("deleted user.seen version \"2024/08\"; its last items expire around 20"), "{deleted}");
    let reported = server.run(&["version", "delete", "user", "seen", "", "--yes"]).failed(1);
    assert!(reported.contains("default_version"), "{reported}");

    server.ok(&["feature", "delete", "user", "seen", "-o", "json", "--yes"]);
    let history = server.ok(&["feature", "history", "user", "seen"]);
    assert_eq!(history.lines().count(), 7, "a header and six changes:\n{history}");
    assert!(history.lines().last().unwrap().contains("ann"), "{history}");
    assert!(history.contains("ttl 1h30m -> 2h"), "{history}");
    let newest = server.ok(&["feature", "history", "user", "seen", "--limit", "1", "-o", "ndjson"]);
    let cut = server.run(&["feature", "history", "user", "seen", "--limit", "1"]);
    assert!(cut.status == 0 && cut.err.contains("pass a higher --limit"), "{cut:?}");
    assert_eq!(newest.lines().count(), 1);
    assert_eq!(json(&newest)["action"], "delete_feature", "{newest}");
    assert!(server.run(&["feature", "get", "user", "seen"]).failed(1).contains("feature_not_found"));
}

#[test]
fn entities_are_shown_in_all_three_forms() {
    let server = Server::start();
    server.feature("seen", "string");
    for n in 0..3 {
        server.ok(&["list", "add", "customer", "seen", &format!("u-{n}"), "--value", "a"]);
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let table = server.ok(&["feature", "entities", "customer", "seen"]);
    assert_eq!(lines(&table), ["u-0", "u-1", "u-2"].map(str::to_owned).into());
    let rows = server.ok(&["feature", "entities", "customer", "seen", "-o", "ndjson"]);
    assert_eq!(lines(&rows.replace('"', "")), lines(&table));
    let all = json(&server.ok(&["feature", "entities", "customer", "seen", "-o", "json"]));
    assert_eq!(all["entities"].as_array().unwrap().len(), 3);
    assert_eq!(server.ok(&["feature", "entities", "customer", "seen", "--limit", "2"]).lines().count(), 2);
    assert!(server.run(&["feature", "entities", "customer", "no"]).failed(1).contains("feature_not_found"));
}

#[test]
fn features_are_listed_in_all_three_forms() {
    let server = Server::start();
    assert_eq!(server.ok(&["feature", "list", "-o", "json"]), "{\"features\":[]}\n");
    for name in ["b", "a", "story"] {
        server.feature(name, "string");
    }
    server.ok(&["feature", "create", "user", "z", "--value-type", "int64", "--ttl", "1d", "-o", "json"]);
    let table = server.ok(&["feature", "list"]);
    let names: Vec<&str> = table.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(names, ["a", "b", "story", "z"]);
    let one = server.ok(&["feature", "list", "--entity-type", "customer", "--query", "STO", "-o", "ndjson"]);
    assert_eq!((one.lines().count(), &json(&one)["name"]), (1, &json!("story")));
    let all = json(&server.ok(&["feature", "list", "--output", "json"]));
    assert_eq!(all["features"].as_array().unwrap().len(), 4);
}

#[test]
fn items_are_added_read_by_pages_and_removed() {
    let server = Server::start();
    server.feature("f", "int64");
    for (second, value) in [(1, "-5"), (2, "6"), (3, "-5"), (4, "7")] {
        let timestamp = format!("2024-01-01T00:00:0{second}Z");
        assert_eq!(
            server.ok(&["list", "add", "customer", "f", "u", "--value", value, "--timestamp", &timestamp]),
            "added 1\n"
        );
    }
    let page = json(&server.ok(&["list", "get", "customer", "f", "u", "--limit", "3", "-o", "json"]));
    let values: Vec<i64> =
        page["items"].as_array().unwrap().iter().map(|item| item["value"].as_i64().unwrap()).collect();
    assert_eq!(values, [7, -5, 6]);
    let token = page["next_page_token"].as_str().unwrap();
    let rest = server.ok(&["list", "get", "customer", "f", "u", "--page-token", token, "-o", "ndjson"]);
    assert_eq!(rest, "{\"timestamp\":\"2024-01-01T00:00:01.000000000Z\",\"value\":-5}\n");
    let walked = json(&server.ok(&["list", "get", "customer", "f", "u", "--limit", "1", "--all", "-o", "json"]));
    assert_eq!((walked["items"].as_array().unwrap().len(), walked.get("next_page_token")), (4, None));
    let bounded = server.ok(&[
        "list",
        "get",
        "customer",
        "f",
        "u",
        "--min-timestamp",
        "2024-01-01T00:00:02Z",
        "--max-timestamp",
        "1704067203000000000",
        "-o",
        "ndjson",
    ]);
    assert_eq!(bounded.lines().count(), 2);

    let list = |command: &str, more: &[&str]| server.ok(&[&["list", command, "customer", "f", "u"], more].concat());
    let oldest = list("get", &["--order", "oldest", "--max-timestamp", "2024-01-01T00:00:02Z", "-o", "ndjson"]);
    let first = "{\"timestamp\":\"2024-01-01T00:00:01.000000000Z\",\"value\":-5}";
    assert_eq!((oldest.lines().next(), oldest.lines().count()), (Some(first), 2));
    assert_eq!(list("count", &[]), "4\n");
    assert_eq!(list("count", &["--max", "3"]), "more than 3\n");
    assert_eq!(
        list("count", &["--min-timestamp", "2024-01-01T00:00:03Z", "-o", "json"]),
        "{\"count\":2,\"exact\":true}\n"
    );
    let found = list("contains", &["6", "8", "--value", "-5"]);
    let lines: Vec<_> = found.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines, [["2024-01-01T00:00:02.000000000Z", "6"], ["-", "8"], ["2024-01-01T00:00:03.000000000Z", "-5"]]);
    let found = json(&list("contains", &["8", "-o", "json"]));
    assert_eq!(found, serde_json::json!({"results": [{"value": 8, "timestamp": null}]}));

    assert_eq!(list("remove", &["6", "--timestamp", "2024-01-01T00:00:01Z"]), "removed 0\n");
    let early = list("remove", &["--max-timestamp", "2024-01-01T00:00:01Z"]);
    assert_eq!(early, "removed 1\n");
    list("add", &["--value", "-5", "--timestamp", "2024-01-01T00:00:01Z"]);
    for wrong in [&["6", "--max-timestamp", "1"][..], &[]] {
        let reported = server.run(&[&["list", "remove", "customer", "f", "u"], wrong].concat());
        assert!(reported.status == 2 && reported.err.contains("VALUE"), "{reported:?}");
    }

    assert_eq!(server.ok(&["list", "remove", "customer", "f", "u", "--value", "-5"]), "removed 2\n");
    assert_eq!(server.ok(&["list", "remove", "customer", "f", "u", "6", "7", "8", "-o", "json"]), "{\"removed\":2}\n");
    assert_eq!(
        server.ok(&["list", "add", "customer", "f", "u", "1", "2", "-o", "json"]),
        "{\"added\":2,\"already_expired\":0}\n"
    );
    server.ok(&["list", "clear", "customer", "f", "u", "--yes"]);
    assert_eq!(server.ok(&["list", "get", "customer", "f", "u", "-o", "json"]), "{\"items\":[]}\n");
    let empty = server.run(&["list", "get", "customer", "f", "u"]);
    assert_eq!((empty.status, empty.out.as_str(), empty.err.as_str()), (0, "", "the list is empty\n"));
    let reported = server.run(&["list", "add", "customer", "f", "u", "--value", "six"]).failed(2);
    assert!(reported.contains("\"six\"") && reported.contains("int64"), "{reported}");
}

#[test]
fn many_lists_are_read_by_requests_line_by_line() {
    // So small that only a few lists fit an answer.
    let server = Server::start_with(&[("LISTSTORE__HTTP__RESPONSE_BYTES_MAX", "2048")]);
    server.feature("f", "string");
    let mut requests = String::new();
    for n in 0..20 {
        server.ok(&["list", "add", "customer", "f", &format!("u-{n}"), &format!("{n}{}", "x".repeat(900))]);
        requests += &format!("{{\"entity_type\":\"customer\",\"feature\":\"f\",\"entity_id\":\"u-{n}\"}}\n\n");
    }
    let file = server.write("requests.ndjson", &requests);
    let answers = server.ok(&["list", "batch-get", &file, "-o", "ndjson"]);
    assert_eq!(answers.lines().count(), 20);
    for (n, answer) in answers.lines().enumerate() {
        let value = json(answer)["items"][0]["value"].as_str().unwrap().to_owned();
        assert!(value.starts_with(&format!("{n}x")), "{value}");
    }
    let whole = server.run_with_input(&["list", "batch-get", "-o", "json"], requests.as_bytes());
    assert_eq!(json(&whole.ok())["results"].as_array().unwrap().len(), 20);
    assert_eq!(server.run_with_input(&["list", "batch-get", "-o", "json"], b"").ok(), "{\"results\":[]}\n");

    let unknown = requests.replace("\"u-3\"", "\"u-3\",\"version\":\"none\"");
    let finished = server.run_with_input(&["list", "batch-get"], unknown.as_bytes());
    assert_eq!(finished.out.lines().filter(|line| line.contains("version_not_found")).count(), 1);
    let reported = finished.failed(1);
    assert!(reported.contains("1 of 20 lists"), "{reported}");
    let reported = server.run_with_input(&["list", "batch-get"], b"{}\n\n{,}").failed(1);
    assert!(reported.contains("line 3"), "{reported}");
    let marked = server.run_with_input(&["list", "batch-get"], format!("\u{feff}{requests}").as_bytes()).ok();
    assert_eq!(marked.lines().count(), 20, "{marked}");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(requests.as_bytes()).unwrap();
    let packed = server.write("requests.ndjson.gz", encoder.finish().unwrap());
    assert_eq!(server.ok(&["list", "batch-get", &packed]).lines().count(), 20);
    let long = format!("{requests}{{\"entity_id\": \"{}\"}}", "x".repeat(1 << 20));
    let reported = server.run_with_input(&["list", "batch-get"], long.as_bytes()).failed(1);
    assert!(reported.contains("-, line 41: the line is longer than 1024 KiB"), "{reported}");
    // An invalid ID affects no other line.
    let finished =
        server.run_with_input(&["list", "batch-get", "-o", "ndjson"], requests.replace("u-9", "").as_bytes());
    assert_eq!(finished.out.lines().filter(|line| line.contains("invalid_argument")).count(), 1, "{finished:?}");
    assert_eq!(finished.out.lines().filter(|line| line.contains("\"items\"")).count(), 19, "{finished:?}");
    assert!(finished.failed(1).contains("1 of 20 lists"));
    let reported = server.run_with_input(&["list", "batch-get"], requests.replace("\"u-9\"", "9").as_bytes()).failed(1);
    assert_eq!(reported.matches("requests[9].entity_id").count(), 1, "{reported}");
}

#[test]
fn versions_have_separate_lists() {
    let server = Server::start();
    server.feature("f", "string");
    server.ok(&["version", "create", "customer", "f", "a/b:c", "-o", "json"]);
    server.ok(&["list", "add", "customer", "f", "u", "new", "--version", "a/b:c"]);
    server.ok(&["list", "add", "customer", "f", "u", "old"]);
    let values =
        |arguments: &[&str]| server.ok(arguments).lines().map(|l| json(l)["value"].clone()).collect::<Vec<_>>();
    assert_eq!(values(&["list", "get", "customer", "f", "u", "--version", "a/b:c", "-o", "ndjson"]), ["new"]);
    assert_eq!(values(&["list", "get", "customer", "f", "u", "-o", "ndjson"]), ["old"]);
    let reported = server.run(&["list", "get", "customer", "f", "u", "--version", "nope"]).failed(1);
    assert!(reported.contains("version_not_found"), "{reported}");
}

#[test]
fn an_entity_id_may_hold_any_character() {
    let server = Server::start();
    server.feature("f", "string");
    let entity_ids = ["a/b", "a%2Fb", "a b", "a+b", "-x", "ü?#&=;", "...", "a\nb", "%", "日本語/../x", "\u{1b}[31m"];
    for entity_id in entity_ids {
        server.ok(&["list", "add", "customer", "f", "--value", entity_id, "--", entity_id]);
    }
    for entity_id in entity_ids {
        let items = server.items("f", entity_id);
        assert_eq!(items.len(), 1, "{entity_id:?}: {items:?}");
        assert!(items[0].ends_with(&json!(entity_id).to_string()), "{entity_id:?}: {items:?}");
    }
}

#[test]
fn a_table_does_not_control_the_terminal() {
    let server = Server::start();
    server.feature("f", "string");
    server.ok(&["list", "add", "customer", "f", "u", "--value", "a\u{1b}[31m\u{9b}31m"]);
    let table = server.ok(&["list", "get", "customer", "f", "u"]);
    assert!(!table.contains(['\u{1b}', '\u{9b}']), "{table:?}");
}

#[test]
fn an_unreachable_server_is_reported_with_the_remedy() {
    let reported = run(&["feature", "list", "--url", "http://127.0.0.1:1"]).failed(1);
    assert!(
        reported.contains("cannot reach http://127.0.0.1:1: ") && reported.contains("liststore serve"),
        "{reported}"
    );
    // A server other than Liststore: its answers are not problem documents.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = other.accept().unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 12\r\n\r\n<b>oops</b>\n").unwrap();
    });
    let reported = run(&["feature", "list", "--url", &url]).failed(1);
    answering.join().unwrap();
    assert!(reported.contains("HTTP status 502") && reported.contains("<b>oops</b>"), "{reported}");
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let server = Server::start();
    server.feature("f", "string");
    let rows: String = (0..5_000).map(|n| format!("u,{},{}\n", 1_700_000_000 + n, "x".repeat(100))).collect();
    let file = server.write("rows.csv", format!("user,at,v\n{rows}"));
    server.ok(&[
        "import",
        "--entity-type",
        "customer",
        "--feature",
        "f",
        "--entity-id-column",
        "user",
        "--timestamp-column",
        "at",
        "--timestamp-unit",
        "s",
        "--value-column",
        "v",
        &file,
    ]);
    for format in ["table", "json", "ndjson"] {
        let mut process = server.spawn(&["list", "get", "customer", "f", "u", "--all", "-o", format]);
        drop(process.stdout.take());
        let output = process.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{format}");
    }
}

#[test]
fn improbable_timestamps_cause_a_warning() {
    let server = Server::start();
    server.feature("seen", "string");
    let finished = server.run(&["list", "add", "customer", "seen", "u", "--value", "x", "--timestamp", "1724949845"]);
    assert!(finished.status == 2 && finished.err.contains("likely seconds: write 2024-08-29T16:44:05"), "{finished:?}");
    let rows = server.write("rows.csv", "id,at,value\nu,1724949845430,x\n");
    let columns = ["--entity-id-column", "id", "--timestamp-column", "at", "--value-column", "value"];
    let import = [&["import", "--entity-type", "customer", "--feature", "seen"][..], &columns, &[&*rows]].concat();
    let finished = server.run(&import);
    assert!(
        finished.status == 1 && finished.err.contains("milliseconds") && finished.err.contains("--timestamp-unit"),
        "{finished:?}"
    );
    assert_eq!(server.run(&[&import[..], &["--yes"]].concat()).status, 0);
    assert!(server.run(&[&import[..], &["--timestamp-unit", "ms"]].concat()).err.is_empty());
}

#[test]
fn settings_are_listed_and_shells_complete() {
    let all = run(&["config"]).ok();
    assert!(all.contains("http.listen  (127.0.0.1:8080)") && all.contains("items.cql.keyspace  (liststore)"), "{all}");
    let some = run(&["config", "shutdown_grace", "-o", "ndjson"]).ok();
    assert_eq!(json(&some)["environment"], "LISTSTORE__HTTP__SHUTDOWN_GRACE_SECS");
    assert!(run(&["config", "no such setting"]).failed(1).contains("lists all"));
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).ok();
        assert!(script.contains("liststore") && script.contains("entity-id-column"), "{shell}");
    }
}

#[test]
fn an_aggregation_shows_the_number_of_skipped_items() {
    let server = Server::start();
    server.feature("visit", "json");
    server.ok(&["list", "add", "customer", "visit", "u-1", r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":"x"}"#]);
    let aggregate = ["list", "aggregate", "customer", "visit", "u-1", "--count", "--window", "1h,1d"];
    let shown = server.ok(&[&aggregate[..], &["--sum", "/a"]].concat());
    let rows: Vec<Vec<_>> = shown.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["1h", "(2", "skipped)", "3", "1"], ["1d", "(2", "skipped)", "3", "1"]]);
    assert!(!server.ok(&aggregate).contains("skipped"));
    let shown = server.ok(&[&aggregate[..], &["--group-by", "/c"]].concat());
    let rows: Vec<Vec<_>> = shown.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["1h", "(3", "skipped)", "0"], ["1d", "(3", "skipped)", "0"]]);
}
