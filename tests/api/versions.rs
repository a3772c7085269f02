//! Versions of list features.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{ago, api, items, one};

const SEEN: &str = "/v1/features/user/seen";
const VERSIONS: &str = "/v1/features/user/seen/versions";

#[tokio::test]
async fn a_version_copies_the_features_ttl_as_it_is_now() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let copied = api.post(VERSIONS, json!({"version": "a"})).await.expect(201);
    assert_eq!((&copied["version"], &copied["ttl"], &copied["description"]), (&json!("a"), &json!("30d"), &json!("")));
    api.patch(SEEN, json!({"ttl": "7d"})).await.expect(200);
    let own = api.post(VERSIONS, json!({"version": "b", "ttl": "24h", "description": "of its own"})).await.expect(201);
    assert_eq!((&own["ttl"], &own["description"]), (&json!("1d"), &json!("of its own")));
    let later = api.post(VERSIONS, json!({"version": "c"})).await.expect(201);
    assert_eq!(later["ttl"], "7d");
    let feature = api.get(SEEN).await.expect(200);
    let versions: Vec<_> =
        feature["versions"].as_array().unwrap().iter().map(|v| (v["version"].clone(), v["ttl"].clone())).collect();
    let expected = [("", "7d"), ("a", "30d"), ("b", "1d"), ("c", "7d")];
    assert_eq!(versions, expected.map(|(version, ttl)| (Value::from(version), Value::from(ttl))));
}

#[tokio::test]
async fn labels_with_slashes_are_reachable_by_their_location() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let created = api.post(VERSIONS, json!({"version": "2024/08:rc-1"})).await;
    let location = created.header("location").unwrap();
    assert_eq!(location, "/v1/features/user/seen/versions/2024%2F08:rc-1");
    let read = api.get(location).await;
    assert_eq!(read.etag(), created.etag());
    assert_eq!(read.expect(200), created.expect(201));
}

#[tokio::test]
async fn every_member_is_checked() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    for (body, code, field) in [
        (json!({}), "invalid_argument", "version"),
        (json!({"version": 2}), "invalid_argument", "version"),
        (json!({"version": null}), "invalid_argument", "version"),
        (json!({"version": "a b"}), "invalid_argument", "version"),
        (json!({"version": ".."}), "invalid_argument", "version"),
        (json!({"version": "x".repeat(65)}), "invalid_argument", "version"),
        (json!({"version": "a", "ttl": "soon"}), "invalid_argument", "ttl"),
        (json!({"version": "a", "ttl": null}), "invalid_argument", "ttl"),
        (json!({"version": "a", "ttl": "7301d"}), "ttl_too_long", "ttl"),
        (json!({"version": "a", "value_type": "int64"}), "invalid_argument", "value_type"),
        (json!({"version": "a", "owner": "x"}), "invalid_argument", "owner"),
        (json!({"version": "", "ttl": "1d"}), "version_exists", ""),
    ] {
        api.post(VERSIONS, body).await.refused(code, field);
    }
    api.post(VERSIONS, json!({"version": "a"})).await.expect(201);
    api.post(VERSIONS, json!({"version": "a"})).await.refused("version_exists", "");
    api.post("/v1/features/user/unknown/versions", json!({"version": "a"})).await.refused("feature_not_found", "");
}

#[tokio::test]
async fn a_version_is_changed_and_deleted_separately() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let v2 = format!("{VERSIONS}/v2");
    let created = api.post(VERSIONS, json!({"version": "v2"})).await;
    let default_tag = api.get(&format!("{VERSIONS}/")).await.etag().to_owned();

    let patched = api.patch(&v2, json!({"ttl": "1d", "description": "short"})).await;
    assert_ne!(patched.etag(), created.etag());
    let body = patched.expect(200);
    assert_eq!((&body["ttl"], &body["description"]), (&json!("1d"), &json!("short")));
    assert_eq!(api.get(SEEN).await.expect(200)["ttl"], "30d");
    assert_eq!(api.get(&format!("{VERSIONS}/")).await.etag(), default_tag);
    let nothing = api.patch(&v2, json!({})).await;
    assert_eq!((nothing.etag(), nothing.expect(200)), (patched.etag(), body));

    for stale in [created.etag(), "\"x\""] {
        let headers = [("if-match", stale)];
        api.send(Method::PATCH, &v2, &headers, b"{}").await.refused("etag_mismatch", "");
        api.send(Method::DELETE, &v2, &headers, b"").await.refused("etag_mismatch", "");
    }
    let malformed = [("if-match", "1")];
    api.send(Method::DELETE, &v2, &malformed, b"").await.refused("invalid_argument", "If-Match");
    api.patch(&v2, json!({"version": "v3"})).await.refused("invalid_argument", "version");
    api.patch(&v2, json!({"value_type": "json"})).await.refused("invalid_argument", "value_type");
    api.patch(&v2, json!({"owner": "x"})).await.refused("invalid_argument", "owner");
    api.patch(&v2, json!({"ttl": "9999d"})).await.refused("ttl_too_long", "ttl");

    let list = format!("{}?version=v2", items("seen", "u"));
    api.post(&list, one(ago(1), "old")).await.expect(200);
    let headers = [("if-match", patched.etag())];
    assert!(api.send(Method::DELETE, &v2, &headers, b"").await.expect(200)["items_expire_by"].is_string());
    api.get(&v2).await.refused("version_not_found", "");
    api.delete(&v2).await.refused("version_not_found", "");
    api.patch(&v2, json!({"ttl": "1d"})).await.refused("version_not_found", "");
    api.get(&list).await.refused("version_not_found", "");
    api.get(SEEN).await.expect(200);
    // Created again, it starts empty.
    api.post(VERSIONS, json!({"version": "v2"})).await.expect(201);
    assert!(api.values(&list).await.is_empty());
}

#[tokio::test]
async fn the_default_version_changes_with_its_feature_only() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let default_version = format!("{VERSIONS}/");
    let read = api.get(&default_version).await;
    assert!(read.etag().starts_with('"'));
    assert_eq!(read.expect(200)["version"], "");
    api.patch(&default_version, json!({"ttl": "1d"})).await.refused("default_version", "");
    api.patch(&default_version, json!({})).await.refused("default_version", "");
    api.delete(&default_version).await.refused("default_version", "");
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let path = "/v1/features/user/unknown/versions/v2";
        api.send(method, path, &[], b"{}").await.refused("feature_not_found", "");
    }
}
