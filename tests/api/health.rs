//! Probes, metrics, and the OpenAPI document.

use std::collections::{BTreeMap, BTreeSet};

use liststore::metadata::MetadataError;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ago, api, api_with, items, one};
use super::faults::{faulty, faulty_from_the_start, refuse_sessions};

#[tokio::test]
async fn a_server_that_can_do_its_work_says_so() {
    let api = api().await;
    assert_eq!(api.get("/livez").await.expect(200)["status"], "pass");
    let expected = json!({
        "status": "pass",
        "checks": {"item_store": "pass", "catalog": "pass", "metadata_store": "pass", "accepting": "pass"},
    });
    assert_eq!(api.get("/readyz").await.expect(200), expected);
}

#[tokio::test]
async fn nothing_is_ready_before_a_session_and_the_catalog_are_there() {
    let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown: false };
    let (mut api, faults) = faulty_from_the_start(&[], |faults| {
        refuse_sessions(faults);
        *faults.metadata.lock().unwrap() = Some(away.clone());
    })
    .await;
    let not_ready = api.get("/readyz").await;
    assert!(not_ready.header("retry-after").is_some());
    let body = not_ready.expect(503);
    assert_eq!((&body["status"], &body["checks"]["item_store"]), (&json!("fail"), &json!("fail")));
    assert_eq!((&body["checks"]["catalog"], &body["checks"]["accepting"]), (&json!("fail"), &json!("pass")));
    assert!(body["reasons"]["catalog"].is_string());
    assert_eq!(api.get("/livez").await.expect(200)["status"], "pass");
    *faults.metadata.lock().unwrap() = None;
    faults.allow_sessions();
    api.server.ready().await;
    assert_eq!(api.get("/readyz").await.expect(200)["status"], "pass");
}

#[tokio::test]
async fn what_is_missing_but_not_needed_is_a_warning() {
    let (api, faults) = faulty(&[]).await;
    let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown: false };
    *faults.metadata.lock().unwrap() = Some(away);
    api.get("/v1/features").await.refused("metadata_unavailable", "");
    let body = api.get("/readyz").await.expect(200);
    assert_eq!((&body["status"], &body["checks"]["metadata_store"]), (&json!("warn"), &json!("warn")));
    *faults.metadata.lock().unwrap() = None;
    api.get("/v1/features").await.expect(200);
    assert_eq!(api.get("/readyz").await.expect(200)["status"], "pass");

    *faults.read_only.lock().unwrap() = Some("the disk is full".to_owned());
    let body = api.get("/readyz").await.expect(200);
    assert_eq!((&body["status"], &body["checks"]["item_store"]), (&json!("warn"), &json!("warn")));
    assert!(body["reasons"]["item_store"].as_str().unwrap().contains("the disk is full"));
}

/// Name to type of every metric, as `# TYPE` lines say.
fn types(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).filter_map(|rest| rest.split_once(' ')).collect()
}

/// The value of a series.
fn sample(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).map(|value| value.parse().unwrap())
}

/// What this test does not open: metrics of stores that need a database.
const OF_DATABASES: [&str; 2] = ["liststore_cql_", "liststore_metadata_postgres_"];

#[tokio::test]
async fn the_table_of_metrics_is_what_a_server_shows() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let api = api_with(&[("items.store", "embedded"), ("items.embedded.dir", dir)]).await;
    api.feature("seen", "string", "30d").await;
    api.get(&items("seen", "u")).await.expect(200);
    let text = api.get("/metrics").await.text();
    let shown: BTreeSet<_> = types(&text).into_iter().collect();
    let documented: BTreeSet<_> = include_str!("../../docs/metrics.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| {
            let mut cells = line.split('|').map(str::trim);
            (cells.next().unwrap().trim_end_matches('`'), cells.next().unwrap())
        })
        .filter(|(name, _)| !OF_DATABASES.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    assert_eq!(shown, documented);
}

