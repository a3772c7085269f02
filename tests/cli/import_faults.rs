//! `import`: bad rows, bad files, and interruptions.

use std::io::Write;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::import::{arguments, counts, seconds};
use crate::ports::free_port;
use crate::program::{CommandOutput, Server, signal};

fn import(server: &Server, feature: &str, files: &[&str], more: &[&str]) -> CommandOutput {
    server.run(&arguments(feature, &[more, files].concat()))
}

#[test]
fn the_first_bad_row_ends_the_import_with_its_file_and_line() {
    let server = Server::start();
    server.feature("f", "string");
    let good = server.write("good.csv", "user,at,v\r\nu,1700000001,a\r\n\r\nu,1700000002,\"two\nlines\"\r\n");
    let bad = server.write(
        "bad.csv",
        "user,at,v\r\nu,1700000003,a\r\n\r\n\"u\",\"1700000004\",\"two\nlines\"\r\nu,then,c\r\nu,1700000009,d\r\n",
    );
    let finished = import(&server, "f", &[&good, &bad], &["--value-column", "v"]);
    assert_eq!(finished.status, 1, "{finished:?}");
    assert!(finished.out.starts_with("5 rows: ") && finished.out.contains(" 1 bad "), "{finished:?}");
    assert_eq!(finished.err.lines().count(), 1, "{finished:?}");
    assert!(finished.err.starts_with(&format!("error: {bad}, line 6: at: not a timestamp")), "{finished:?}");
    assert!(finished.err.contains("--bad-rows FILE"), "{finished:?}");
}

/// Rows that the server refuses, one in each list.
#[test]
fn refused_rows_neither_end_the_comparison_nor_count_for_it() {
    let server = Server::start();
    let mut rows = String::new();
    for user in ["u", "w"] {
        for value in ["1", "{\"a\":1,\"a\":2}", "2"] {
            rows.push_str(&format!("{{\"user\":\"{user}\",\"at\":1700000001,\"v\":{value}}}\n"));
        }
    }
    let file = server.write("in.ndjson", rows);
    for identity in ["item", "value"] {
        let create = ["feature", "create", "customer", identity, "--value-type", "json", "--ttl", "7300d"];
        server.ok(&[&create[..], &["--identity", identity, "-o", "json"]].concat());
        for (round, (added, there)) in [(4, 0), (0, 4)].into_iter().enumerate() {
            let bad = format!("{identity}-{round}.ndjson");
            // One list leaves room for one row of the other.
            let more = ["--value-column", "v", "--bad-rows", &bad, "--compare", "4", "--concurrency", "1"];
            let finished = import(&server, identity, &[&file], &more);
            assert_eq!(finished.err, "", "{finished:?}");
            let expected = format!("6 rows: {added} items added, {there} already there, 0 already expired, 2 bad");
            assert_eq!(counts(&finished.ok()), expected);
        }
    }
}

#[test]
fn bad_rows_are_set_aside_corrected_and_imported_again() {
    let server = Server::start();
    server.feature("f", "int64");
    let file = server.write(
        "in.csv",
        "x,user,at,v\n1,u,1700000001,10\n2,u,1700000002,ten\n3,u\n4,,1700000004,10\n5,u,soon,10\n6,u,1700000006,60\n",
    );
    let finished = import(&server, "f", &[&file], &["--value-column", "v", "--bad-rows", "bad.csv"]);
    assert_eq!(counts(&finished.ok()), "6 rows: 2 items added, 0 already there, 0 already expired, 4 bad");
    assert_eq!(server.items("f", "u").len(), 2);
    let path = server.dir.path().join("bad.csv");
    let bad = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = bad.lines().collect();
    assert_eq!((lines.len(), lines[0]), (5, "import_file,import_line,import_reason,x,user,at,v"));
    for (line, (number, reason, row)) in lines[1..].iter().zip([
        (3, "v: must be an integer", "2,u,1700000002,ten"),
        (4, "has 2 cells", "3,u"),
        (5, "entity_id", "4,,1700000004,10"),
        (6, "at: not a timestamp", "5,u,soon,10"),
    ]) {
        assert!(line.starts_with(&format!("{file},{number},")), "{line}");
        assert!(line.contains(reason) && line.ends_with(row), "{line}");
    }
    let corrected = bad
        .replace(",ten", ",20")
        .replace(",3,u\n", ",3,u,1700000003,30\n")
        .replace(",4,,", ",4,u,")
        .replace("soon", "1700000005");
    std::fs::write(&path, corrected).unwrap();
    let again = import(&server, "f", &["bad.csv"], &["--value-column", "v", "--bad-rows", "worse.csv"]);
    assert_eq!(counts(&again.ok()), "4 rows: 4 items added, 0 already there, 0 already expired, 0 bad");
    let values: Vec<String> = server.items("f", "u").iter().map(|item| item[31..].to_owned()).collect();
    assert_eq!(values, ["60", "10", "10", "30", "20", "10"]);
    assert_eq!(std::fs::read_to_string(server.dir.path().join("worse.csv")).unwrap(), "");
}

