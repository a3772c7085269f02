//! Servers on the embedded stores and on Cassandra, between which everything is copied, there and back.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Server;
use crate::servers::{environment, ok};

/// More than a part of a copy, so that the test can kill it in between.
const ENTITIES: usize = 1_100;
const PATIENCE: Duration = Duration::from_secs(300);

/// A unique name, because all servers use one keyspace.
fn fresh() -> String {
    format!("t{}", uuid::Uuid::new_v4().simple())
}

fn on_cassandra() -> Server {
    let mut environment = environment();
    environment.retain(|(key, _)| *key != "LISTSTORE__LOG__FILTER");
    let environment: Vec<_> = environment.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Server::start_with(&environment)
}

/// Features of an entity type: of each value type, sets of both identities, in buckets, with a bound, and with a
/// version that has a separate TTL.
fn define(server: &Server, entity_type: &str) -> Vec<(&'static str, &'static str)> {
    let create = |name: &str, more: Value| {
        let mut feature = json!({"entity_type": entity_type, "name": name, "value_type": name, "ttl": "7000d"});
        feature.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ok(server, "POST", "/v1/features", &feature);
    };
    for value_type in ["string", "int64", "double", "bool", "bytes", "json"] {
        create(value_type, json!({}));
    }
    create("keyed", json!({"value_type": "string", "identity": "key", "keep": "newest"}));
    create("members", json!({"value_type": "int64", "identity": "value", "keep": "oldest"}));
    create("monthly", json!({"value_type": "string", "bucket": "month"}));
    create("bounded", json!({"value_type": "int64", "max_items": 3}));
    let path = format!("/v1/features/{entity_type}/string/versions");
    ok(server, "POST", &path, &json!({"version": "v2", "ttl": "6000d"}));
    vec![
        ("string", ""),
        ("string", "v2"),
        ("int64", ""),
        ("double", ""),
        ("bool", ""),
        ("bytes", ""),
        ("json", ""),
        ("keyed", ""),
        ("members", ""),
        ("monthly", ""),
        ("bounded", ""),
    ]
}

fn value(feature: &str, n: usize) -> Value {
    match feature {
        "int64" | "members" | "bounded" => json!(i64::MAX - n as i64),
        "double" => json!(0.1 * n as f64),
        "bool" => json!(n.is_multiple_of(2)),
        "bytes" => json!("AP8="),
        "json" => json!({"b": [n, "x,\""], "a": 1.5}),
        _ => json!(format!("é\"{n}\n😀")),
    }
}

fn fill(server: &Server, entity_type: &str, versions: &[(&str, &str)]) {
    // Some months apart, and some at one moment.
    let now = crate::probe::now().as_nanos();
    let at = |n: usize| now - (n as u64 / 2) * 40 * 86_400_000_000_000;
    for (feature, version) in versions {
        for entity in ["u-1", "c%2F%22,%C3%A9"] {
            let item = |n: usize| {
                let mut item = json!({"timestamp": at(n), "value": value(feature, n)});
                if *feature == "keyed" {
                    item["key"] = json!(format!("k-{n}"));
                }
                item
            };
            let items: Vec<_> = (0..6).map(item).collect();
            let path = format!("/v1/lists/{entity_type}/{feature}/{entity}/items?version={version}");
            ok(server, "POST", &path, &json!({"items": items}));
        }
    }
    let rows: String = (0..ENTITIES).map(|n| format!("many-{n},{now},{n}\n")).collect();
    let file = server.write("many.csv", format!("entity_id,timestamp,value\n{rows}"));
    server.ok(&["import", entity_type, "int64", &file]);
    ok(server, "POST", "/v1/entity-types", &json!({"entity_type": entity_type, "ttl": "6500d", "owner": "feed"}));
    let indexes = format!("/v1/entity-types/{entity_type}/indexes");
    ok(server, "POST", &indexes, &json!({"name": "by_city", "properties": ["/city"], "order_by": "/age"}));
    for n in 0..40 {
        let bag = json!({"city": if n % 4 == 0 { "Paris" } else { "Rome" }, "age": n, "digits": 0.5});
        ok(server, "PUT", &format!("/v1/entities/{entity_type}/u-{n}"), &bag);
    }
}

/// All items, as an export writes them.
fn rows(server: &Server, entity_type: &str, versions: &[(&str, &str)]) -> BTreeSet<String> {
    let export = |(feature, version): &(&str, &str)| {
        let finished =
            server.run(&["export", entity_type, feature, "--version", version, "--format", "ndjson", "--file", "-"]);
        assert_eq!(finished.status, 0, "{finished:?}");
        finished.out
    };
    versions.iter().flat_map(|version| export(version).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The entities that a value of an index finds, in its order.
fn found(server: &Server, entity_type: &str) -> Vec<String> {
    let path = format!("/v1/entity-types/{entity_type}/indexes/by_city/entities?value=%22Paris%22");
    let page = ok(server, "GET", &path, &Value::Null);
    page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].as_str().unwrap().to_owned()).collect()
}

