//! `bench` counts, measures and checks the real requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench_peer::{Peer, Reply, items, problem, redis};
use crate::ports::free_port;
use crate::program::{CommandOutput, Server, run, signal};

const SMALL: [&str; 8] = ["--lists", "40", "--length", "30", "--connections", "4", "--spacing", "1s"];

fn document(finished: CommandOutput) -> Value {
    assert_eq!(finished.status, 0, "{finished:?}");
    serde_json::from_str(&finished.out).unwrap_or_else(|e| panic!("{e}: {finished:?}"))
}

/// Runs `bench` for a second, without a warm-up, checking every answer.
fn bench(server: &Server, more: &[&str]) -> Value {
    document(server.run(&[ONE_SECOND.as_slice(), more].concat()))
}

const ONE_SECOND: [&str; 9] = ["bench", "--output", "json", "--duration", "1s", "--warmup", "0s", "--check-every", "1"];

/// The same for three seconds, against a peer.
fn bench_peer(peer: &Peer, more: &[&str]) -> CommandOutput {
    run(&[
        ONE_SECOND.as_slice(),
        &["--url", &peer.url, "--lists", "10", "--connections", "2", "--duration", "3s"],
        more,
    ]
    .concat())
}

/// The default of `bench`.
const CONNECTIONS_DEFAULT: u64 = 50;

#[track_caller]
fn of<'a>(report: &'a Value, operation: &str) -> &'a Value {
    let mut lines = report["operations"].as_array().unwrap().iter();
    lines.find(|line| line["operation"] == operation).unwrap_or_else(|| panic!("{operation}: {report}"))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Items in all lists of the data set, as the server counts them.
fn items_on(server: &Server) -> usize {
    let list = |number| {
        let entity = format!("list-{number:08}");
        server.ok(&["list", "get", "bench", "lists", &entity, "--all", "-o", "ndjson"]).lines().count()
    };
    (0..40).map(list).sum()
}

/// Waits until a bench that reads whole lists has several answers, so that its connections have sent further requests.
fn await_gets(server: &Server) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics).unwrap();
        let read = metrics.lines().find_map(|line| line.strip_prefix("liststore_items_read_total ")).unwrap();
        if read.parse::<u64>().unwrap() > CONNECTIONS_DEFAULT * 30 {
            return;
        }
        assert!(Instant::now() < deadline, "no request reaches the server");
    }
}

#[test]
fn several_lists_are_read_in_one_call() {
    let server = Server::start();
    let several = [SMALL.as_slice(), &["--load", "--lists-per-get", "7", "--limit", "5"]].concat();
    let report = bench(&server, &[several.as_slice(), &["--duration", "3s"]].concat());
    let gets = of(&report, "get");
    assert_eq!(count(&gets["items"]), 7 * 5 * count(&gets["requests"]), "{report}");
    assert_eq!((&report["wrong_answers"], &report["total"]["errors"]), (&json!(0), &json!({})), "{report}");
    assert!(count(&gets["requests"]) > 0 && report["checked_answers"] == gets["requests"], "{report}");
    let reported = server.run(&["bench", "--lists-per-get", "41"]).failed(2);
    assert!(reported.contains("41"), "{reported}");
}

