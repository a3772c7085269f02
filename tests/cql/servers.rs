//! Real server processes on one cluster: the next read through any server shows an acknowledged write; and the
//! programs' reports about the cluster, and their silence about secrets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use liststore::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ListKey, Timestamp, VersionLabel,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::cassandra::{shared, shared_options};
use crate::probe::{bare, now, now_micros, stored, write_row};
use crate::program::{CommandOutput, Server, liststore};

/// Far beyond the time of anything here, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const USER: &str = "somebody";
const PASSWORD: &str = "hush-hush-login";
const SECRET_VALUE: &str = "hush-hush-value";

/// Settings of a server on the cluster that the tests share.
pub fn environment() -> Vec<(&'static str, String)> {
    vec![
        ("LISTSTORE__ITEMS__STORE", "cql".to_owned()),
        ("LISTSTORE__ITEMS__CQL__CONTACT_POINTS", shared().join(",")),
        ("LISTSTORE__ITEMS__CQL__KEYSPACE", shared_options().keyspace),
        ("LISTSTORE__ITEMS__CQL__REPLICATION_FACTOR", "1".to_owned()),
        // The shared cluster requires no login, so this one is unused.
        ("LISTSTORE__ITEMS__CQL__USERNAME", USER.to_owned()),
        ("LISTSTORE__ITEMS__CQL__PASSWORD", PASSWORD.to_owned()),
        ("LISTSTORE__METADATA__STORE", "memory".to_owned()),
        ("LISTSTORE__ITEMS__ACTORS", "2".to_owned()),
        ("LISTSTORE__HTTP__WORKERS", "1".to_owned()),
        ("LISTSTORE__LOG__FILTER", "trace".to_owned()),
    ]
}

fn start() -> Server {
    let environment = environment();
    let environment: Vec<_> = environment.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Server::start_with(&environment)
}

