//! Restored servers: jobs that the backup interrupts, disagreeing parts, and erasures after the backup.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use liststore::domain::{Clock, SystemClock};
use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::backup::{backup, data_in, run_command, text};
use crate::callers::ask;
use crate::program::{Server, run};

/// How long a busy machine may take: some hundred steps wait for its disk, one after the other.
const PATIENCE: Duration = Duration::from_secs(600);

/// A job that is copied later than the items contradicts them: it is done, but the copy has its lists. The same applies
/// to an index.
#[test]
fn jobs_that_a_backup_interrupts_end_on_the_restored_server() {
    const LISTS: usize = 3_000;
    const BAGS: usize = 300;
    let server = Server::start();
    server.feature("seen", "string");
    let now = SystemClock.now().as_nanos().to_string();
    for first in (0..LISTS).step_by(500) {
        let request = |n: usize| {
            json!({"entity_type": "customer", "feature": "seen", "entity_id": format!("c-{n}"),
                "items": [{"timestamp": now, "value": "x"}]})
        };
        let requests: Vec<_> = (first..first + 500).map(request).collect();
        ask(server.address(), "POST", "/v1/lists:batchAdd", &json!({ "requests": requests }).to_string()).expect(200);
    }
    ask(server.address(), "POST", "/v1/entity-types", &json!({"entity_type": "link"}).to_string()).expect(201);
    for bag in 0..BAGS {
        let path = format!("/v1/entities/link/b-{bag}");
        ask(server.address(), "PUT", &path, &json!({"a": 1}).to_string()).expect(201);
    }
    ask(server.address(), "POST", "/v1/features/customer/seen/purge", "{}").expect(202);
    let index = json!({"name": "by", "properties": ["/a"]}).to_string();
    ask(server.address(), "POST", "/v1/entity-types/link/indexes", &index).expect(201);
    let mut backups = Vec::new();
    for _ in 0..4 {
        let dir = TempDir::new().unwrap();
        run_command(&mut backup(&server, &data_in(&dir))).ok();
        backups.push(dir);
    }
    drop(server);
    for dir in backups {
        let checked = run(&["check", "--dir", text(&data_in(&dir))]).ok();
        assert!(checked.contains("agreement "), "{checked}");
        let server = Server::start_in(dir, "127.0.0.1:0", &[]);
        let get = |path: &str| ask(server.address(), "GET", path, "").expect(200);
        let give_up = Instant::now() + PATIENCE;
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            while !holds() {
                assert!(Instant::now() < give_up, "{what}: {}", get("/v1/jobs"));
                std::thread::yield_now();
            }
        };
        let is_purged = || get("/v1/jobs")["jobs"].as_array().unwrap().iter().all(|job| job["state"] == "done");
        until("the purge ends", &is_purged);
        assert_eq!(get("/v1/features/customer/seen/entities")["entities"], json!([]));
        until("the index is ready", &|| get("/v1/entity-types/link/indexes/by")["state"] == "ready");
        let found = get("/v1/entity-types/link/indexes/by/entities?value=1&limit=1000");
        assert_eq!(found["entities"].as_array().unwrap().len(), BAGS);
    }
}

