//! Remove List Items with Value, and Remove All List Items.

use serde_json::json;

use super::client::{ago, api, items};

#[tokio::test]
async fn every_item_with_the_value_goes() {
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
async fn the_value_is_read_by_the_features_type() {
    let api = api().await;
    api.feature("seen", "json", "30d").await;
    api.feature("counted", "int64", "30d").await;
    let list = items("seen", "u");
    api.add(&list, &[(ago(1), json!({"a": 1, "b": null}))]).await;
    let other_spelling = br#"{"value": {"b":null, "a":1.0}}"#;
    let removed = api.send(reqwest::Method::POST, &format!("{list}:remove"), &[], other_spelling).await;
    assert_eq!(removed.expect(200), json!({"removed": 1}));

    let remove = format!("{}:remove", items("counted", "u"));
    api.post(&remove, json!({"value": "x"})).await.refused("value_type_mismatch", "value");
    api.post(&remove, json!({})).await.refused("invalid_argument", "value");
    api.post(&remove, json!({"value": 1, "values": 2})).await.refused("invalid_argument", "values");
    api.post(&remove, json!([1])).await.refused("invalid_argument", "");
    api.post(&format!("{remove}?limit=1"), json!({"value": 1})).await.refused("invalid_argument", "limit");
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