/// A refusal by the server also names its row.
#[test]
fn refusals_of_the_server_name_the_row() {
    let server = Server::start();
    server.feature("f", "json");
    let mut rows = String::new();
    for line in 1..=300 {
        rows.push_str(&match line {
            50 => "{\"user\":\"u\",\"at\":1700000050,\"v\":{\"a\":1,\"a\":2}}\n".to_owned(),
            120 => "{\"user\":\"u\",\"at\":1700000120,\"v\":9007199254740993}\n".to_owned(),
            200 => "{\"user\":\"u\",\"at\":\"2286-01-01T00:00:00Z\",\"v\":1}\n".to_owned(),
            _ => format!(
                "{{\"user\":\"u{}\",\"at\":{},\"v\":{line}}}\n",
                if line % 2 == 0 { "" } else { "2" },
                seconds(line)
            ),
        });
    }
    let file = server.write("in.ndjson", rows);
    let finished = import(&server, "f", &[&file], &["--value-column", "v"]);
    assert_eq!(finished.status, 1);
    assert!(finished.err.starts_with(&format!("error: {file}, line 50: ")), "{finished:?}");
    let more = ["--value-column", "v", "--bad-rows", "bad.ndjson", "-o", "json"];
    let finished = import(&server, "f", &[&file], &more);
    let summary: serde_json::Value = serde_json::from_str(&finished.ok()).unwrap();
    // The first import may have added the items of the other list.
    let stored = ["added", "already_there"].map(|count| summary[count].as_u64().unwrap()).iter().sum::<u64>();
    assert_eq!((stored, &summary["rows"], &summary["bad"]), (297, &300.into(), &3.into()));
    let bad = std::fs::read_to_string(server.dir.path().join("bad.ndjson")).unwrap();
    for (line, number) in bad.lines().zip([50, 120, 200]) {
        assert!(line.contains(&format!("\"import_line\":{number},")), "{line}");
    }
    assert_eq!((server.items("f", "u").len(), server.items("f", "u2").len()), (147, 150));
    let again = import(&server, "f", &["bad.ndjson"], &["--value-column", "v", "--bad-rows", "worse.ndjson"]);
    assert!(again.err.contains("all 3 rows are bad") && again.status == 1, "{again:?}");
    assert_eq!(counts(&again.out), "3 rows: 0 items added, 0 already there, 0 already expired, 3 bad");
    let worse = std::fs::read_to_string(server.dir.path().join("worse.ndjson")).unwrap();
    assert!(worse.lines().all(|line| line.matches("import_line").count() == 1), "{worse}");
}

