//! `GET /metrics`, and the tables of `docs/reference/metrics.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use liststore::app::Stores;
use liststore::domain::{ManualClock, SystemClock, Timestamp};
use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore};
use liststore::items::memory::MemoryStore;
use liststore::metadata::memory::memory_store;
use liststore::telemetry;
use prometheus::{IntGauge, Registry};
use reqwest::Method;
use serde_json::json;

use super::client::{Api, ago, api, items, one};
use super::support::{settings, spawn_with};

/// Name to type of every metric, from the `# TYPE` lines.
fn types(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).filter_map(|rest| rest.split_once(' ')).collect()
}

/// The value of a series.
fn sample(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).map(|value| value.parse().unwrap())
}

/// The metrics of one section in the table: name, type, labels.
fn documented(section: &str) -> BTreeMap<&'static str, (&'static str, BTreeSet<&'static str>)> {
    let guide = include_str!("../../docs/reference/metrics.md");
    let section = guide.split("\n## ").find(|text| text.starts_with(section)).expect("a section of this name");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_end_matches('`'));
        let (name, kind, labels) = (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap());
        (name, (kind, labels.split(", ").map(|label| label.trim_matches('`')).filter(|l| !l.is_empty()).collect()))
    })
    .collect()
}

/// Holds that exactly the metrics of a section are registered.
fn assert_as_documented(section: &str, registry: &Registry) {
    let documented = documented(section);
    for family in registry.gather() {
        let (kind, labels) =
            documented.get(family.name()).unwrap_or_else(|| panic!("not in the table: {}", family.name()));
        let shown = format!("{:?}", family.get_field_type()).to_lowercase();
        assert_eq!(shown, *kind, "{}", family.name());
        for metric in family.get_metric() {
            let shown: BTreeSet<_> = metric.get_label().iter().map(|label| label.name()).collect();
            assert_eq!(shown, *labels, "{}", family.name());
        }
    }
    for name in documented.keys() {
        // A name is free exactly if it is not registered, counted or not.
        let probe = Box::new(IntGauge::new(*name, "probe").unwrap());
        assert!(registry.register(probe).is_err(), "no such metric: {name}");
    }
}

#[tokio::test]
async fn the_table_of_metrics_equals_the_metrics_of_a_server() {
    let stores = Stores {
        items: Arc::new(MemoryStore::default()),
        metadata: Arc::new(memory_store()),
        registry: telemetry::registry().unwrap(),
        data_dir: None,
    };
    let registry = stores.registry.clone();
    let mut server = spawn_with(settings(&[]), Arc::new(SystemClock), stores).await;
    server.ready().await;
    let api = Api::of(server).await;
    api.feature("seen", "string", "30d").await;
    let text = api.get("/metrics").await.text();
    let shown: BTreeSet<_> = types(&text).into_keys().collect();
    assert_eq!(shown, documented("Every server").into_keys().collect());
    assert_as_documented("Every server", &registry);
}

#[tokio::test]
async fn the_metrics_of_the_embedded_item_store_are_documented() {
    let registry = Registry::new();
    let dir = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(EmbeddedOptions::new(dir.path()), Arc::new(SystemClock), &registry).unwrap();
    assert_as_documented("With the embedded item store", &registry);
    embedded.close().await.unwrap();
}

#[tokio::test]
async fn the_metrics_of_backups_are_documented() {
    let api = super::client::api().await;
    let shown: BTreeSet<_> = documented("Backups of the embedded item store").into_keys().collect();
    let text = api.get("/metrics").await.text();
    let backups: BTreeSet<_> = types(&text).into_keys().filter(|name| name.contains("backup")).collect();
    assert_eq!(backups, shown);
}

/// The store does not connect before its first use.
#[cfg(feature = "cql")]
#[tokio::test]
async fn the_metrics_of_the_cql_item_store_are_documented() {
    use liststore::items::cql::{CqlOptions, CqlStore};
    let registry = Registry::new();
    let options = CqlOptions { contact_points: vec!["127.0.0.1:1".to_owned()], ..CqlOptions::default() };
    let _cql = CqlStore::open(options, Arc::new(SystemClock), &registry).unwrap();
    assert_as_documented("With the CQL item store", &registry);
}

/// The store does not connect before its first use.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn the_metrics_of_the_postgres_metadata_store_are_documented() {
    use liststore::metadata::postgres::{PostgresOptions, PostgresStore};
    let registry = Registry::new();
    let options = PostgresOptions {
        url: "postgres://nobody@127.0.0.1:1/nothing".to_owned(),
        url_file: None,
        connections_max: 2,
        poll_interval: std::time::Duration::from_secs(5),
    };
    let _postgres = PostgresStore::open(&options, &registry).unwrap();
    assert_as_documented("With the Postgres metadata store", &registry);
}

/// An alert on this age must not fire on a server that no other process can change.
#[tokio::test]
async fn embedded_definitions_are_current_at_any_time() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(1_724_949_845_000_000_000).unwrap()));
    let stores = Stores {
        items: Arc::new(MemoryStore::default()),
        metadata: Arc::new(memory_store()),
        registry: telemetry::registry().unwrap(),
        data_dir: None,
    };
    let mut server = spawn_with(settings(&[]), Arc::clone(&clock) as _, stores).await;
    server.ready().await;
    let api = Api::of(server).await;
    clock.set(Timestamp::from_nanos(1_724_949_845_000_000_000 + 86_400_000_000_000).unwrap());
    let text = api.get("/metrics").await.text();
    assert_eq!(sample(&text, "liststore_catalog_age_seconds"), Some(0.0));
}

#[tokio::test]
async fn the_disk_of_the_embedded_store_is_measured() {
    let registry = Registry::new();
    let dir = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(EmbeddedOptions::new(dir.path()), Arc::new(SystemClock), &registry).unwrap();
    let value = |name: &str| {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        family.get_metric()[0].get_gauge().get_value()
    };
    let (free, size) = (value("liststore_disk_free_bytes"), value("liststore_disk_size_bytes"));
    assert!(free > 0.0 && free <= size, "{free} of {size}");
    assert_eq!(value("liststore_read_only"), 0.0);
    embedded.close().await.unwrap();
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
