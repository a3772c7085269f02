//! The output of commands for programs: documents with stable members.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{CommandOutput, Server, liststore, run};

/// The one document that a command prints, in one line.
#[track_caller]
fn document(out: &str) -> Value {
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(out).unwrap()
}

#[test]
fn check_prints_its_findings_as_one_document() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    let check = |address: &str, format: &str| -> CommandOutput {
        run(&["check", "--listen", address, "--data-dir", &data, "--output", format])
    };
    let found = document(&check("127.0.0.1:0", "json").ok());
    let nothing = |part| json!({"part": part, "found": format!("{}: empty", store_of(part, &data))});
    let settings = json!({"http.listen": "flag --listen", "items.embedded.dir": "flag --data-dir"});
    let free = json!({"part": "http", "found": "127.0.0.1:0 is available"});
    let findings = json!([nothing("items"), nothing("metadata"), free]);
    assert_eq!(found, json!({"settings": settings, "warnings": [], "findings": findings, "sound": true}));
    assert_eq!(document(&check("127.0.0.1:0", "ndjson").ok()), found);
    // It contains the problem, and the exit status reports it too.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let finished = check(&address, "json");
    let found = document(&finished.out);
    assert_eq!((&found["sound"], &found["findings"][0]), (&json!(false), &nothing("items")));
    let http = &found["findings"][2];
    assert!(http["part"] == "http" && http.get("found").is_none(), "{found}");
    assert!(http["error"].as_str().unwrap().starts_with(&format!("cannot listen on {address}")), "{found}");
    finished.failed(1);
    // Unusual settings cause warnings.
    let environment = [("LISTSTORE__ITEMS__STORE", "memory"), ("LISTSTORE__HTTP__LISTEN", "127.0.0.1:0")];
    let mut command = liststore(&["check", "--output", "json", "--data-dir", &data]);
    let finished = CommandOutput::from(command.envs(environment).output().unwrap());
    let found = document(&finished.ok());
    assert_eq!(found["settings"]["items.store"], "environment variable LISTSTORE__ITEMS__STORE");
    assert_eq!(found["findings"][0], json!({"part": "items", "found": "memory store"}));
}

fn store_of(part: &str, data: &str) -> String {
    format!("embedded store in {data}{}", if part == "items" { ", fsync group" } else { "" })
}

#[test]
fn check_of_a_directory_prints_one_document() {
    let server = Server::start();
    server.feature("seen", "string");
    server.ok(&["list", "add", "customer", "seen", "u", "--value", "x"]);
    let (_, _, dir) = server.end(Signal::SIGTERM);
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    let found = document(&run(&["check", "--dir", &data, "--output", "json"]).ok());
    let members: Vec<_> = found.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["dir", "findings", "sound", "warnings"]);
    assert_eq!((&found["dir"], &found["warnings"], &found["sound"]), (&json!(data), &json!([]), &json!(true)));
    let findings = found["findings"].as_array().unwrap();
    let parts: Vec<_> = findings.iter().map(|finding| finding["part"].as_str().unwrap()).collect();
    assert_eq!(parts, ["items", "log", "metadata", "agreement"]);
    assert_eq!(findings[2]["found"], "1 features, 1 changes in their history");
    let nowhere = dir.path().join("nowhere").to_str().unwrap().to_owned();
    let finished = run(&["check", "--dir", &nowhere, "--output", "json"]);
    let found = document(&finished.out);
    assert!(found["sound"] == false && found["findings"][0]["error"].is_string(), "{found}");
    finished.failed(1);
}

