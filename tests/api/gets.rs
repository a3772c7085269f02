//! Get List Items: the visible items, their order, and the bounds.

use std::sync::Arc;

use liststore::app::Stores;
use liststore::domain::{ManualClock, Timestamp};
use liststore::items::memory::MemoryStore;
use liststore::metadata::memory::memory_store;
use prometheus::Registry;
use serde_json::{Value, json};

use super::client::{Api, ago, api, items, one};
use super::support::{settings, spawn_with};

#[tokio::test]
async fn a_list_without_writes_is_empty() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    assert_eq!(api.get(&items("seen", "nobody")).await.expect(200), json!({"items": []}));
}

#[tokio::test]
async fn items_come_newest_first_with_equal_times_in_the_order_of_their_keys() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let (list, now) = (items("seen", "u"), ago(10));
    // The Base64 of the MD5s: "a" DMF1…, "b" kutf…, "c" Sop3…: descending as text.
    api.add(&list, &[(now, "a".into()), (now, "b".into()), (now, "c".into()), (now + 1, "new".into())]).await;
    api.add(&list, &[(now - 1, "old".into())]).await;
    assert_eq!(api.values(&list).await, ["new", "b", "c", "a", "old"]);
}

#[tokio::test]
async fn timestamps_come_back_in_utc_with_nine_decimals() {
    let api = api().await;
    api.feature("seen", "string", "7300d").await;
    let list = items("seen", "u");
    for timestamp in ["2024-08-29T16:44:05.43Z", "2024-08-29T18:44:05.430000000+02:00", "1724949845430000000"] {
        api.post(&list, one(timestamp, "x")).await.expect(200);
    }
    api.post(&list, one(1_724_949_845_430_000_000_u64, "x")).await.expect(200);
    let expected = json!({"items": [{"timestamp": "2024-08-29T16:44:05.430000000Z", "value": "x"}]});
    assert_eq!(api.get(&list).await.expect(200), expected);
}

#[tokio::test]
async fn bounds_are_inclusive_and_may_be_written_in_any_form() {
    let api = api().await;
    api.feature("seen", "int64", "7300d").await;
    let list = items("seen", "u");
    let at = |second: u64| 1_724_949_840_000_000_000 + second * 1_000_000_000;
    api.add(&list, &(0..10).map(|n| (at(n), Value::from(n))).collect::<Vec<_>>()).await;
    for (query, expected) in [
        ("min_timestamp=1724949845000000000", vec![9, 8, 7, 6, 5]),
        ("max_timestamp=1724949842000000000", vec![2, 1, 0]),
        ("min_timestamp=1724949843000000000&max_timestamp=1724949843000000000", vec![3]),
        ("min_timestamp=2024-08-29T16:44:08Z", vec![9, 8]),
        ("min_timestamp=2024-08-29T18:44:08%2B02:00", vec![9, 8]),
        ("max_timestamp=2024-08-29T16%3A44%3A00.999999999Z&limit=5", vec![0]),
        ("limit=2", vec![9, 8]),
        ("min_timestamp=9999999999999999999", vec![]),
    ] {
        assert_eq!(api.values(&format!("{list}?{query}")).await, expected, "{query}");
    }
}

#[tokio::test]
async fn parameters_out_of_bounds_are_refused() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    for (query, code, field) in [
        ("limit=0", "invalid_argument", "limit"),
        ("limit=10001", "invalid_argument", "limit"),
        ("limit=abc", "invalid_argument", "limit"),
        ("limit=-1", "invalid_argument", "limit"),
        ("limit=1.0", "invalid_argument", "limit"),
        ("limit=%2B5", "invalid_argument", "limit"),
        ("limit=99999999999999999999999", "invalid_argument", "limit"),
        ("limit=", "invalid_argument", "limit"),
        ("limit", "invalid_argument", "limit"),
        ("limit=5&limit=5", "invalid_argument", "limit"),
        ("limits=5", "invalid_argument", "limits"),
        ("min_timestamp=", "invalid_argument", "min_timestamp"),
        ("page_token=", "invalid_argument", "page_token"),
        ("min_timestamp=2&max_timestamp=1", "invalid_argument", "min_timestamp"),
        ("version=a%20b", "invalid_argument", "version"),
        ("version=..", "invalid_argument", "version"),
        ("min_timestamp=2024-08-29T18:44:08+02:00", "invalid_timestamp", "min_timestamp"),
        ("version=a+b", "invalid_argument", "version"),
        ("page_token=a%00b", "invalid_argument", "page_token"),
        ("min_timestamp=yesterday", "invalid_timestamp", "min_timestamp"),
        ("max_timestamp=10000000000000000000", "invalid_timestamp", "max_timestamp"),
        ("max_timestamp=-1", "invalid_timestamp", "max_timestamp"),
        ("max_timestamp=2024-08-29T16:44:05", "invalid_timestamp", "max_timestamp"),
        ("page_token=forged", "invalid_page_token", "page_token"),
    ] {
        api.get(&format!("{list}?{query}")).await.refused(code, field);
    }
    assert_eq!(api.get(&format!("{list}?limit=10000&version=&")).await.expect(200), json!({"items": []}));
}

