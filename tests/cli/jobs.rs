//! `purge` and `jobs` against a server.

use serde_json::{Value, json};

use crate::callers::ask;
use crate::program::Server;

fn items(server: &Server, entity: &str) -> usize {
    let page = ask(server.address(), "GET", &format!("/v1/lists/customer/seen/{entity}/items"), "").expect(200);
    page["items"].as_array().unwrap().len()
}

fn filled() -> Server {
    let server = Server::start();
    server.feature("seen", "string");
    for entity in ["a", "b", "c"] {
        server.ok(&["list", "add", "customer", "seen", entity, "x"]);
    }
    server
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_command_that_waits_for_a_purge_ends_with_it() {
    let server = filled();
    let reported = server.run(&["purge", "customer", "seen"]).failed(2);
    assert!(reported.contains("--yes"), "{reported}");
    assert_eq!(items(&server, "a"), 1, "no confirmation was given");
    let job = parsed(&server.ok(&["purge", "customer", "seen", "--yes", "--wait", "--user", "ann", "-o", "json"]));
    assert_eq!((&job["state"], &job["lists_cleared"]), (&"done".into(), &3.into()), "{job}");
    assert!(job["created_by"].as_str().unwrap().contains("ann"), "{job}");
    assert!(["a", "b", "c"].iter().all(|entity| items(&server, entity) == 0));
    let id = job["id"].as_str().unwrap();
    let shown = server.ok(&["jobs", "get", id]);
    assert!(shown.contains("state             done") && shown.contains("customer.seen"), "{shown}");
    let listed = server.ok(&["jobs", "list"]);
    assert!(listed.starts_with("ID ") && listed.contains(id), "{listed}");
    assert_eq!(parsed(server.ok(&["jobs", "list", "-o", "ndjson"]).trim())["id"], id);
    let over = server.run(&["jobs", "pause", id]).failed(1);
    assert!(over.contains("job_is_over"), "{over}");
    assert_eq!(server.run(&["jobs", "get", "17"]).status, 2);
}

#[test]
fn a_slow_purge_is_paused_resumed_and_cancelled() {
    let server = filled();
    // Work for minutes. The commands take some seconds.
    let request = |n| {
        json!({"entity_type": "customer", "feature": "seen", "entity_id": format!("c-{n}"),
            "items": [{"timestamp": "2026-01-01T00:00:00Z", "value": "x"}]})
    };
    let requests: Vec<_> = (0..300).map(request).collect();
    ask(server.address(), "POST", "/v1/lists:batchAdd", &json!({ "requests": requests }).to_string()).expect(200);
    let slow = ["purge", "customer", "seen", "--yes", "--lists-per-second", "1", "-o", "json"];
    let id = parsed(&server.ok(&slow))["id"].as_str().unwrap().to_owned();
    let state = |command: &str| parsed(&server.ok(&["jobs", command, &id, "-o", "json"]))["state"].clone();
    assert_eq!(state("pause"), "paused");
    assert_eq!(state("get"), "paused");
    assert!(["waiting", "running"].contains(&state("resume").as_str().unwrap()));
    let faster = parsed(&server.ok(&["jobs", "rate", &id, "--lists-per-second", "2", "-o", "json"]));
    assert_eq!(faster["lists_per_second"], 2);
    assert_eq!(state("cancel"), "cancelled");
    let finished = server.run(&["jobs", "get", &id, "--wait"]);
    assert!(
        finished.status == 1 && finished.err.contains("was cancelled") && finished.out.contains(&id),
        "{finished:?}"
    );
}

#[test]
fn indexes_are_cleaned_and_bags_are_purged() {
    let server = Server::start();
    server.ok(&["entity-type", "create", "customer"]);
    server.ok(&["index", "create", "customer", "by_city", "--property", "/city", "--wait"]);
    server.ok(&["entity", "put", "customer", "ada", "{\"city\": \"Paris\"}"]);
    let reported = server.ok(&["clean"]);
    assert!(reported.contains("kind              clean") && reported.contains("entries           1\n"), "{reported}");
    let one = parsed(&server.ok(&["clean", "customer", "--index", "by_city", "-o", "json"]));
    assert_eq!((&one["state"], &one["entries_added"]), (&"done".into(), &0.into()), "{one}");
    let begun = parsed(&server.ok(&["clean", "customer", "--no-wait", "--lists-per-second", "9", "-o", "json"]));
    assert_eq!((&begun["kind"], &begun["lists_per_second"]), (&"clean".into(), &9.into()), "{begun}");
    assert!(server.run(&["clean", "customer", "--index", "none"]).failed(1).contains("index_not_found"));
    assert_eq!(server.run(&["clean", "--index", "by_city"]).status, 2);
    let job = parsed(&server.ok(&["entity-type", "purge", "customer", "--yes", "--wait", "-o", "json"]));
    assert_eq!((&job["kind"], &job["state"]), (&"purge".into(), &"done".into()), "{job}");
    assert!(server.run(&["entity", "get", "customer", "ada"]).failed(1).contains("bag_not_found"));
    assert!(server.run(&["entity-type", "purge", "customer"]).failed(2).contains("--yes"));
}
