//! `purge` and `jobs` against a server.

use serde_json::Value;

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

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_purge_that_is_waited_for_is_done_when_it_ends() {
    let server = filled();
    let told = server.run(&["purge", "customer", "seen"]).failed(2);
    assert!(told.contains("--yes"), "{told}");
    assert_eq!(items(&server, "a"), 1, "nobody said that it was meant");
    let job = json(&server.ok(&["purge", "customer", "seen", "--yes", "--wait", "--user", "ann", "-o", "json"]));
    assert_eq!((&job["state"], &job["lists_cleared"]), (&"done".into(), &3.into()), "{job}");
    assert!(job["created_by"].as_str().unwrap().contains("ann"), "{job}");
    assert!(["a", "b", "c"].iter().all(|entity| items(&server, entity) == 0));
    let id = job["id"].as_str().unwrap();
    let shown = server.ok(&["jobs", "get", id]);
    assert!(shown.contains("state             done") && shown.contains("customer.seen"), "{shown}");
    let listed = server.ok(&["jobs", "list"]);
    assert!(listed.starts_with("ID ") && listed.contains(id), "{listed}");
    assert_eq!(json(server.ok(&["jobs", "list", "-o", "ndjson"]).trim())["id"], id);
    let over = server.run(&["jobs", "pause", id]).failed(1);
    assert!(over.contains("job_is_over"), "{over}");
    assert_eq!(server.run(&["jobs", "get", "17"]).status, 2);
}

#[test]
fn a_slow_purge_is_paused_resumed_and_cancelled() {
    let server = filled();
    let slow = ["purge", "customer", "seen", "--yes", "--lists-per-second", "1", "-o", "json"];
    let id = json(&server.ok(&slow))["id"].as_str().unwrap().to_owned();
    let state = |command: &str| json(&server.ok(&["jobs", command, &id, "-o", "json"]))["state"].clone();
    assert_eq!(state("pause"), "paused");
    assert_eq!(state("get"), "paused");
    assert!(["waiting", "running"].contains(&state("resume").as_str().unwrap()));
    assert_eq!(state("cancel"), "cancelled");
    let said = server.run(&["jobs", "get", &id, "--wait"]);
    assert!(said.status == 1 && said.err.contains("was cancelled") && said.out.contains(&id), "{said:?}");
}