#[tokio::test]
async fn features_and_versions_must_exist() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let (unknown, known) = (items("unknown", "u"), items("seen", "u"));
    api.get(&unknown).await.refused("feature_not_found", "");
    api.get(&format!("{known}?version=v2")).await.refused("version_not_found", "");
    api.post(&unknown, one(ago(1), "x")).await.refused("feature_not_found", "");
    api.post(&format!("{known}?version=v2"), one(ago(1), "x")).await.refused("version_not_found", "");
    api.post(&format!("{unknown}:remove"), json!({"value": "x"})).await.refused("feature_not_found", "");
    api.delete(&format!("{known}?version=v2")).await.refused("version_not_found", "");
    api.get("/v1/lists/other/seen/u/items").await.refused("feature_not_found", "");
}

#[tokio::test]
async fn a_version_has_separate_lists() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.post("/v1/features/user/seen/versions", json!({"version": "2024/v:2"})).await.expect(201);
    let (list, other) = (items("seen", "u"), format!("{}?version=2024/v:2", items("seen", "u")));
    api.add(&list, &[(ago(1), "default".into())]).await;
    api.add(&other, &[(ago(1), "other".into())]).await;
    assert_eq!(api.values(&list).await, ["default"]);
    assert_eq!(api.values(&format!("{list}?version=")).await, ["default"]);
    assert_eq!(api.values(&format!("{list}?version=2024%2Fv%3A2")).await, ["other"]);
}

#[tokio::test]
async fn an_item_is_visible_until_its_timestamp_plus_the_present_ttl() {
    const SECOND: u64 = 1_000_000_000;
    let nanos = |nanos| Timestamp::from_nanos(nanos).unwrap();
    let start = 1_724_949_845 * SECOND;
    let clock = Arc::new(ManualClock::at(nanos(start)));
    let stores = Stores {
        items: Arc::new(MemoryStore::default()),
        metadata: Arc::new(memory_store()),
        registry: Registry::new(),
        data_dir: None,
    };
    let mut server = spawn_with(settings(&[]), Arc::clone(&clock) as _, stores).await;
    server.ready().await;
    let api = Api::of(server).await;
    api.feature("seen", "string", "10s").await;
    let list = items("seen", "u");
    let added = api.post(
        &list,
        json!({"items": [
            {"timestamp": start, "value": "live"},
            {"timestamp": start - 10 * SECOND, "value": "just expired"},
            {"timestamp": start - 10 * SECOND + 1, "value": "about to"},
        ]}),
    );
    assert_eq!(added.await.expect(200), json!({"added": 2, "already_expired": 1}));
    assert_eq!(api.values(&list).await, ["live", "about to"]);
    clock.set(nanos(start + 1));
    assert_eq!(api.values(&list).await, ["live"]);
    // A shorter TTL hides items at once. A longer one shows them again.
    clock.set(nanos(start + 5 * SECOND));
    api.patch("/v1/features/user/seen", json!({"ttl": "5s"})).await.expect(200);
    assert!(api.values(&list).await.is_empty());
    api.patch("/v1/features/user/seen", json!({"ttl": "1h"})).await.expect(200);
    assert_eq!(api.values(&list).await, ["live"]);
    clock.set(nanos(start + 10 * SECOND));
    assert!(api.values(&list).await.is_empty());
}
