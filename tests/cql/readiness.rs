//! The operator's view when the cluster becomes unavailable under a real server, and when it returns: `/readyz`,
//! `/metrics` and the log.

use std::io::Read;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule};
use serde_json::{Value, json};

use crate::forger::Forger;
use crate::program::{Server, liststore};
use crate::servers::{call, feature_on, ok, text};

fn metric(server: &Server, name: &str) -> f64 {
    let metrics = text(server, "/metrics");
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name}")).rsplit(' ').next().unwrap().parse().unwrap()
}

/// The reported time since a node was last reached.
fn lost_for_secs(health: &Value) -> u64 {
    let reason = health["reasons"]["item_store"].as_str().unwrap_or_default();
    let rest = reason.split_once("is reachable for ").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_once(" s").and_then(|(secs, _)| secs.parse().ok())).unwrap_or(0)
}

/// The lines of a log whose message begins so.
fn lines<'a>(log: &'a str, message: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.contains(&format!("\"message\":\"{message}"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_nodes_readyz_warns_with_the_reason_and_requests_fail_fast() {
    let statements =
        Condition::RequestOpcode(RequestOpcode::Execute).or(Condition::RequestOpcode(RequestOpcode::Batch));
    for (case, rule, reason) in [
        ("gone", RequestRule(Condition::True, RequestReaction::drop_connection()), "(not connected)"),
        ("silent", RequestRule(statements, RequestReaction::drop_frame()), "does not respond"),
    ] {
        let mut forger = Forger::start().await;
        let options = &forger.options;
        let node = options.contact_points[0].clone();
        let server = Server::start_with(&[
            ("LISTSTORE__ITEMS__STORE", "cql"),
            ("LISTSTORE__ITEMS__CQL__CONTACT_POINTS", node.as_str()),
            ("LISTSTORE__ITEMS__CQL__KEYSPACE", options.keyspace.as_str()),
            ("LISTSTORE__ITEMS__CQL__REPLICATION_FACTOR", "1"),
            ("LISTSTORE__ITEMS__CQL__READ_CONSISTENCY", "ONE"),
            ("LISTSTORE__ITEMS__OPERATION_TIMEOUT_MS", "3000"),
            ("LISTSTORE__METADATA__STORE", "memory"),
            ("LISTSTORE__ITEMS__ACTORS", "2"),
        ]);
        let feature = feature_on(&[&server]);
        // Lists of both actors.
        let items = |n: usize| format!("/v1/lists/user/{feature}/u-{n}/items");
        for n in 0..8 {
            ok(&server, "GET", &items(n), &Value::Null);
        }
        assert_eq!(ok(&server, "GET", "/readyz", &Value::Null)["status"], "pass", "{case}");

        forger.on_requests(vec![rule]);
        let silent =
            |health: &Value| health["reasons"]["item_store"].to_string().contains("none of the cluster's 1 nodes");
        let patience = Instant::now() + Duration::from_secs(60);
        let health = loop {
            for n in 0..8 {
                call(&server, "GET", &items(n), &Value::Null);
            }
            let health = ok(&server, "GET", "/readyz", &Value::Null);
            if silent(&health) {
                break health;
            }
            assert!(Instant::now() < patience, "{case}: {health}");
        };
        let reported = health["reasons"]["item_store"].as_str().unwrap().to_owned();
        assert_eq!((&health["status"], &health["checks"]["item_store"]), (&json!("warn"), &json!("warn")), "{health}");
        assert!(reported.contains(reason) && reported.contains(&node), "{case}: {reported}");
        assert!(!reported.contains("items.cql.tls"), "{case}: the setting is not what is wrong: {reported}");
        assert_eq!(metric(&server, "liststore_cql_nodes_reached"), 0.0, "{case}");
        if case == "gone" {
            assert_eq!(metric(&server, "liststore_cql_connections"), 0.0);
        }
        let refused_before = metric(&server, "liststore_cql_refused_total");
        let refused = (0..20).map(|n| call(&server, "GET", &items(n % 8), &Value::Null)).filter(|(status, answer)| {
            (*status, &answer["code"]) == (503, &json!("store_unavailable")) && answer["outcome_unknown"] != json!(true)
        });
        assert!(refused.count() >= 15, "{case}: all but those that came within its grace");
        assert!(metric(&server, "liststore_cql_refused_total") >= refused_before + 15.0, "{case}");
        // It counts on, and is long enough for the log's line.
        let patience = Instant::now() + Duration::from_secs(60);
        while lost_for_secs(&ok(&server, "GET", "/readyz", &Value::Null)) < 2 {
            assert!(Instant::now() < patience, "{case}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }

        forger.heal();
        let passes = |health: &Value| health["status"] == "pass";
        let patience = Instant::now() + Duration::from_secs(60);
        while !passes(&ok(&server, "GET", "/readyz", &Value::Null)) {
            for n in 0..8 {
                call(&server, "GET", &items(n), &Value::Null);
            }
            assert!(Instant::now() < patience, "{case}: it does not recover");
        }
        ok(&server, "GET", &items(0), &Value::Null);
        let (status, log, _) = server.end(Signal::SIGTERM);
        assert_eq!(status, Some(0), "{case}: {log}");
        assert_eq!(lines(&log, "no node of the cluster is reachable").len(), 1, "{case}: {log}");
        assert!(lines(&log, "no node of the cluster is reachable")[0].contains(&node), "{case}: {log}");
        assert_eq!(lines(&log, "the cluster is reachable again").len(), 1, "{case}: {log}");
        assert!(!log.contains("\"target\":\"scylla"), "{case}: the driver speaks: {log}");
        assert!(log.lines().count() < 40, "{case}: {log}");
    }
}

/// A cluster and a Postgres that accept connections and stay silent: both are queried at once.
#[test]
fn a_start_connects_to_both_databases_at_once() {
    let [cluster, postgres] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let at = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let mut command = liststore(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()).envs([
        ("LISTSTORE__ITEMS__STORE", "cql"),
        ("LISTSTORE__ITEMS__CQL__CONTACT_POINTS", at(&cluster).as_str()),
        ("LISTSTORE__METADATA__STORE", "postgres"),
        ("LISTSTORE__METADATA__POSTGRES__URL", format!("postgres://u@{}/d", at(&postgres)).as_str()),
    ]);
    let mut process = command.spawn().unwrap();
    let (mut asked, _) = postgres.accept().unwrap();
    let _also_asked = cluster.accept().unwrap();
    let began = Instant::now();
    // Postgres is given up some seconds later.
    asked.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    asked.read_to_end(&mut Vec::new()).unwrap();
    let waited = began.elapsed();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(waited > Duration::from_millis(100), "Postgres was given up before the cluster was asked");
}