#[test]
fn an_impossible_import_is_reported_before_anything_is_sent() {
    let server = Server::start();
    server.feature("f", "string");
    let good = server.write("good.csv", "user,at,v\nu,1,a\n");
    let nameless = server.write("nameless", "user,at,v\n");
    let parquet = server.write("rows.parquet", "PAR1");
    let column = ["--value-column", "v"];
    for (files, more, status, expected) in [
        (&[good.as_str(), "missing.csv"][..], &column[..], 1, "missing.csv: No such file"),
        (&["."], &["--value-column", "v", "--format", "csv"], 1, "is a directory"),
        (&[&nameless], &column, 2, "--format"),
        (&[&parquet], &column, 2, "only CSV and NDJSON can be imported"),
        (&["-"], &column, 2, "--format"),
        (&["-", "-"], &["--value-column", "v", "--format", "csv"], 2, "only once"),
        (&[&good], &["--value-column", "w"], 1, "good.csv: has no column \"w\"; its columns are user, at, v"),
        (&[&good], &["--value-columns", "v,at"], 2, "value_type is string"),
        (&[&good], &["--value-columns", "v,v"], 2, "twice"),
        (&[&good], &["--value-column", "v", "--bad-rows", &good], 2, "overwrite"),
        (&[&good], &["--value-column", "v", "--bad-rows", "no/such/dir.csv"], 1, "cannot create"),
        (&[&good], &["--value-column", "v", "--bad-rows", &nameless], 1, "already exists: remove it"),
    ] {
        let result = import(&server, "f", files, more);
        assert_eq!(result.status, status, "{files:?} {more:?}: {result:?}");
        let reported = result.err.lines().last().unwrap();
        assert!(reported.starts_with("error: ") && reported.contains(expected), "{reported}");
    }
    let reported = import(&server, "nope", &[&good], &column).failed(1);
    assert!(reported.contains("feature_not_found"), "{reported}");
    assert_eq!(server.items("f", "u").len(), 0);
}

#[test]
fn damaged_files_are_reported() {
    let server = Server::start();
    server.feature("f", "string");
    let empty = server.write("empty.csv", "");
    let cut_off = server.write("cut.csv.gz", [0x1f, 0x8b, 8, 0, 0, 0]);
    let unclosed = server.write("unclosed.csv", format!("user,at,v\nu,1,\"{}", "x".repeat(17 << 20)));
    for (file, expected) in [
        (&empty, "empty.csv: is empty"),
        (&cut_off, "cut.csv.gz"),
        (&unclosed, "unclosed.csv: a row is longer than 16 MiB"),
    ] {
        let result = import(&server, "f", &[file], &["--value-column", "v"]);
        assert_eq!(result.status, 1, "{result:?}");
        assert!(result.err.contains(expected), "{result:?}");
    }
}

#[test]
fn truncated_files_and_open_quotes_are_refused_with_their_line() {
    let server = Server::start();
    server.feature("f", "string");
    let refused = |name: &str, content: &[u8], expected: &str| {
        let file = server.write(name, content);
        for more in [&[][..], &["--bad-rows", "bad"]] {
            let result = import(&server, "f", &[&file], &[&["--value-column", "v"], more].concat());
            assert_eq!(result.status, 1, "{name}: {result:?}");
            assert!(result.err.contains(&format!("{name}{expected}")), "{name}: {result:?}");
        }
    };
    refused("open.csv", b"user,at,v\na,1700000001,\"5 inch\nb,1700000002,x\n", ", line 2: unclosed quote");
    refused("behind.csv", b"user,at,v\na,1700000001,\"5\" inch\n", ", line 2: text after a closing quote");
    refused("cut.csv", b"user,at,v\na,1700000001,x\nb,17000", ", line 3: the file ends within this row");
    refused("cut.ndjson", b"{\"user\":\"a\",\"at\":1700000001,\"v\":\"x", ", line 1: is not JSON");
    refused("cut.ndjson.gz", b"", ": the file is empty");
    refused("cut.ndjson.zst", b"\x28\xb5", "");
    let header = "entity_type,feature,version,entity_id,timestamp,value";
    let file = server.write("own.csv", format!("{header}\ncustomer,f,,u,2024-01-01T00:00:00Z,valu"));
    let result = server.run(&["import", "customer", "f", &file]);
    assert!(result.status == 1 && result.err.contains("own.csv, line 2: the last line has no line end"), "{result:?}");
}