/// A copy of an earlier release: the index of one moment, and the bags of another.
#[test]
fn a_check_names_disagreements() {
    let server = Server::start();
    ask(server.address(), "POST", "/v1/entity-types", &json!({"entity_type": "link"}).to_string()).expect(201);
    let put = |bag: &str| ask(server.address(), "PUT", &format!("/v1/entities/link/{bag}"), r#"{"a":1}"#).expect(201);
    put("one");
    let dir = TempDir::new().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    run_command(&mut backup(&server, &before)).ok();
    let index = json!({"name": "by", "properties": ["/a"]}).to_string();
    ask(server.address(), "POST", "/v1/entity-types/link/indexes", &index).expect(201);
    let give_up = Instant::now() + PATIENCE;
    while ask(server.address(), "GET", "/v1/entity-types/link/indexes/by", "").expect(200)["state"] != "ready" {
        assert!(Instant::now() < give_up, "it is never ready");
        std::thread::yield_now();
    }
    put("two");
    run_command(&mut backup(&server, &after)).ok();
    let whole = run(&["check", "--dir", text(&after)]).ok();
    assert!(whole.contains("agreement 1 ready indexes, 0 finished jobs"), "{whole}");
    std::fs::copy(after.join("metadata.redb"), before.join("metadata.redb")).unwrap();
    let found = run(&["check", "--dir", text(&before)]);
    assert_eq!(found.status, 1, "{found:?}");
    assert!(found.out.contains("the index by of link is ready but lacks 1 of 1 bag"), "{found:?}");
    // The remedy of the message.
    let restored = TempDir::new().unwrap();
    std::fs::rename(&before, data_in(&restored)).unwrap();
    let server = Server::start_in(restored, "127.0.0.1:0", &[]);
    server.ok(&["clean", "link"]);
    let page = ask(server.address(), "GET", "/v1/entity-types/link/indexes/by/entities?value=1", "").expect(200);
    assert_eq!(page["entities"].as_array().unwrap().len(), 1);
    let (_, _, restored) = server.end(Signal::SIGTERM);
    run(&["check", "--dir", text(&data_in(&restored))]).ok();
}

/// The items of one backup, with the definitions and jobs of a later one. A purge and a receipt then refer to items
/// that the restore brought.
#[test]
fn a_check_names_items_that_are_older_than_the_notes_about_them() {
    let server = Server::start();
    server.feature("seen", "string");
    for entity in ["one", "two"] {
        server.ok(&["list", "add", "customer", "seen", entity, "x"]);
    }
    let dir = TempDir::new().unwrap();
    let backed_up = |name: &str| {
        let path = dir.path().join(name);
        run_command(&mut backup(&server, &path)).ok();
        path
    };
    let before = backed_up("before");
    server.ok(&["purge", "customer", "seen", "--yes", "--wait"]);
    let purged = backed_up("purged");
    // Even after later adds, a complete backup is consistent.
    server.ok(&["list", "add", "customer", "seen", "three", "x"]);
    server.ok(&["entity", "erase", "customer", "three", "--yes"]);
    let erased = backed_up("erased");
    for whole in [&before, &purged, &erased] {
        run(&["check", "--dir", text(whole)]).ok();
    }
    let check_with = |items: &Path, notes: &Path| {
        std::fs::copy(notes.join("metadata.redb"), items.join("metadata.redb")).unwrap();
        run(&["check", "--dir", text(items)])
    };
    let found = check_with(&purged, &erased);
    assert!(found.status == 1 && found.out.contains("the items are older than the definitions and jobs"), "{found:?}");
    let found = check_with(&before, &erased);
    assert!(found.status == 1 && found.out.contains("the items are older than the definitions and jobs"), "{found:?}");
    assert!(found.out.contains("(purge) is done, but 2 lists of customer#seen| still exist"), "{found:?}");
    // The remedy of the message.
    let restored = TempDir::new().unwrap();
    std::fs::rename(&before, data_in(&restored)).unwrap();
    let server = Server::start_in(restored, "127.0.0.1:0", &[]);
    server.ok(&["purge", "customer", "seen", "--yes", "--wait"]);
    let (_, _, restored) = server.end(Signal::SIGTERM);
    run(&["check", "--dir", text(&data_in(&restored))]).ok();
}

/// A backup restores erased entities and revoked keys. The former trail removes them again.
#[test]
fn a_restored_server_repeats_erasures_and_revocations_before_it_listens() {
    let server = Server::start();
    server.feature("seen", "string");
    server.feature("bought", "string");
    for (feature, entity) in [("seen", "erased"), ("seen", "kept"), ("bought", "kept")] {
        server.ok(&["list", "add", "customer", feature, entity, "x"]);
    }
    // This erasure is older than the backup. Items added after the erasure stay.
    server.ok(&["entity", "erase", "customer", "kept", "--yes"]);
    server.ok(&["list", "add", "customer", "seen", "kept", "again"]);
    server.ok(&["list", "add", "customer", "bought", "kept", "again"]);
    let key = |name: &str| {
        let made = server.run(&["key", "create", name, "--role", "admin", "--local", "--data-dir", "data"]);
        made.out.trim().to_owned()
    };
    let (admin, revoked) = (key("admin"), key("revoked"));
    let dir = TempDir::new().unwrap();
    run_command(&mut backup(&server, &data_in(&dir))).ok();
    let asked = |arguments: &[&str]| run_command(server.command(arguments).env("LISTSTORE_TOKEN", &admin)).ok();
    asked(&["entity", "erase", "customer", "erased", "--yes"]);
    asked(&["purge", "customer", "bought", "--yes", "--wait"]);
    asked(&["key", "revoke", &revoked[3..15], "--yes"]);
    // An erasure with a failing condition changes nothing, here and in the repetition.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = "DELETE /v1/entities/customer/kept HTTP/1.1\r\nHost: x\r\nIf-Match: \"old\"\r\nConnection: close\r\n";
    stream.write_all(format!("{head}Authorization: Bearer {admin}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 412 "), "{answer}");
    let trail = asked(&["audit", "--limit", "100000", "-o", "ndjson"]);
    drop(server);

    let replay = data_in(&dir).join("replay.ndjson");
    std::fs::write(&replay, format!("{trail}not an entry\n")).unwrap();
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", text(&data_in(&dir))]);
    let line = trail.lines().count() + 1;
    assert!(refused.status != 0 && refused.err.contains(&format!("replay.ndjson, line {line}: ")), "{refused:?}");
    std::fs::write(&replay, trail).unwrap();
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    let asked = |token: &str, arguments: &[&str]| run_command(server.command(arguments).env("LISTSTORE_TOKEN", token));
    let values = |feature: &str, entity: &str| asked(&admin, &["list", "get", "customer", feature, entity]).out;
    assert_eq!(values("seen", "erased"), "");
    assert!(values("seen", "kept").contains("again"));
    asked(&revoked, &["feature", "list"]).failed(1);
    let give_up = Instant::now() + PATIENCE;
    while !values("bought", "kept").is_empty() {
        assert!(Instant::now() < give_up, "the purge is not repeated");
        std::thread::yield_now();
    }
    assert!(data_in(&server.dir).join("replay.ndjson.done").exists());
}

/// One entry, by the first start on the restored store.
#[test]
fn a_restore_is_in_the_audit_trail() {
    let server = Server::start();
    let backup_dir = TempDir::new().unwrap();
    run_command(&mut backup(&server, &data_in(&backup_dir))).ok();
    drop(server);
    let dir = TempDir::new().unwrap();
    let (from, to) = (data_in(&backup_dir), data_in(&dir));
    run(&["restore", text(&from), "--data-dir", text(&to)]).ok();
    let entries = |server: &Server| {
        let trail = server.ok(&["audit", "--action", "restore_backup", "-o", "ndjson"]);
        trail.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    let first = entries(&server);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0]["after"]["from"], text(&from));
    assert!(!to.join("restored.json").exists());
    let (_, _, dir) = server.end(Signal::SIGTERM);
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    assert_eq!(entries(&server), first);
}
