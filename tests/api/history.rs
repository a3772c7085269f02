//! The audit trail.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::api;

const SEEN: &str = "/v1/features/user/seen";
const HISTORY: &str = "/v1/features/user/seen/history";

/// A definition in the trail, without the identity of items.
fn as_kept(mut definition: Value) -> Value {
    let fields = definition.as_object_mut().unwrap();
    assert_eq!(fields.remove("identity"), Some(json!("item")));
    for version in fields.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        assert_eq!(version.as_object_mut().unwrap().remove("identity"), Some(json!("item")));
    }
    definition
}

#[tokio::test]
async fn changes_are_kept_beyond_deletion_newest_first() {
    let api = api().await;
    api.get(HISTORY).await.refused("feature_not_found", "");
    let created = api.feature("seen", "string", "30d").await;
    let by = [("liststore-user", "alice")];
    let patched = api.send(Method::PATCH, SEEN, &by, br#"{"ttl":"7d"}"#).await.expect(200);
    api.patch(SEEN, json!({})).await.expect(200);
    let version = api.post(&format!("{SEEN}/versions"), json!({"version": "v2"})).await.expect(201);
    let changed = api.patch(&format!("{SEEN}/versions/v2"), json!({"ttl": "1d"})).await.expect(200);
    api.delete(&format!("{SEEN}/versions/v2")).await.expect(200);
    let last = api.get(SEEN).await.expect(200);
    api.delete(SEEN).await.expect(200);
    let page = api.get(HISTORY).await.expect(200);
    let entries = page["history"].as_array().unwrap();
    let summary: Vec<_> = entries.iter().map(|e| (e["action"].as_str().unwrap(), e["by"].as_str().unwrap())).collect();
    let expected = [
        ("delete_feature", "anonymous"),
        ("delete_version", "anonymous"),
        ("update_version", "anonymous"),
        ("create_version", "anonymous"),
        ("update_feature", "alice"),
        ("create_feature", "anonymous"),
    ];
    assert_eq!(summary, expected);
    let shown = |at: usize| (entries[at].get("before"), entries[at].get("after"));
    let [last, changed, version, created, patched] = [last, changed, version, created, patched].map(as_kept);
    assert_eq!(shown(0), (Some(&last), None));
    assert_eq!(shown(1), (Some(&changed), None));
    assert_eq!(shown(2), (Some(&version), Some(&changed)));
    assert_eq!(shown(3), (None, Some(&version)));
    assert_eq!(shown(4), (Some(&created), Some(&patched)));
    assert_eq!(shown(5), (None, Some(&created)));
    let versions: Vec<_> = entries.iter().map(|entry| entry.get("version").and_then(Value::as_str)).collect();
    assert_eq!(versions, [None, Some("v2"), Some("v2"), Some("v2"), None, None]);
    assert!(entries.is_sorted_by_key(|entry| std::cmp::Reverse(entry["at"].as_str().unwrap().to_owned())));

    // The trail continues when the feature is created again.
    api.feature("seen", "int64", "1d").await;
    assert_eq!(api.get(HISTORY).await.expect(200)["history"].as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn the_trail_is_walked_in_pages() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.feature("other", "string", "30d").await;
    for days in 1..=4 {
        api.patch(SEEN, json!({"ttl": format!("{days}d")})).await.expect(200);
    }
    let whole = api.get(HISTORY).await.expect(200)["history"].clone();
    for page_size in 1..=6 {
        let (mut found, mut pages, mut next) = (vec![], 0, String::new());
        loop {
            let page = api.get(&format!("{HISTORY}?page_size={page_size}{next}")).await.expect(200);
            found.extend(page["history"].as_array().unwrap().clone());
            pages += 1;
            match page["next_page_token"].as_str() {
                Some(token) => next = format!("&page_token={token}"),
                None => break,
            }
        }
        assert_eq!(Value::from(found), whole);
        assert_eq!(pages, 5_usize.div_ceil(page_size));
    }
    let page = api.get(&format!("{HISTORY}?page_size=1")).await.expect(200);
    let token = page["next_page_token"].as_str().unwrap();
    let elsewhere = format!("/v1/features/user/other/history?page_token={token}");
    api.get(&elsewhere).await.refused("invalid_page_token", "page_token");
    api.get(&format!("{HISTORY}?page_token=x")).await.refused("invalid_page_token", "page_token");
    api.get(&format!("{HISTORY}?page_size=0")).await.refused("invalid_argument", "page_size");
    api.get(&format!("{HISTORY}?q=x")).await.refused("invalid_argument", "q");
}