/// The report of a copy: each version with its numbers, which are equal on both servers.
fn alike(reported: &str) -> Vec<(String, String, u64)> {
    let copied: Value = serde_json::from_str(reported).unwrap();
    let version = |copied: &Value| {
        assert_eq!(copied["from"], copied["to"], "{copied}");
        let text = |field: &str| copied[field].as_str().unwrap().to_owned();
        (text("feature"), text("version"), copied["to"]["items"].as_u64().unwrap())
    };
    copied.as_array().unwrap().iter().map(version).collect()
}

#[expect(clippy::disallowed_methods, reason = "no arbiter waits here")]
fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it never came to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Copies features and bags, and compares both servers' content by their own numbers and by all rows.
fn copy_all(from: &Server, to: &Server, entity_type: &str, versions: &[(&str, &str)]) {
    let copy = ["copy", "--from", &*from.url, "--to", &*to.url, entity_type, "-o", "json"];
    let reported = alike(&from.ok(&copy));
    assert_eq!(reported.len(), versions.len(), "{reported:?}");
    // Items that expire soon are not compared, and there are none here.
    let expected = rows(from, entity_type, versions);
    assert_eq!(reported.iter().map(|(_, _, items)| *items).sum::<u64>(), expected.len() as u64, "{reported:?}");
    let arrived = rows(to, entity_type, versions);
    assert_eq!(arrived.len(), expected.len());
    assert!(arrived == expected, "{:?}", arrived.symmetric_difference(&expected).next());
    let copy = ["entity", "copy", entity_type, "--from", &*from.url, "--to", &*to.url, "-o", "json"];
    let reported: Value = serde_json::from_str(&from.ok(&copy)).unwrap();
    assert_eq!((&reported["from"], &reported["to"]["bags"]), (&reported["to"], &json!(40)), "{reported}");
    assert_eq!((&reported["entity_type_created"], &reported["indexes_created"]), (&json!(true), &json!(["by_city"])));
    let paris = found(from, entity_type);
    assert_eq!((paris.len(), found(to, entity_type)), (10, paris));
    for (path, fields) in [
        (format!("/v1/entity-types/{entity_type}"), &["ttl", "owner"][..]),
        (format!("/v1/features/{entity_type}/bounded"), &["max_items", "ttl", "value_type"]),
        (format!("/v1/features/{entity_type}/monthly"), &["bucket"]),
        (format!("/v1/features/{entity_type}/keyed"), &["identity", "keep"]),
        (format!("/v1/features/{entity_type}/string/versions/v2"), &["ttl"]),
    ] {
        let [here, there] = [from, to].map(|server| ok(server, "GET", &path, &Value::Null));
        let of = |definition: &Value| fields.iter().map(|field| definition[field].clone()).collect::<Vec<_>>();
        assert_eq!(of(&there), of(&here), "{path}");
    }
}

#[test]
fn everything_is_copied_to_cassandra_and_back() {
    let (one, middle, other) = (Server::start(), on_cassandra(), Server::start());
    let entity_type = fresh();
    let versions = define(&one, &entity_type);
    fill(&one, &entity_type, &versions);
    copy_all(&one, &middle, &entity_type, &versions);
    copy_all(&middle, &other, &entity_type, &versions);
    let here = rows(&one, &entity_type, &versions);
    assert!(rows(&other, &entity_type, &versions) == here, "there and back is not the same");
}

#[test]
fn a_killed_copy_to_cassandra_continues_where_it_ended() {
    let (one, other) = (Server::start(), on_cassandra());
    let state = one.dir.path().join("copy.state");
    // On a busy machine a copy may be over before it is killed.
    for _ in 0..10 {
        let entity_type = fresh();
        let versions = define(&one, &entity_type);
        fill(&one, &entity_type, &versions);
        let copy =
            ["copy", "--from", &*one.url, "--to", &*other.url, &entity_type, "--state", "copy.state", "-o", "json"];
        let mut process = one.command(&copy).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It has begun with the only feature that takes several parts.
        let has_begun = || std::fs::read_to_string(&state).is_ok_and(|text| text.contains("page_token"));
        until(|| has_begun() || process.try_wait().unwrap().is_some());
        let _ = process.kill();
        let status = process.wait().unwrap();
        if state.exists() {
            continues(&one, &other, &copy, &entity_type, &versions);
            return;
        }
        assert!(status.success(), "the copy failed: {status}");
    }
    panic!("each copy was over before it was killed");
}

fn continues(one: &Server, other: &Server, copy: &[&str], entity_type: &str, versions: &[(&str, &str)]) {
    let reported: Value = serde_json::from_str(&one.ok(copy)).unwrap();
    let many = reported.as_array().unwrap().iter().find(|copied| copied["feature"] == format!("{entity_type}.int64"));
    assert!(many.unwrap()["copied"].as_u64().unwrap() < ENTITIES as u64, "it began again: {reported}");
    alike(&reported.to_string());
    assert!(rows(one, entity_type, versions) == rows(other, entity_type, versions));
    assert!(!one.dir.path().join("copy.state").exists());
}