#[tokio::test]
async fn names_of_metrics_follow_the_conventions() {
    let api = api().await;
    api.get("/v1/features").await.expect(200);
    let text = api.get("/metrics").await.text();
    for (name, kind) in types(&text) {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        assert!(name.starts_with("liststore_") || name.starts_with("process_"), "{name}");
    }
}

async fn requests(api: &Api, operation: &str, status: u16, code: &str) -> (f64, f64) {
    let text = api.get("/metrics").await.text();
    let labels = format!("{{code=\"{code}\",operation=\"{operation}\",status=\"{status}\"}}");
    let of = |name: &str| sample(&text, &format!("liststore_http_{name}{labels}")).unwrap_or_default();
    (of("requests_total"), of("request_duration_seconds_count"))
}

#[tokio::test]
async fn requests_are_counted_by_operation_and_outcome() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    for _ in 0..3 {
        api.get(&list).await.expect(200);
    }
    api.get(&items("unknown", "u")).await.refused("feature_not_found", "");
    api.send(Method::PUT, "/v1/features", &[], b"").await.refused("method_not_allowed", "");
    assert_eq!(requests(&api, "get_items", 200, "ok").await, (3.0, 3.0));
    assert_eq!(requests(&api, "get_items", 404, "feature_not_found").await, (1.0, 1.0));
    assert_eq!(requests(&api, "create_feature", 201, "ok").await, (1.0, 1.0));
    assert_eq!(requests(&api, "none", 405, "method_not_allowed").await, (1.0, 1.0));
    assert_eq!(requests(&api, "metrics", 200, "ok").await, (4.0, 4.0));
}

#[tokio::test]
async fn items_and_the_catalog_are_measured() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    api.add(&list, &[(ago(1), "a".into()), (ago(2), "a".into()), (ago(3), "b".into())]).await;
    api.post(&list, one(0, "expired")).await.expect(200);
    assert_eq!(api.values(&list).await.len(), 3);
    api.post(&format!("{list}:remove"), json!({"value": "a"})).await.expect(200);
    let text = api.get("/metrics").await.text();
    for (series, expected) in [
        ("liststore_items_read_total", 3.0),
        ("liststore_items_added_total", 3.0),
        ("liststore_items_already_expired_total", 1.0),
        ("liststore_items_removed_total", 2.0),
        ("liststore_catalog_loaded", 1.0),
        ("liststore_catalog_revision", 1.0),
        ("liststore_list_permits_in_use", 0.0),
        ("liststore_list_permits_refused_total", 0.0),
    ] {
        assert_eq!(sample(&text, series), Some(expected), "{series}");
    }
    assert!(sample(&text, "liststore_http_connections").unwrap() >= 1.0);
    assert!((0.0..60.0).contains(&sample(&text, "liststore_catalog_age_seconds").unwrap()));
    assert!(sample(&text, "process_resident_memory_bytes").unwrap() > 0.0);
}

#[tokio::test]
async fn the_document_is_complete() {
    let api = api().await;
    let document = api.get("/openapi.json").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let about = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{about}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let named = |place: &str| -> BTreeSet<_> {
                parameters.iter().filter(|p| p["in"] == place).map(|p| p["name"].as_str().unwrap().to_owned()).collect()
            };
            let in_path: BTreeSet<_> =
                path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap().to_owned()).collect();
            assert_eq!(named("path"), in_path, "{about}");
            assert!(parameters.iter().all(|p| p["in"] != "path" || p["required"] == true), "{about}");
            assert!(parameters.iter().all(|p| p["in"] == "path" || p["required"] != true), "{about}");
            if path.starts_with("/v1/") {
                let headers = named("header");
                assert!(headers.contains("X-Request-Id") && headers.contains("Liststore-Timeout-Ms"), "{about}");
                assert!(operation["responses"].get("400").is_some(), "{about}");
            }
        }
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.values().all(Value::is_object));
}