/// RFC 4180 leaves the last line end to the writer.
#[test]
fn a_csv_file_without_a_line_end_is_read_with_a_warning() {
    let server = Server::start();
    server.feature("f", "string");
    let file = server.write("in.csv", "user,at,v\nu,1700000001,a\nu,1700000002,b");
    let result = import(&server, "f", &[&file], &["--value-column", "v"]);
    assert_eq!(
        (result.status, counts(&result.out)),
        (0, "2 rows: 2 items added, 0 already there, 0 already expired, 0 bad")
    );
    assert!(result.err.starts_with(&format!("warning: {file}, line 3: the last row has no line end")), "{result:?}");
}

#[test]
fn contents_of_files_are_escaped_for_the_terminal() {
    let server = Server::start();
    server.feature("f", "string");
    let esc = "\u{1b}[31m\u{9b}\u{7}";
    for (name, content) in [
        ("header.csv", format!("x{esc},at,v\n")),
        ("cell.csv", format!("user,at,v\nu,{esc},x\n")),
        ("value.csv", format!("user,at,v{esc}\nu,1700000001,x\n")),
        ("member.ndjson", format!("{{\"user\":\"u\",\"at\":1700000001,\"v{esc}\":1}}\n").replace('\u{1b}', "\\u001b")),
        ("number.ndjson", format!("{esc}\n")),
        (&*format!("file{esc}.csv"), String::new()),
    ] {
        let file = server.write(name, content);
        let result = import(&server, "f", &[&file], &["--value-column", "v"]);
        assert_eq!(result.status, 1, "{name}: {result:?}");
        assert!(!result.err.trim_end().contains(char::is_control), "{name}: {result:?}");
    }
    let column = format!("v{esc}");
    server.feature("n", "int64");
    let file = server.write("int.csv", format!("user,at,{column}\nu,1700000001,x\n"));
    let result = import(&server, "n", &[&file], &["--value-column", &column]);
    assert!(result.status == 1 && !result.err.trim_end().contains(char::is_control), "{result:?}");
}

#[test]
fn errors_and_warnings_name_the_unit_that_was_given() {
    let server = Server::start();
    server.feature("f", "string");
    let warning = |at: &str, unit: &str| {
        let file = server.write("in.csv", format!("user,at,v\nu,{at},x\n"));
        import(&server, "f", &[&file], &["--value-column", "v", "--timestamp-unit", unit]).err
    };
    assert!(warning("soon", "ms").contains("milliseconds since the Unix epoch (--timestamp-unit ms)"));
    assert!(warning("2024-01-01_00:00:00Z", "us").contains("or microseconds since the Unix epoch"));
    assert!(warning("1700000000000", "s").contains("read as seconds (--timestamp-unit s), but likely milliseconds"));
    let warned = warning("1700000000", "ms");
    assert!(warned.starts_with("warning: some timestamps are in 1970"), "{warned}");
    assert!(warned.lines().next().unwrap().ends_with("pass --timestamp-unit s"), "{warned}");
    assert!(warned.contains("error: 1 of 1 timestamps are likely of another unit: pass --timestamp-unit"), "{warned}");
    assert_eq!(warning("2024-01-01 00:00:00+00:00", "ms"), "");
    assert_eq!(warning("2024-01-01t00:00:00z", "ms"), "");
}

