//! Sets over HTTP: identity and keep of definitions, items with keys, the reverse lookup, removals by key; and
//! the guide's own examples.

use serde_json::{Value, json};

use super::client::{Api, ago, api, api_with, items};
use super::guide::{Step, is_as_documented, steps};

async fn set(api: &Api, name: &str, identity: &str, keep: &str) {
    let body = json!({
        "entity_type": "user", "name": name, "value_type": "string", "ttl": "30d", "identity": identity, "keep": keep
    });
    api.post("/v1/features", body).await.expect(201);
}

fn keyed(timestamp: u64, key: &str, value: &str) -> Value {
    json!({"timestamp": timestamp, "key": key, "value": value})
}

/// Keys, or values where there are none, as a page shows them.
async fn members(api: &Api, list: &str) -> Vec<String> {
    let page = api.get(list).await.expect(200);
    let items = page["items"].as_array().unwrap().clone();
    items.iter().map(|item| item.get("key").unwrap_or(&item["value"]).as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_definition_sets_the_identity() {
    let api = api().await;
    api.feature("plain", "string", "1d").await;
    let plain = api.get("/v1/features/user/plain").await.expect(200);
    assert_eq!((&plain["identity"], plain.get("keep")), (&json!("item"), None));
    set(&api, "kept", "key", "oldest").await;
    let versions = "/v1/features/user/kept/versions";
    let inherited = api.post(versions, json!({"version": "v2"})).await.expect(201);
    assert_eq!((&inherited["identity"], &inherited["keep"]), (&json!("key"), &json!("oldest")));
    let other = api.post(versions, json!({"version": "v3", "identity": "value", "keep": "newest"})).await.expect(201);
    assert_eq!((&other["identity"], &other["keep"]), (&json!("value"), &json!("newest")));
    let plain = api.post(versions, json!({"version": "v4", "identity": "item"})).await.expect(201);
    assert_eq!((&plain["identity"], plain.get("keep")), (&json!("item"), None));
    let history = api.get("/v1/features/user/kept/history").await.expect(200);
    let after = |place: usize| history["history"][place]["after"]["identity"].clone();
    assert_eq!([after(0), after(1), after(3)], [Value::Null, json!("value"), json!("key")]);

    for (body, field) in [
        (json!({"identity": "keys"}), "identity"),
        (json!({"identity": null}), "identity"),
        (json!({"identity": "key", "keep": "last"}), "keep"),
        (json!({"keep": "newest"}), "keep"),
        (json!({"identity": "item", "keep": "newest"}), "keep"),
    ] {
        let mut feature = json!({"entity_type": "user", "name": "x", "value_type": "string", "ttl": "1d"});
        feature.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        api.post("/v1/features", feature).await.refused("invalid_argument", field);
    }
    api.post("/v1/features/user/plain/versions", json!({"version": "v", "keep": "oldest"}))
        .await
        .refused("invalid_argument", "keep");
    for path in ["/v1/features/user/kept", "/v1/features/user/kept/versions/v2"] {
        for (field, value) in [("identity", "item"), ("identity", "key"), ("keep", "newest")] {
            let refused = api.patch(path, json!({field: value})).await;
            refused.refused("invalid_argument", field);
            let problem: Value = serde_json::from_slice(&refused.body).unwrap();
            let detail = problem["detail"].as_str().unwrap();
            assert!(
                detail.contains("create another version") && detail.contains("liststore export and import"),
                "{detail}"
            );
        }
    }
}

#[tokio::test]
async fn a_key_is_found_and_removed_without_its_timestamp() {
    let api = api().await;
    set(&api, "kept", "key", "newest").await;
    let (list, start) = (items("kept", "u"), ago(1_000));
    let added = json!({"items": [
        keyed(start, "a", "1"), keyed(start + 5, "b\"\\é", "2"), keyed(start + 9, "a", "3"), keyed(start + 2, "a", "4"),
    ]});
    assert_eq!(api.post(&list, added).await.expect(200)["added"], 4);
    assert_eq!(members(&api, &list).await, ["a", "b\"\\é"]);
    let found = api.post(&format!("{list}:lookup"), json!({"keys": ["a", "zz", "b\"\\é", "a"]})).await.expect(200);
    let values: Vec<_> = found["results"].as_array().unwrap().iter().map(|item| item["value"].clone()).collect();
    assert_eq!(values, [json!("3"), Value::Null, json!("2"), json!("3")]);
    assert_eq!(found["results"][1], Value::Null);
    let contained = api.post(&format!("{list}:contains"), json!({"values": ["3", "1"]})).await.expect(200);
    assert!(contained["results"][0]["timestamp"].is_string() && contained["results"][1]["timestamp"].is_null());

    // By timestamp, key and value; by key; by keys.
    let remove = format!("{list}:remove");
    let other = json!({"items": [keyed(start + 9, "x", "3"), keyed(start + 9, "a", "1")]});
    assert_eq!(api.post(&remove, other).await.expect(200)["removed"], 0);
    assert_eq!(api.post(&remove, json!({"items": [keyed(start + 9, "a", "3")]})).await.expect(200)["removed"], 1);
    assert_eq!(api.post(&remove, json!({"key": "b\"\\é"})).await.expect(200)["removed"], 1);
    assert_eq!(api.post(&remove, json!({"key": "b\"\\é"})).await.expect(200)["removed"], 0);
    api.post(&list, json!({"items": [keyed(start, "c", "5"), keyed(start, "d", "5"), keyed(start, "e", "5")]}))
        .await
        .expect(200);
    assert_eq!(api.post(&remove, json!({"keys": ["c", "c", "nobody"]})).await.expect(200)["removed"], 1);
    assert_eq!(api.post(&remove, json!({"value": "5"})).await.expect(200)["removed"], 2);
    assert_eq!(members(&api, &list).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_value_occurs_once_and_one_call_fills_many_lists() {
    let api = api().await;
    set(&api, "first", "value", "oldest").await;
    let start = ago(1_000);
    let add = |entity: &str, at: u64| {
        json!({"entity_type": "user", "feature": "first", "entity_id": entity,
               "items": [{"timestamp": at, "value": "x"}, {"timestamp": at + 1, "value": "y"}]})
    };
    let requests = [add("u", start + 10), add("v", start), add("u", start + 5), add("u", start + 20)];
    api.post("/v1/lists:batchAdd", json!({"requests": requests})).await.expect(200);
    for (entity, at) in [("u", start + 5), ("v", start)] {
        let list = items("first", entity);
        assert_eq!(members(&api, &list).await, ["y", "x"], "{entity}");
        let oldest = api.get(&format!("{list}?max_timestamp={at}")).await.expect(200);
        assert_eq!(oldest["items"].as_array().unwrap().len(), 1, "{entity}");
    }
    let list = items("first", "u");
    let found = api.post(&format!("{list}:lookup"), json!({"values": ["y", "z"]})).await.expect(200);
    assert_eq!((&found["results"][0]["value"], &found["results"][1]), (&json!("y"), &Value::Null));
    assert_eq!(api.post(&format!("{list}:remove"), json!({"value": "y"})).await.expect(200)["removed"], 1);
    assert_eq!(api.get(&format!("{list}:count")).await.expect(200)["count"], 1);
}

#[tokio::test]
async fn requests_that_do_not_fit_the_identity_are_refused() {
    let api = api().await;
    api.feature("plain", "string", "1d").await;
    set(&api, "kept", "key", "newest").await;
    set(&api, "valued", "value", "newest").await;
    let (plain, kept, valued) = (items("plain", "u"), items("kept", "u"), items("valued", "u"));
    let at = ago(10);
    let with = |item: Value| json!({"items": [keyed(at, "good", "v"), item]});
    for (key, field) in [
        (json!(""), "items[1].key"),
        (json!("a\0b"), "items[1].key"),
        (json!("k".repeat(513)), "items[1].key"),
        (json!(7), "items[1].key"),
        (json!(null), "items[1].key"),
    ] {
        let one = json!({"entity_type": "user", "feature": "kept", "entity_id": "u",
            "items": [{"timestamp": at, "key": key, "value": "v"}]});
        let all = json!({"requests": [one]});
        let refused = api.post("/v1/lists:batchAdd", all).await;
        // A text that is not a key is a problem of its request alone.
        let answer = refused.json();
        let problem = if key.is_string() { &answer["results"][0]["problem"] } else { &answer };
        let named = (&problem["code"], &problem["field"]);
        assert_eq!(named, (&json!("invalid_argument"), &json!("requests[0].items[0].key")), "{answer}");
        let body = with(json!({"timestamp": at, "key": key, "value": "v"}));
        api.post(&kept, body).await.refused("invalid_argument", field);
    }
    api.post(&kept, with(json!({"timestamp": at, "value": "v"}))).await.refused("identity_mismatch", "items[1].key");
    for list in [&plain, &valued] {
        api.post(list, json!({"items": [keyed(at, "k", "v")]})).await.refused("identity_mismatch", "items[0].key");
        api.post(&format!("{list}:lookup"), json!({"keys": ["k"]})).await.refused("identity_mismatch", "keys");
        api.post(&format!("{list}:remove"), json!({"key": "k"})).await.refused("identity_mismatch", "key");
        api.post(&format!("{list}:remove"), json!({"keys": ["k"]})).await.refused("identity_mismatch", "keys");
    }
    for list in [&plain, &kept] {
        api.post(&format!("{list}:lookup"), json!({"values": ["v"]})).await.refused("identity_mismatch", "values");
    }
    let lookup = format!("{kept}:lookup");
    api.post(&lookup, json!({"keys": ["a", ""]})).await.refused("invalid_argument", "keys[1]");
    api.post(&lookup, json!({"keys": vec!["k"; 1_001]})).await.refused("invalid_argument", "keys");
    api.post(&lookup, json!({"keys": []})).await.refused("invalid_argument", "keys");
    api.post(&lookup, json!({})).await.refused("invalid_argument", "keys");
    api.post(&format!("{kept}:remove"), json!({"keys": ["a", "b\0"]})).await.refused("invalid_argument", "keys[1]");
    api.post(&format!("{kept}:remove"), json!({"key": ""})).await.refused("invalid_argument", "key");
    api.post(&format!("{valued}:lookup"), json!({"values": ["a", 7]}))
        .await
        .refused("value_type_mismatch", "values[1]");
    assert_eq!(members(&api, &kept).await, Vec::<String>::new(), "nothing was stored of an add that was refused");
    // A thousand of one key are one.
    let many: Vec<_> = (0..1_000).map(|n| keyed(at + n, "k", "v")).collect();
    assert_eq!(api.post(&kept, json!({ "items": many })).await.expect(200)["added"], 1_000);
    assert_eq!(members(&api, &kept).await, ["k"]);
}

#[tokio::test]
async fn erasing_an_entity_empties_its_sets() {
    let api = api().await;
    set(&api, "kept", "key", "newest").await;
    let list = items("kept", "u");
    api.post(&list, json!({"items": [keyed(ago(10), "k", "v")]})).await.expect(200);
    api.delete("/v1/entities/user/u").await.expect(200);
    assert_eq!(members(&api, &list).await, Vec::<String>::new());
    let found = api.post(&format!("{list}:lookup"), json!({"keys": ["k"]})).await.expect(200);
    assert_eq!(found["results"], json!([null]));
}

#[tokio::test]
async fn the_examples_of_the_guide_return_its_answers() {
    let (api, mut token) = (api().await, String::new());
    for Step { method, path, body, response } in steps(include_str!("../../docs/explanation/sets.md"), ago) {
        let path = path.replace("TOKEN", &token);
        let answer = match method.as_str() {
            "GET" => api.get(&path).await,
            "POST" => api.post(&path, body).await,
            other => panic!("{other}"),
        };
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(is_as_documented(&answer, &response, &mut token), "{path}:\n{answer}\nis not\n{response}");
    }
}

#[tokio::test]
async fn the_store_in_memory_keeps_sets_too() {
    let api = api_with(&[("items.store", "memory"), ("metadata.store", "memory")]).await;
    set(&api, "kept", "key", "newest").await;
    let list = items("kept", "u");
    api.post(&list, json!({"items": [keyed(ago(10), "k", "v"), keyed(ago(5), "k", "w")]})).await.expect(200);
    assert_eq!(members(&api, &list).await, ["k"]);
}
