//! Feature versions whose lists show their newest items only.

use serde_json::{Value, json};

use super::client::{Api, ago, api, items};

const SEEN: &str = "/v1/features/user/seen";

/// A list of ten items, 9 the newest.
async fn filled(api: &Api, definition: Value) -> String {
    api.post("/v1/features", definition).await.expect(201);
    let (list, start) = (items("seen", "u"), ago(1_000));
    let added: Vec<_> = (0..10).map(|n| (start + n, Value::from(n))).collect();
    api.add(&list, &added).await;
    list
}

fn definition(max_items: Value) -> Value {
    json!({"entity_type": "user", "name": "seen", "value_type": "int64", "ttl": "30d", "max_items": max_items})
}

#[tokio::test]
async fn every_call_sees_the_newest_items_only() {
    let api = api().await;
    let list = filled(&api, definition(json!(4))).await;
    assert_eq!(api.get(SEEN).await.expect(200)["max_items"], 4);
    assert_eq!(api.get(SEEN).await.expect(200)["versions"][0]["max_items"], 4);
    // Twice, because a rendered page is cached.
    for _ in 0..2 {
        let page = api.get(&list).await;
        assert_eq!(page.values(), [9, 8, 7, 6]);
        assert_eq!(page.expect(200).get("next_page_token"), None);
    }
    for (order, expected) in [("newest", [9, 8, 7, 6]), ("oldest", [6, 7, 8, 9])] {
        let (mut walked, mut next) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("{list}?order={order}&limit=3{next}")).await;
            walked.extend(page.values());
            match page.expect(200)["next_page_token"].as_str() {
                Some(token) => next = format!("&page_token={token}"),
                None => break,
            }
        }
        assert_eq!(walked, expected, "{order}");
    }
    assert_eq!(api.get(&format!("{list}:count")).await.expect(200), json!({"count": 4, "exact": true}));
    let found = api.post(&format!("{list}:contains"), json!({"values": [5, 6]})).await.expect(200);
    assert_eq!(found["results"][0]["timestamp"], Value::Null);
    assert!(found["results"][1]["timestamp"].is_string());
    let request = json!({"entity_type": "user", "feature": "seen", "entity_id": "u", "limit": 10});
    let batch = api.post("/v1/lists:batchGet", json!({"requests": [request]})).await.expect(200);
    assert_eq!(batch["results"][0]["items"].as_array().map(Vec::len), Some(4));
    // As of a moment: the present items with earlier timestamps.
    let third = api.get(&list).await.expect(200)["items"][2]["timestamp"].as_str().unwrap().to_owned();
    assert_eq!(api.values(&format!("{list}?as_of={third}")).await, [7, 6]);
    let removed = api.post(&format!("{list}:remove"), json!({"min_timestamp": 0})).await.expect(200);
    assert_eq!(removed, json!({"removed": 4}), "and the others went uncounted");
    assert_eq!(api.values(&list).await, [Value::Null; 0]);
}

#[tokio::test]
async fn a_bound_is_set_changed_and_lifted_at_once() {
    let api = api().await;
    let list = filled(&api, definition(Value::Null)).await;
    assert_eq!(api.get(SEEN).await.expect(200).get("max_items"), None);
    for (max_items, expected) in [(json!(3), 3), (json!(5), 5), (json!(1), 1), (json!(100_000), 10), (json!(null), 10)]
    {
        let feature = api.patch(SEEN, json!({"max_items": max_items})).await.expect(200);
        assert_eq!(feature.get("max_items").cloned().unwrap_or_default(), max_items);
        assert_eq!(api.values(&list).await.len(), expected, "{max_items}");
    }
    assert_eq!(api.patch(SEEN, json!({"max_items": 4.0})).await.expect(200)["max_items"], 4);
    api.patch(SEEN, json!({"max_items": 7})).await.expect(200);
    let versions = format!("{SEEN}/versions");
    let version = async |body: Value| api.post(&versions, body).await.expect(201).get("max_items").cloned();
    assert_eq!(version(json!({"version": "copied"})).await, Some(json!(7)));
    assert_eq!(version(json!({"version": "all", "max_items": null})).await, None);
    assert_eq!(version(json!({"version": "own", "max_items": 2})).await, Some(json!(2)));
    let patched = api.patch(&format!("{versions}/own"), json!({"max_items": null})).await.expect(200);
    assert_eq!(patched.get("max_items"), None);
    let last = &api.get(&format!("{SEEN}/history")).await.expect(200)["history"][0];
    assert_eq!((last["before"]["max_items"].clone(), last["after"].get("max_items")), (json!(2), None));
}

#[tokio::test]
async fn invalid_bounds_are_refused() {
    let api = api().await;
    for bad in [json!(0), json!(100_001), json!(-1), json!(1.5), json!("5"), json!([])] {
        api.post("/v1/features", definition(bad.clone())).await.refused("invalid_argument", "max_items");
    }
    api.feature("seen", "int64", "30d").await;
    api.patch(SEEN, json!({"max_items": 0})).await.refused("invalid_argument", "max_items");
    let version = json!({"version": "v", "max_items": 100_001});
    api.post(&format!("{SEEN}/versions"), version).await.refused("invalid_argument", "max_items");
}