/// The summary of a failed import has all items that the server has stored.
#[test]
fn a_failed_import_counts_the_adds_in_flight() {
    let server = Server::start();
    server.feature("f", "string");
    let rows: String = (0..60).map(|n| format!("e{n},{},x\n", seconds(n))).collect();
    let file = server.write("rows.csv", format!("user,at,v\n{rows}late,2040-01-01T00:00:00Z,x\n{rows}"));
    let finished = import(&server, "f", &[&file], &["--value-column", "v", "--compare", "0", "-o", "json"]);
    let summary: serde_json::Value = serde_json::from_str(finished.out.lines().next().unwrap()).unwrap();
    let stored = (0..60).filter(|n| !server.items("f", &format!("e{n}")).is_empty()).count() as u64;
    assert!(finished.status == 1 && stored > 0, "{finished:?}");
    assert!(summary["added"].as_u64().unwrap() >= stored, "{stored} stored: {finished:?}");
    // An error as JSON has the server's problem.
    let refused = import(&server, "nope", &[&file], &["--value-column", "v", "-o", "json"]).err;
    let error: serde_json::Value = serde_json::from_str(refused.lines().last().unwrap()).unwrap();
    assert_eq!(error["problem"]["code"], "feature_not_found", "{refused}");
}

#[test]
fn one_file_of_bad_rows_needs_one_header() {
    let server = Server::start();
    server.feature("f", "string");
    let first = server.write("1.csv", "user,at,v\nu,1,a\n");
    let second = server.write("2.csv", "at,user,v\n2,u,a\n");
    let result = import(&server, "f", &[&first, &second], &["--value-column", "v", "--bad-rows", "bad.csv"]);
    assert_eq!(result.status, 1);
    assert!(result.err.contains("2.csv: has other columns than") && result.err.contains("1.csv"), "{result:?}");
}

/// Waits until the list has `count` items.
fn until_added(server: &Server, entity_id: &str, count: usize) {
    let patience = Instant::now() + Duration::from_secs(60);
    while server.items("f", entity_id).len() < count {
        assert!(Instant::now() < patience, "the items did not come");
    }
}

#[test]
fn an_interruption_ends_with_a_summary() {
    let server = Server::start();
    server.feature("f", "string");
    for by in [Signal::SIGINT, Signal::SIGTERM] {
        let entity_id = format!("u-{by}");
        let mut process = server.spawn(&arguments("f", &["--value-column", "v", "--format", "csv", "-"]));
        // One full group is sent at once. The rest waits for more rows until the interruption.
        let rows: String = (0..1_500).map(|n| format!("{entity_id},{},v\n", seconds(n))).collect();
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(format!("user,at,v\n{rows}").as_bytes()).unwrap();
        stdin.flush().unwrap();
        until_added(&server, &entity_id, 1_000);
        signal(&process, by);
        let finished = CommandOutput::from(process.wait_with_output().unwrap());
        assert_eq!(finished.status, 1, "{finished:?}");
        assert!(finished.out.contains(" items added,"), "{finished:?}");
        assert!(finished.err.starts_with("error: interrupted"), "{finished:?}");
    }
}

#[test]
fn a_killed_server_is_awaited_until_it_returns() {
    // No process uses the port in between.
    let address = format!("127.0.0.1:{}", free_port(Ipv4Addr::LOCALHOST));
    let server = Server::start_in(TempDir::new().unwrap(), &address, &[]);
    server.feature("f", "string");
    let rows = |list: &str, from: u64, to: u64| -> String {
        (from..to).map(|n| format!("{list},{},v{n}\n", seconds(n))).collect()
    };
    let mut process = server.spawn(&arguments("f", &["--value-column", "v", "--format", "csv", "-"]));
    let mut stdin = process.stdin.take().unwrap();
    // Each list has one full group, which is sent at once, and a waiting rest.
    stdin.write_all(format!("user,at,v\n{}", rows("before", 0, 1_200)).as_bytes()).unwrap();
    stdin.flush().unwrap();
    until_added(&server, "before", 1_000);
    let (_, _, dir) = server.end(Signal::SIGKILL);
    stdin.write_all(rows("during", 0, 1_200).as_bytes()).unwrap();
    drop(stdin);
    let server = Server::start_in(dir, &address, &[]);
    let finished = CommandOutput::from(process.wait_with_output().unwrap());
    assert_eq!(counts(&finished.ok()), "2400 rows: 2400 items added, 0 already there, 0 already expired, 0 bad");
    for list in ["before", "during"] {
        assert_eq!(server.items("f", list).len(), 1_200, "{list}");
    }
}