#[test]
fn a_data_set_is_loaded_once_and_then_read() {
    let server = Server::start();
    let reported = server.run(&["bench", "--warmup", "0s"]).failed(1);
    assert!(reported.contains("the data set bench.lists does not exist") && reported.contains("--load"), "{reported}");

    let loaded = server.run(&[["bench", "--load", "--duration", "0s"].as_slice(), &SMALL].concat());
    assert_eq!((loaded.status, loaded.out.as_str()), (0, ""), "{loaded:?}");
    assert!(loaded.err.starts_with("loaded 40 lists of 30 items in "), "{loaded:?}");
    assert_eq!(items_on(&server), 1_200);
    let again = server.run(&["bench", "--load", "--duration", "0s"]);
    assert_eq!((again.status, again.err.as_str()), (0, "bench.lists is already loaded\n"));
    let reported = server.run(&["bench", "--load", "--length", "31"]).failed(1);
    assert!(reported.contains("has a different data set"), "{reported}");

    // The table contains the measurement, and its parameters.
    let table = server.ok(&["bench", "--duration", "3s", "--warmup", "0s", "--connections", "2"]);
    for line in [
        format!("target       {}", server.url),
        "loop         closed".to_owned(),
        "connections  2, of 1 thread".to_owned(),
        "data         bench.lists: 40 lists of 30 items, values of 12 bytes".to_owned(),
    ] {
        assert!(table.lines().any(|found| found == line), "{line}: {table}");
    }

    // The data set describes itself, so no option repeats the parameters of the load.
    let report = bench(&server, &["--limit", "20", "--zipf", "1.1", "--connections", "3"]);
    assert_eq!((count(&report["data_set"]["lists"]), count(&report["data_set"]["length"])), (40, 30));
    let get = of(&report, "get");
    assert!(count(&get["requests"]) > 0, "{report}");
    assert_eq!(count(&get["items"]), 20 * count(&get["requests"]), "{report}");
    assert_eq!((&get["errors"], &report["wrong_answers"], &report["loop"]), (&json!({}), &json!(0), &json!("closed")));
    assert_eq!(report["checked_answers"], get["requests"]);
    let latency = |name: &str| get["latency_ms"][name].as_f64().unwrap();
    assert!(0.0 < latency("p50") && latency("p50") <= latency("p99.9") && latency("p99.9") <= latency("max"));
    assert!(report["generator"]["cpu_micros_per_request"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn only_its_data_set_is_removed_on_request() {
    let server = Server::start();
    let loaded = server.run(&[["bench", "--load", "--duration", "0s"].as_slice(), &SMALL].concat());
    assert!(loaded.err.contains("--clean-up --duration 0s removes them"), "{loaded:?}");
    let removed = server.run(&["bench", "--clean-up", "--duration", "0s"]);
    assert_eq!((removed.status, removed.err.as_str()), (0, "removed the data set bench.lists\n"));
    assert!(server.run(&["feature", "get", "bench", "lists"]).failed(1).contains("feature_not_found"));
    server.feature("seen", "string");
    let foreign = ["bench", "--entity-type", "customer", "--feature", "seen", "--lists", "1", "--clean-up"];
    let refused = server.run(&[&foreign[..], &["--duration", "0s"]].concat());
    assert!(refused.failed(1).contains("customer.seen is not a data set of liststore bench"));
    server.ok(&["feature", "get", "customer", "seen"]);
}

#[test]
fn its_counts_equal_those_of_the_server() {
    let server = Server::start();
    let pid = server.pid().to_string();
    let load = [
        "--load",
        "--gets",
        "2",
        "--adds",
        "2",
        "--removes",
        "1",
        "--batch",
        "7",
        "--server-pid",
        &pid,
        "--duration",
        "3s",
    ];
    let finished = server.run(&[ONE_SECOND.as_slice(), &load, &SMALL].concat());
    let report = document(finished);
    let (add, remove) = (of(&report, "add"), of(&report, "remove"));
    assert!(count(&add["requests"]) > 0 && count(&remove["requests"]) > 0, "{report}");
    assert_eq!(count(&add["items"]), 7 * count(&add["requests"]), "{report}");
    assert_eq!((&report["wrong_answers"], &report["total"]["errors"]), (&json!(0), &json!({})), "{report}");
    let expected = 1_200 + count(&add["items"]) - count(&remove["items"]);
    assert_eq!(items_on(&server) as u64, expected, "{report}");
    assert!(report["server"]["cpu_secs"].as_f64().unwrap() > 0.0, "{report}");

    // The lists are no longer complete, and the next run does not report that as an error.
    let report = bench(&server, &[]);
    assert_eq!(report["wrong_answers"], 0, "{report}");
}

/// The error of a command with JSON output.
fn error(finished: &CommandOutput) -> String {
    let error: Value = serde_json::from_str(&finished.err).unwrap_or_else(|_| panic!("{finished:?}"));
    error["error"].as_str().unwrap().into()
}

#[test]
fn an_open_loop_sends_exactly_the_due_requests() {
    // No request waits for the disk, so a busy machine sends all.
    let server = Server::start_with(&[("LISTSTORE__ITEMS__EMBEDDED__FSYNC", "interval")]);
    let rates = ["--load", "--get-rate", "100", "--add-rate", "40", "--remove-rate", "10", "--threads", "2"];
    let report = document(server.run(&[ONE_SECOND.as_slice(), &rates, &SMALL].concat()));
    for (operation, due) in [("get", 100), ("add", 40), ("remove", 10)] {
        let line = of(&report, operation);
        assert_eq!((count(&line["requests"]), count(&line["unsent"])), (due, 0), "{report}");
    }
    assert_eq!((&report["loop"], &report["wrong_answers"]), (&json!("open"), &json!(0)));
    let table = server.run(&["bench", "--rate", "50", "--adds", "1", "--duration", "1s", "--warmup", "0s"]).ok();
    assert!(table.starts_with("target       http://127.0.0.1:"), "{table}");
    assert!(table.contains("\nOPERATION  REQUESTS/S  ITEMS/S  P50 MS"), "{table}");
    assert!(table.contains("\nadd        50          500 "), "{table}");
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    // The peer stalls for 0.6 s at its 20th request. In a closed loop only that request is slow. At 100 requests a
    // second, sixty had to wait.
    let peer = Peer::start(|number, _| {
        if number == 20 {
            std::sync::mpsc::sync_channel::<()>(0).1.recv_timeout(Duration::from_millis(600)).unwrap_err();
        }
        Reply::Answer(200, items(&[(1, "v")]))
    });
    let report = document(bench_peer(&peer, &["--rate", "100", "--duration", "1s", "--connections", "1"]));
    let get = of(&report, "get");
    assert_eq!(count(&get["requests"]), 100, "{report}");
    assert!(get["latency_ms"]["p50"].as_f64().unwrap() > 20.0, "{report}");
    assert!(get["latency_ms"]["p90"].as_f64().unwrap() > 300.0, "{report}");
}

#[test]
fn a_missed_rate_is_reported() {
    let peer = Peer::start(|_, _| {
        std::sync::mpsc::sync_channel::<()>(0).1.recv_timeout(Duration::from_millis(50)).unwrap_err();
        Reply::Answer(200, items(&[]))
    });
    let arguments = ["bench", "--url", &peer.url, "--lists", "10", "--connections", "1", "--rate", "1000"];
    let table =
        run(&[arguments.as_slice(), &["--duration", "1s", "--warmup", "0s", "--timeout", "500ms"]].concat()).ok();
    assert!(table.contains("the rate was not reached: ") && table.contains(" were never sent"), "{table}");
    // At 500 ms after the end, the last of 1,000 had waited for at least half a second.
    let p50 = table
        .lines()
        .find(|line| line.starts_with("get "))
        .unwrap()
        .split_whitespace()
        .nth(3)
        .unwrap()
        .parse::<f64>()
        .unwrap();
    assert!(p50 > 500.0, "{table}");
}

#[test]
fn errors_are_counted_by_their_codes() {
    let peer = Peer::start(|number, _| match number % 4 {
        0 => Reply::Answer(503, problem("overloaded")),
        1 => Reply::Answer(404, problem("feature_not_found")),
        2 => Reply::Answer(502, "<p>bad gateway</p>".into()),
        _ => Reply::Answer(200, items(&[(2, "b"), (1, "a")])),
    });
    let report = document(bench_peer(&peer, &[]));
    let get = of(&report, "get");
    let requests = count(&get["requests"]);
    assert_eq!(count(&get["items"]), 2 * requests);
    let errors = get["errors"].as_object().unwrap();
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["feature_not_found", "http_502", "overloaded"]);
    assert!(errors.values().all(|errors| count(errors).abs_diff(requests) <= 1), "{report}");
}

#[test]
fn wrong_answers_are_found() {
    type Answer = fn(u64) -> String;
    let cases: [(&str, Answer); 4] = [
        ("wrong order", |_| items(&[(1, "a"), (2, "b")])),
        ("wrong order", |_| items(&[(2, "a"), (2, "a")])),
        ("items, requested 1", |_| items(&[(2, "a"), (1, "b")])),
        ("missing field", |_| r#"{"items":[{"timestamp":"2024-08-29T16:44:05.430000000Z"}]}"#.into()),
    ];
    for (complaint, answer) in cases {
        let peer = Peer::start(move |number, _| Reply::Answer(200, answer(number)));
        let limit = if complaint.contains("requested") { "1" } else { "50" };
        let finished = bench_peer(&peer, &["--limit", limit]);
        assert_eq!((finished.status, error(&finished).as_str()), (1, "wrong answers were found"), "{finished:?}");
        let report: Value = serde_json::from_str(&finished.out).unwrap();
        assert_eq!(report["wrong_answers"], report["checked_answers"]);
        assert!(report["examples"][0].as_str().unwrap().contains(complaint), "{report}");
    }
    // A server that acknowledges adds and forgets them.
    let peer = Peer::start(|_, line| match line.starts_with("POST") {
        true => Reply::Answer(200, r#"{"added":10,"already_expired":0}"#.into()),
        false => Reply::Answer(200, items(&[])),
    });
    let finished = bench_peer(&peer, &["--gets", "1", "--adds", "1"]);
    assert_eq!(finished.status, 1, "{finished:?}");
    assert!(finished.out.contains("the acknowledged item of"), "{finished:?}");
}

#[test]
fn lost_connections_are_replaced_and_counted() {
    // After every third answer the peer closes the connection before it reads the next request, like a server that
    // closes idle connections. The client repeats the request without an error.
    let in_turn = AtomicU64::new(0);
    let peer = Peer::start(move |_, _| match in_turn.fetch_add(1, Ordering::SeqCst) % 4 {
        3 => Reply::HangUp,
        _ => Reply::Answer(200, items(&[])),
    });
    let report = document(bench_peer(&peer, &["--connections", "1"]));
    assert_eq!(of(&report, "get")["errors"], json!({}), "{report}");
    assert!(count(&report["reconnects"]) > 1, "{report}");

    let chunked = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let peer = Peer::start(|_, _| Reply::Raw(chunked.to_vec()));
    let finished = bench_peer(&peer, &[]);
    assert_eq!(finished.status, 1, "{finished:?}");
    assert!(finished.out.contains("\"bad_answer\":") && finished.out.contains("is chunked"), "{finished:?}");
    assert_eq!(error(&finished), "no request succeeded");
}

#[test]
fn a_run_ends_when_the_server_goes_away() {
    // No other test's server can get its address.
    let port = free_port(Ipv4Addr::LOCALHOST);
    let server = Server::start_in(TempDir::new().unwrap(), &format!("127.0.0.1:{port}"), &[]);
    server.run(&[["bench", "--load", "--duration", "0s"].as_slice(), &SMALL].concat());
    let bench = server.spawn(&["bench", "--duration", "1h", "--warmup", "0s", "-o", "json"]);
    await_gets(&server);
    let (status, log, _) = server.end(Signal::SIGKILL);
    assert_eq!(status, None, "{log}");
    let began = Instant::now();
    let finished: CommandOutput = bench.wait_with_output().unwrap().into();
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(finished.status, 1, "{finished:?}");
    assert!(error(&finished).starts_with("the server was lost: cannot connect: "), "{finished:?}");
    let report: Value = serde_json::from_str(&finished.out).unwrap();
    assert!(count(&report["total"]["requests"]) > 0, "{report}");

    let reported = run(&["bench", "--url", "http://127.0.0.1:1"]).failed(1);
    assert!(reported.contains("cannot reach http://127.0.0.1:1: "), "{reported}");
}

#[test]
fn ctrl_c_prints_what_was_measured_so_far() {
    let server = Server::start();
    server.run(&[["bench", "--load", "--duration", "0s"].as_slice(), &SMALL].concat());
    let bench = server.spawn(&["bench", "--duration", "1h", "--warmup", "0s", "-o", "json"]);
    await_gets(&server);
    signal(&bench, Signal::SIGINT);
    let report = document(bench.wait_with_output().unwrap().into());
    assert!(report["measured_secs"].as_f64().unwrap() < 600.0, "{report}");
    assert!(count(&report["total"]["requests"]) > 0, "{report}");
}

#[test]
fn the_same_loop_drives_redis() {
    let address = redis();
    let arguments = ["--redis", &address, "--load", "--gets", "2", "--adds", "2", "--removes", "1", "--duration", "5s"];
    let report = document(run(&[ONE_SECOND.as_slice(), &arguments, &SMALL].concat()));
    assert_eq!(report["target"], format!("redis://{address}"));
    assert_eq!((&report["wrong_answers"], &report["total"]["errors"]), (&json!(0), &json!({})), "{report}");
    for operation in ["get", "add", "remove"] {
        assert!(count(&of(&report, operation)["items"]) > 0, "{report}");
    }
    let report = document(run(&[ONE_SECOND.as_slice(), &["--redis", &address]].concat()));
    assert_eq!((&report["data_set"]["lists"], &report["wrong_answers"]), (&json!(40), &json!(0)), "{report}");
}

#[test]
fn wrong_usage_is_reported_in_one_line() {
    for (arguments, complaint) in [
        (["--gets", "0"], "--gets, --adds and --removes"),
        (["--threads", "51"], "--connections"),
        (["--url", "https://example.com"], "http://"),
        (["--server-pid", "4294967295"], "does not exist"),
        (["--redis", "nowhere"], "HOST:PORT"),
    ] {
        let reported = run(&["bench", arguments[0], arguments[1]]).failed(2);
        assert!(reported.contains(complaint), "{reported}");
    }
}
