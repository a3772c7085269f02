//! `GET /v1/features/{entity_type}/{name}/entities`.

use std::collections::BTreeSet;

use serde_json::json;

use super::client::{Api, ago, api, items, one};

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
    // A shorter TTL hides the items, and with them who has them.
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
