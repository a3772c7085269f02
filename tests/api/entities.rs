//! Which entities have lists of a feature version, and which lists an entity has.

use std::collections::BTreeSet;

use liststore::domain::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ago, api, api_with, items, one};
use super::keys::{admin, key, with_key};

async fn walk(api: &Api, path: &str, page_size: usize) -> Vec<String> {
    let (mut met, mut next) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{path}page_size={page_size}{next}")).await.expect(200);
        let entities = page["entities"].as_array().unwrap();
        assert!(entities.len() <= page_size);
        met.extend(entities.iter().map(|entity| entity.as_str().unwrap().to_owned()));
        let Some(token) = page["next_page_token"].as_str() else { return met };
        next = format!("&page_token={token}");
    }
}

#[tokio::test]
async fn the_entities_of_a_version_are_listed_page_by_page() {
    let api = api().await;
    let path = "/v1/features/user/seen/entities?";
    api.get(path.trim_end_matches('?')).await.refused("feature_not_found", "");
    for feature in ["seen", "other"] {
        api.feature(feature, "string", "30d").await;
    }
    api.post("/v1/features/user/seen/versions", json!({"version": "v/2"})).await.expect(201);
    assert_eq!(walk(&api, path, 10).await, [""; 0]);
    let names: BTreeSet<_> = (0..25).map(|n| format!("u/{n} é?")).collect();
    for name in &names {
        api.post(&items("seen", name), one(ago(10), "a")).await.expect(200);
        api.post(&items("other", &format!("{name}x")), one(ago(10), "a")).await.expect(200);
    }
    api.post(&format!("{}?version=v/2", items("seen", "elsewhere")), one(ago(10), "a")).await.expect(200);
    for page_size in [1, 24, 25, 1_000] {
        let met = walk(&api, path, page_size).await;
        assert_eq!((met.len(), met.into_iter().collect::<BTreeSet<_>>()), (25, names.clone()), "{page_size}");
    }
    let of_version = format!("{path}version=v/2&");
    assert_eq!(walk(&api, &of_version, 10).await, ["elsewhere"]);
    // A shorter TTL hides the items, and with them their entities.
    api.patch("/v1/features/user/seen", json!({"ttl": "5s"})).await.expect(200);
    assert_eq!(walk(&api, path, 10).await, [""; 0]);

    let page = api.get("/v1/features/user/other/entities?page_size=1").await.expect(200);
    let token = page["next_page_token"].as_str().unwrap();
    for (other, field, code) in [
        (format!("{path}page_token={token}"), "page_token", "invalid_page_token"),
        (format!("{path}page_token=x"), "page_token", "invalid_page_token"),
        (format!("{path}page_size=1001"), "page_size", "invalid_argument"),
        (format!("{path}page_size=0"), "page_size", "invalid_argument"),
        (format!("{path}version=a b"), "version", "invalid_argument"),
        (format!("{path}limit=1"), "limit", "invalid_argument"),
    ] {
        api.get(&other.replace(' ', "%20")).await.refused(code, field);
    }
    api.get(&format!("{path}version=v3")).await.refused("version_not_found", "");
}

/// The feature, version and newest time of each list of an entity, page by page.
async fn lists_of(api: &Api, token: Option<&str>, entity: &str, page_size: usize) -> Vec<[String; 3]> {
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/entities/user/{entity}/lists?page_size={page_size}{next}");
        let page = match token {
            Some(token) => with_key(api, token, Method::GET, &path, &Value::Null).await.expect(200),
            None => api.get(&path).await.expect(200),
        };
        let lists = page["lists"].as_array().unwrap();
        assert!(lists.len() <= page_size);
        let text = |list: &Value, name: &str| list[name].as_str().unwrap().to_owned();
        found.extend(lists.iter().map(|list| ["feature", "version", "newest_timestamp"].map(|name| text(list, name))));
        let Some(token) = page["next_page_token"].as_str() else { return found };
        next = format!("&page_token={token}");
    }
}