/// A store may take long to answer. Known results are printed immediately.
#[test]
fn check_prints_each_part_as_soon_as_it_is_known() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u@{}/db?sslmode=disable", silent.local_addr().unwrap());
    let environment = [
        ("LISTSTORE__ITEMS__STORE", "memory"),
        ("LISTSTORE__METADATA__STORE", "postgres"),
        ("LISTSTORE__METADATA__POSTGRES__URL", &url),
        ("LISTSTORE__HTTP__LISTEN", "127.0.0.1:0"),
    ];
    let mut command = liststore(&["check"]);
    let mut process = command.envs(environment).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("items ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0);
    }
    assert_eq!((line.as_str(), String::from_utf8_lossy(out.buffer())), ("items     memory store\n", "".into()));
    drop(silent);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("metadata  FAILED: ") && rest.contains("\nhttp "), "{rest}");
    assert_eq!(process.wait().unwrap().code(), Some(1));
}

#[test]
fn migrate_prints_its_changes_as_one_document() {
    for (arguments, dry_run) in [(&["migrate"][..], false), (&["migrate", "--dry-run"], true)] {
        let steps = ["items", "metadata"].map(|plane| format!("{plane}: the embedded store needs no migration"));
        let printed = document(&run(&[arguments, &["--output", "json"]].concat()).ok());
        assert_eq!(printed, json!({"dry_run": dry_run, "steps": steps}));
    }
}

#[test]
fn ready_prints_the_document_of_the_server_and_the_server_logs_readiness() {
    let server = Server::start();
    let url = server.url.clone();
    let checks = ["accepting", "access", "catalog", "item_store", "metadata_store"];
    let checks: BTreeMap<_, _> = checks.into_iter().map(|check| (check, "pass")).collect();
    let reported = document(&run(&["ready", "--url", &url, "--output", "json"]).ok());
    assert_eq!(reported, json!({"status": "pass", "checks": checks}));
    let (_, log, _) = server.end(Signal::SIGTERM);
    let ready: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!((&ready["message"], &ready["url"], &ready["open"]), (&json!("ready"), &json!(url), &json!(true)));
    let gone = run(&["ready", "--url", &url, "--output", "json"]);
    assert!(gone.out.is_empty(), "{gone:?}");
    gone.failed(1);
}

#[test]
fn feature_import_prints_one_document_of_its_changes() {
    let server = Server::start();
    server.feature("clicks", "int64");
    server.ok(&["feature", "create", "user", "seen", "--value-type", "string", "--ttl", "30d"]);
    let file = server.write(
        "features.yaml",
        "features:\n- {entity_type: user, name: seen, value_type: string, ttl: 7d, versions: [{version: v2, ttl: 1d}]}\n\
         - {entity_type: user, name: new, value_type: json, ttl: 1d}\n",
    );
    let import = |arguments: &[&str]| {
        document(&server.ok(&[&["feature", "import", &file, "--output", "json"], arguments].concat()))
    };
    let changes = |printed: &Value| {
        let mut changes: Vec<_> = printed["changes"].as_array().unwrap().iter().map(Value::to_string).collect();
        changes.sort();
        changes
    };
    let expected = [
        json!({"action": "create", "entity_type": "user", "name": "new", "details": "json, ttl 1d"}),
        json!({"action": "create", "entity_type": "user", "name": "seen", "version": "v2", "details": "ttl 1d"}),
        json!({"action": "update", "entity_type": "user", "name": "seen", "details": "ttl 30d -> 7d"}),
    ];
    let planned = import(&["--dry-run"]);
    assert_eq!((&planned["dry_run"], &planned["left_alone"]), (&json!(true), &json!(["customer.clicks"])));
    assert_eq!(changes(&planned), expected.each_ref().map(Value::to_string));
    assert_eq!(planned.as_object().unwrap().len(), 3);
    let done = import(&[]);
    assert_eq!((&done["dry_run"], changes(&done)), (&json!(false), changes(&planned)));
    assert_eq!(import(&[]), json!({"dry_run": false, "changes": [], "left_alone": ["customer.clicks"]}));
    let pruned = json!([{"action": "delete", "entity_type": "customer", "name": "clicks"}]);
    assert_eq!(import(&["--prune", "--yes"]), json!({"dry_run": false, "changes": pruned, "left_alone": []}));
}
