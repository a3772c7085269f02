//! The log of a server: its content and form, and changes during a run.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::callers::ask;
use crate::program::{Server, liststore, run};

/// The lines of a log of objects.
fn objects(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no object: {line}"))).collect()
}

#[test]
fn a_first_start_logs_no_warnings() {
    let (status, log, _) = Server::start().end(Signal::SIGTERM);
    assert_eq!(status, Some(0));
    let lines = objects(&log);
    assert_eq!(lines[0]["message"], "ready", "the first line: {log}");
    assert!(lines.iter().all(|line| line["level"] == "INFO"), "{log}");
}

#[test]
fn a_line_is_a_flat_object() {
    let server = Server::start_with(&[("LISTSTORE__LOG__FILTER", "debug")]);
    ask(server.address(), "GET", "/v1/features", "").expect(200);
    let (_, log, _) = server.end(Signal::SIGTERM);
    let lines = objects(&log);
    for line in &lines {
        let members = line.as_object().unwrap();
        assert!(["timestamp", "level", "message", "target"].iter().all(|name| members[*name].is_string()), "{line}");
        assert!(members.values().all(|value| !value.is_object() && !value.is_array()), "{line}");
    }
    let answered = lines.iter().find(|line| line["message"] == "answered").unwrap();
    assert!(answered["request_id"].is_string() && answered["operation"] == "list_features", "{answered}");
}

#[test]
fn a_fatal_error_is_logged_in_the_configured_form() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let data = file.join("data");
    let tries = |variables: &[(&str, &str)]| {
        let mut command = liststore(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
        crate::program::CommandOutput::from(command.envs(variables.iter().copied()).output().unwrap())
    };
    // The filter is irrelevant.
    let finished = tries(&[("LISTSTORE__LOG__FILTER", "off")]);
    let reported = &objects(&finished.err)[0];
    assert_eq!((finished.status, &reported["level"]), (1, &"ERROR".into()));
    assert!(reported["message"].as_str().unwrap().starts_with("cannot open"), "{reported}");
    let wrong = ("LISTSTORE__HTTP__WORKERS", "no");
    let finished = tries(&[wrong]);
    let reported = &objects(&finished.err)[0];
    assert_eq!((finished.status, &reported["level"]), (2, &"ERROR".into()));
    assert!(reported["message"].as_str().unwrap().contains("http.workers"), "{reported}");
    let finished = tries(&[wrong, ("LISTSTORE__LOG__FORMAT", "text")]);
    assert!(finished.status == 2 && finished.err.starts_with("error: http.workers"), "{finished:?}");
}

#[test]
fn access_log_lines_are_optional_and_contain_no_secret() {
    let server = Server::start();
    let set = |arguments: &[&str]| {
        let mut all = vec!["log", "set", "--url", &server.url];
        all.extend(arguments);
        run(&all).ok()
    };
    ask(server.address(), "GET", "/v1/features?q=before", "").expect(200);
    assert_eq!(set(&["--access", "errors"]), "filter    info\nrequests  errors\n");
    ask(server.address(), "GET", "/v1/features?q=hidden-1", "").expect(200);
    assert_eq!(ask(server.address(), "GET", "/v1/lists/user/unknown/hidden-2/items", "").status, 404);
    assert_eq!(ask(server.address(), "GET", "/hidden-3", "").status, 404);
    set(&["--access", "all", "--filter", "off"]);
    let body = r#"{"entity_type":"user","name":"seen","value_type":"string","ttl":"1d","owner":"hidden-4"}"#;
    assert_eq!(ask(server.address(), "POST", "/v1/features", body).status, 201);
    set(&["--access", "off"]);
    let shown = run(&["log", "get", "--url", &server.url, "--output", "json"]).ok();
    assert_eq!(shown, "{\"filter\":\"off\",\"access\":\"off\"}\n");
    let (_, log, _) = server.end(Signal::SIGTERM);
    let lines = objects(&log);
    let reported: Vec<_> = lines
        .iter()
        .filter(|line| line["target"] == "access_log")
        .map(|line| {
            assert!(line["took_us"].is_u64() && line["request_id"].is_string(), "{line}");
            assert!(line["bytes"].as_u64().unwrap() > 20 && line["principal"] == "anonymous", "{line}");
            let text = |name: &str| line[name].as_str().unwrap();
            format!("{} {} {}", text("method"), text("path"), line["status"])
        })
        .collect();
    let expected = [
        "GET /v1/lists/{entity_type}/{feature}/{entity_id}/items 404",
        "GET none 404",
        "PATCH /v1/log 200",
        "POST /v1/features 201",
    ];
    assert_eq!(reported, expected);
    assert!(!log.contains("hidden"), "{log}");
}

#[test]
fn the_filter_is_changed_over_the_socket_and_the_change_is_logged() {
    let server = Server::start();
    let data = server.dir.path().join("data");
    let set = |filter: &str| run(&["log", "set", "--local", "--data-dir", data.to_str().unwrap(), "--filter", filter]);
    ask(server.address(), "GET", "/livez", "").expect(200);
    assert_eq!(set("info,liststore::api=debug").ok(), "filter    info,liststore::api=debug\nrequests  off\n");
    ask(server.address(), "GET", "/livez", "").expect(200);
    let refused = set("liststore=loud").failed(1);
    assert!(refused.contains("filter"), "{refused}");
    set("info").ok();
    ask(server.address(), "GET", "/livez", "").expect(200);
    let (_, log, _) = server.end(Signal::SIGTERM);
    let lines = objects(&log);
    assert_eq!(lines.iter().filter(|line| line["operation"] == "livez").count(), 1, "{log}");
    assert_eq!(lines.iter().filter(|line| line["message"] == "log settings changed").count(), 4, "{log}");
    assert!(lines.iter().any(|line| line["by"] == "local"), "{log}");
}