#[tokio::test]
async fn the_lists_of_an_entity_are_listed_page_by_page() {
    for store in ["embedded", "memory"] {
        let api = api_with(&[("items.store", store)]).await;
        assert_eq!(lists_of(&api, None, "u-1", 10).await, [[""; 3]; 0], "{store}");
        for number in 0..20 {
            api.feature(&format!("f{number:02}"), "string", "30d").await;
        }
        api.feature("short", "int64", "5s").await;
        api.post("/v1/features/user/f03/versions", json!({"version": "v/2"})).await.expect(201);
        for (feature, secs) in [("f03", 60), ("f03", 10), ("f07", 20), ("f19", 30)] {
            api.post(&items(feature, "u-1"), one(ago(secs), format!("v{secs}"))).await.expect(200);
        }
        let long_ago = ago(10 * 86_400);
        api.post(&format!("{}?version=v/2", items("f03", "u-1")), one(long_ago, "x")).await.expect(200);
        api.post(&items("f08", "u-2"), one(ago(10), "of another entity")).await.expect(200);
        api.post(&items("f09", "u-1"), one(ago(10), "removed")).await.expect(200);
        assert_eq!(api.delete(&items("f09", "u-1")).await.status, 204);
        api.post(&items("short", "u-1"), one(ago(6), 1)).await.expect(200);
        let expected = [["f03", ""], ["f03", "v/2"], ["f07", ""], ["f19", ""]];
        for page_size in [1, 3, 4, 1_000] {
            let found = lists_of(&api, None, "u-1", page_size).await;
            let names: Vec<_> = found.iter().map(|[feature, version, _]| [&**feature, version]).collect();
            assert_eq!(names, expected, "{store} {page_size}");
            assert_eq!(Timestamp::parse(&found[1][2]).unwrap().as_nanos(), long_ago);
        }
        // A deleted feature has no lists.
        api.delete("/v1/features/user/f07").await.expect(200);
        assert_eq!(lists_of(&api, None, "u-1", 2).await.len(), 3, "{store}");
    }
}

#[tokio::test]
async fn the_lists_of_an_entity_are_limited_to_the_scope_of_the_caller() {
    let api = api().await;
    for feature in ["a1", "b1", "a2"] {
        api.feature(feature, "string", "30d").await;
        api.post(&items(feature, "u-1"), one(ago(10), "a")).await.expect(200);
    }
    let admin = admin(&api).await;
    let of = |name: &str, scope: &str| json!({"name": name, "roles": ["reader"], "scopes": [scope]});
    for (name, scope, expected) in
        [("a", "user.a*", vec!["a1", "a2"]), ("b", "user.b1", vec!["b1"]), ("c", "customer.*", vec![])]
    {
        let (reader, _) = key(&api, Some(&admin), of(name, scope)).await;
        let found = lists_of(&api, Some(&reader), "u-1", 1).await;
        assert_eq!(found.into_iter().map(|[feature, ..]| feature).collect::<Vec<_>>(), expected, "{scope}");
    }
    api.get("/v1/entities/user/u-1/lists").await.refused("unauthenticated", "");
}

#[tokio::test]
async fn a_page_token_of_lists_is_valid_for_one_entity() {
    let api = api().await;
    for feature in ["a", "b"] {
        api.feature(feature, "string", "30d").await;
        api.post(&items(feature, "u-1"), one(ago(10), "a")).await.expect(200);
    }
    let page = api.get("/v1/entities/user/u-1/lists?page_size=1").await.expect(200);
    let token = page["next_page_token"].as_str().unwrap();
    for (path, field, code) in [
        (format!("u-2/lists?page_token={token}"), "page_token", "invalid_page_token"),
        ("u-1/lists?page_token=x".to_owned(), "page_token", "invalid_page_token"),
        ("u-1/lists?page_size=0".to_owned(), "page_size", "invalid_argument"),
        ("u-1/lists?version=v".to_owned(), "version", "invalid_argument"),
        ("%00/lists".to_owned(), "entity_id", "invalid_argument"),
    ] {
        api.get(&format!("/v1/entities/user/{path}")).await.refused(code, field);
    }
}

#[tokio::test]
async fn an_unknown_path_names_the_nearest_one() {
    let api = api().await;
    let answer = api.get("/v1/list/user/seen/u-1/items").await;
    answer.refused("not_found", "");
    assert_eq!(
        answer.json()["detail"],
        "no such path: did you mean /v1/lists/{entity_type}/{feature}/{entity_id}/items? All paths are in /openapi.json"
    );
}