pub fn call(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

/// The body of an answer, which must be a success. A read may be repeated.
#[track_caller]
pub fn ok(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    if method == "GET" {
        return ok_soon(server, method, path, body);
    }
    let (status, answer) = call(server, method, path, body);
    assert!(status < 300, "{method} {path}: {status} {answer}");
    answer
}

/// The same, repeated until it is answered: a refusal because the server or its stores are not ready is not an answer.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a thread of its own waits, and no arbiter")]
pub fn ok_soon(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let began = Instant::now();
    loop {
        let (status, answer) = call(server, method, path, body);
        if status < 300 {
            return answer;
        }
        assert!(matches!(status, 503 | 504) && began.elapsed() < PATIENCE, "{method} {path}: {status} {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server's answer that is not JSON.
pub fn text(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn values(server: &Server, items: &str) -> Vec<String> {
    let page = ok(server, "GET", items, &Value::Null);
    page["items"].as_array().unwrap().iter().map(|item| item["value"].as_str().unwrap().to_owned()).collect()
}

/// Creates a separate feature on each server; both have its first generation. Returns its name.
pub fn feature_on(servers: &[&Server]) -> String {
    let name = format!("f{}", uuid::Uuid::new_v4().simple());
    for server in servers {
        let body = json!({"entity_type": "user", "name": name, "value_type": "string", "ttl": "1h"});
        ok(server, "POST", "/v1/features", &body);
    }
    name
}

fn list_key(feature: &str) -> ListKey {
    let name = FeatureName::new(feature).unwrap();
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name };
    let key = FeatureKey::new(&id, &VersionLabel::new("").unwrap(), Generation::FIRST);
    ListKey::new(key, EntityId::new("u-1").unwrap())
}

#[tokio::test]
async fn two_server_processes_share_one_state() {
    let (one, two) = (start(), start());
    let feature = feature_on(&[&one, &two]);
    let items = format!("/v1/lists/user/{feature}/u-1/items");
    for n in 0..30 {
        let (writer, reader) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let value = format!("{SECRET_VALUE}-{n}");
        let item = json!({"items": [{"timestamp": now().as_nanos(), "value": value}]});
        assert_eq!(ok(writer, "POST", &items, &item)["added"], 1);
        assert_eq!(values(reader, &items)[0], value);
        if n % 3 == 2 {
            assert_eq!(ok(reader, "POST", &format!("{items}:remove"), &json!({"value": value}))["removed"], 1);
            assert!(!values(writer, &items).contains(&value));
        }
    }
    ok(&two, "DELETE", &items, &Value::Null);
    assert!(values(&one, &items).is_empty());

    for server in [one, two] {
        let (status, log, _) = server.end(Signal::SIGTERM);
        assert_eq!(status, Some(0), "{log}");
        assert!(log.contains("opened a CQL session"), "{log}");
        for secret in [PASSWORD, SECRET_VALUE] {
            assert!(!log.contains(secret), "a secret is in the log: {secret}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_ahead_is_a_warning_of_readyz() {
    let (server, bare) = (start(), bare(&shared_options()).await);
    assert_eq!(ok(&server, "GET", "/readyz", &Value::Null)["status"], "pass");
    let feature = feature_on(&[&server]);
    write_row(&bare, &list_key(&feature), now(), b"v", 600, now_micros() + 60_000_000).await;
    let removal = format!("/v1/lists/user/{feature}/u-1/items:remove");
    assert_eq!(ok(&server, "POST", &removal, &json!({"value": "v"}))["removed"], 1);
    let (status, health) = call(&server, "GET", "/readyz", &Value::Null);
    assert_eq!((status, &health["status"]), (200, &json!("warn")), "{health}");
    assert!(health["reasons"].to_string().contains("clock"), "{health}");
}

#[tokio::test]
async fn a_server_writes_the_rows_of_the_design() {
    let (server, bare) = (start(), bare(&shared_options()).await);
    let feature = feature_on(&[&server]);
    let base = now();
    let earlier = Timestamp::from_nanos(base.as_nanos() - 60_000_000_000).unwrap();
    let sent = json!({"items": [
        {"timestamp": base.as_nanos(), "value": "new"},
        {"timestamp": earlier.as_nanos(), "value": "older"},
        {"timestamp": base.as_nanos() - 3_600_000_000_000, "value": "expired"},
    ]});
    let answer = ok(&server, "POST", &format!("/v1/lists/user/{feature}/u-1/items"), &sent);
    assert_eq!(answer, json!({"added": 2, "already_expired": 1}));
    let rows = stored(&bare, &list_key(&feature)).await;
    let keys: Vec<_> = rows.iter().map(|row| row.item_key.as_str()).collect();
    assert_eq!(keys, [crate::probe::key(base, b"new"), crate::probe::key(earlier, b"older")]);
    assert_eq!(rows[0].writetime, rows[1].writetime);
    assert_eq!(rows[0].ttl - rows[1].ttl, 60);
}

#[test]
fn check_reports_the_cluster_without_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let check = |changed: &[(&str, &str)]| -> CommandOutput {
        let mut command = liststore(&["check"]);
        command.current_dir(dir.path()).envs(environment()).envs(changed.iter().copied());
        // Independent of other listeners on this machine.
        command.env("LISTSTORE__HTTP__LISTEN", "127.0.0.1:0");
        command.output().unwrap().into()
    };
    let well = check(&[]);
    assert_eq!(well.status, 0, "{well:?}");
    for reported in [shared()[0].as_str(), "cassandra", "5.0.", "datacenter1", "connections", "serve would start"] {
        assert!(well.out.contains(reported), "{reported} is missing: {}", well.out);
    }
    let missing = check(&[("LISTSTORE__ITEMS__CQL__KEYSPACE", "no_such_keyspace")]);
    assert_eq!(missing.status, 1, "{missing:?}");
    assert!(missing.out.contains("liststore migrate"), "{missing:?}");
    let elsewhere = check(&[("LISTSTORE__ITEMS__CQL__DATACENTER", "elsewhere")]);
    assert!(elsewhere.status == 1 && elsewhere.out.contains("datacenter1"), "{elsewhere:?}");
    for finished in [well, missing, elsewhere] {
        assert!(!format!("{finished:?}").contains(PASSWORD));
    }
}
