//! Remove List Items, and Remove All List Items.

use reqwest::Method;
use serde_json::json;

use super::client::{ago, api, items};

#[tokio::test]
async fn every_item_with_the_value_is_removed() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let (list, now) = (items("seen", "u"), ago(10));
    api.add(&list, &[(now, "a".into()), (now + 1, "b".into()), (now + 2, "a".into())]).await;
    api.add(&items("seen", "other"), &[(now, "a".into())]).await;
    let remove = format!("{list}:remove");
    assert_eq!(api.post(&remove, json!({"value": "a"})).await.expect(200), json!({"removed": 2}));
    assert_eq!(api.values(&list).await, ["b"]);
    assert_eq!(api.values(&items("seen", "other")).await, ["a"]);
    // Safe to send again; the colon may be encoded.
    let encoded = list.clone() + "%3Aremove";
    assert_eq!(api.post(&encoded, json!({"value": "a"})).await.expect(200), json!({"removed": 0}));
}

#[tokio::test]
async fn the_value_is_read_by_the_type_of_the_feature() {
    let api = api().await;
    api.feature("seen", "json", "30d").await;
    api.feature("counted", "int64", "30d").await;
    let list = items("seen", "u");
    api.add(&list, &[(ago(1), json!({"a": 1, "b": null}))]).await;
    let other_spelling = br#"{"value": {"b":null, "a":1.0}}"#;
    let removed = api.send(Method::POST, &format!("{list}:remove"), &[], other_spelling).await;
    assert_eq!(removed.expect(200), json!({"removed": 1}));

    let remove = format!("{}:remove", items("counted", "u"));
    api.post(&remove, json!({"value": "x"})).await.refused("value_type_mismatch", "value");
    api.post(&remove, json!({})).await.refused("invalid_argument", "value");
    let refused = api.post(&remove, json!({})).await.json()["detail"].to_string();
    assert!(refused.contains("DELETE"), "{refused}");
    api.post(&remove, json!({"value": 1, "items": []})).await.refused("invalid_argument", "items");
    api.post(&remove, json!({"value": 1, "values": 2})).await.refused("invalid_argument", "values");
    api.post(&remove, json!([1])).await.refused("invalid_argument", "");
    api.post(&format!("{remove}?limit=1"), json!({"value": 1})).await.refused("invalid_argument", "limit");
}

#[tokio::test]
async fn a_removal_that_names_more_than_its_path_is_refused() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    api.add(&list, &[(ago(1), "a".into())]).await;
    for body in [&br#"{"value": "a"}"#[..], b"[]", b"a", b"null"] {
        api.send(Method::DELETE, &list, &[], body).await.refused("invalid_argument", "body");
    }
    for condition in ["If-Match", "If-None-Match"] {
        let add = json!({"items": [{"timestamp": ago(1), "value": "b"}]}).to_string();
        for (method, body) in [(Method::DELETE, &b""[..]), (Method::POST, add.as_bytes())] {
            api.send(method, &list, &[(condition, "*")], body).await.refused("invalid_argument", condition);
        }
    }
    let feature = "/v1/features/user/seen";
    api.send(Method::DELETE, feature, &[], b"{\"version\": \"v1\"}").await.refused("invalid_argument", "body");
    api.send(Method::DELETE, feature, &[("If-None-Match", "\"1\"")], b"")
        .await
        .refused("invalid_argument", "If-None-Match");
    assert_eq!(api.values(&list).await, ["a"]);
    // Some clients send an empty object with every request.
    api.send(Method::DELETE, &list, &[("content-type", "application/json")], b" { } ").await.expect(204);
    assert!(api.values(&list).await.is_empty());
}

#[tokio::test]
async fn remove_all_empties_one_list() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let (list, other) = (items("seen", "u"), items("seen", "other"));
    api.add(&list, &[(ago(2), "a".into()), (ago(1), "b".into())]).await;
    api.add(&other, &[(ago(2), "a".into())]).await;
    for _ in 0..2 {
        api.delete(&list).await.expect(204);
        assert!(api.values(&list).await.is_empty());
    }
    assert_eq!(api.values(&other).await, ["a"]);
    api.add(&list, &[(ago(2), "a".into())]).await;
    assert_eq!(api.values(&list).await, ["a"]);
}

#[tokio::test]
async fn named_items_are_removed_and_no_other() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let (list, now) = (items("seen", "u"), ago(10));
    api.add(&list, &[(now, "a".into()), (now, "b".into()), (now + 1, "a".into()), (now + 2, "c".into())]).await;
    let remove = format!("{list}:remove");
    let named = json!({"items": [
        {"timestamp": now, "value": "a"}, {"timestamp": now, "value": "a"}, {"timestamp": now, "value": "c"},
        {"timestamp": now + 2, "value": "c"},
    ]});
    assert_eq!(api.post(&remove, named.clone()).await.expect(200), json!({"removed": 2}));
    assert_eq!(api.values(&list).await, ["a", "b"]);
    assert_eq!(api.post(&remove, named).await.expect(200), json!({"removed": 0}));
    let wrong = json!({"items": [{"timestamp": now, "value": "a"}, {"timestamp": now, "value": 7}]});
    api.post(&remove, wrong).await.refused("value_type_mismatch", "items[1].value");
    api.post(&remove, json!({"items": []})).await.refused("invalid_argument", "items");
    let many = vec![json!({"timestamp": now, "value": "a"}); 1_001];
    api.post(&remove, json!({ "items": many })).await.refused("invalid_argument", "items");
    assert_eq!(api.values(&list).await, ["a", "b"]);
}

#[tokio::test]
async fn items_between_two_moments_are_removed() {
    let api = api().await;
    api.feature("seen", "int64", "30d").await;
    let (list, now) = (items("seen", "u"), ago(100));
    api.add(&list, &(0..10).map(|n| (now + n, n.into())).collect::<Vec<_>>()).await;
    let remove = async |body| api.post(&format!("{list}:remove"), body).await;
    let between = json!({"min_timestamp": now + 3, "max_timestamp": (now + 4).to_string()});
    assert_eq!(remove(between).await.expect(200), json!({"removed": 2}));
    assert_eq!(api.values(&list).await, [9, 8, 7, 6, 5, 2, 1, 0]);
    assert_eq!(remove(json!({"max_timestamp": now + 1})).await.expect(200), json!({"removed": 2}));
    assert_eq!(remove(json!({"min_timestamp": now + 9})).await.expect(200), json!({"removed": 1}));
    assert_eq!(api.values(&list).await, [8, 7, 6, 5, 2]);
    remove(json!({"min_timestamp": 2, "max_timestamp": 1})).await.refused("invalid_argument", "min_timestamp");
    remove(json!({"min_timestamp": "soon"})).await.refused("invalid_timestamp", "min_timestamp");
    remove(json!({"min_timestamp": 1, "value": 2})).await.refused("invalid_argument", "min_timestamp");
    assert_eq!(api.values(&list).await, [8, 7, 6, 5, 2]);
}
