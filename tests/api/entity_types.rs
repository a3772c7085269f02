//! Entity types over HTTP, which permit bags of their entities.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, api_with};

const TYPES: &str = "/v1/entity-types";

/// A server whose stores support bags.
async fn api() -> Api {
    api_with(&[("items.store", "memory"), ("metadata.store", "memory")]).await
}

async fn names(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("{TYPES}{query}")).await.expect(200);
    let types = page["entity_types"].as_array().unwrap();
    types.iter().map(|found| found["entity_type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_entity_type_is_created_changed_and_deleted() {
    let api = api().await;
    let body = json!({"entity_type": "user", "ttl": "90m", "owner": "feed", "labels": {"k": "v"}});
    let created = api.post(TYPES, body).await;
    assert_eq!(created.header("location"), Some("/v1/entity-types/user"));
    let tag = created.etag().to_owned();
    let created = created.expect(201);
    assert_eq!(
        (&created["ttl"], &created["description"], &created["labels"]["k"]),
        (&json!("1h30m"), &json!(""), &json!("v"))
    );
    let found = api.get("/v1/entity-types/user").await;
    assert_eq!((found.etag(), found.expect(200)), (tag.as_str(), created));
    api.post(TYPES, json!({"entity_type": "user"})).await.refused("entity_type_exists", "");

    let changed = api.patch("/v1/entity-types/user", json!({"ttl": "1d", "labels": {}})).await;
    let changed_tag = changed.etag().to_owned();
    let changed = changed.expect(200);
    assert_eq!((&changed["ttl"], &changed["owner"], &changed["labels"]), (&json!("1d"), &json!("feed"), &json!({})));
    let stale = [("if-match", tag.as_str())];
    for (method, body) in [(Method::PATCH, &b"{\"ttl\": \"2d\"}"[..]), (Method::DELETE, b"")] {
        let refused = api.send(method, "/v1/entity-types/user", &stale, body).await;
        assert_eq!((refused.status, refused.code().as_str()), (412, "etag_mismatch"));
    }
    let fresh = [("if-match", changed_tag.as_str())];
    let deleted = api.send(Method::DELETE, "/v1/entity-types/user", &fresh, b"").await.expect(200);
    assert!(deleted["items_expire_by"].is_string());
    for answer in [
        api.get("/v1/entity-types/user").await,
        api.patch("/v1/entity-types/user", json!({})).await,
        api.delete("/v1/entity-types/user").await,
    ] {
        assert_eq!((answer.status, answer.code().as_str()), (404, "entity_type_not_found"));
    }
    let history = api.get("/v1/entity-types/user/history?page_size=2").await.expect(200);
    let reported = |place: usize| history["history"][place]["action"].as_str().unwrap().to_owned();
    assert_eq!([reported(0), reported(1)], ["delete_entity_type", "update_entity_type"]);
    let token = history["next_page_token"].as_str().unwrap();
    let rest = api.get(&format!("/v1/entity-types/user/history?page_token={token}")).await.expect(200);
    assert_eq!((&rest["history"][0]["action"], &rest["next_page_token"]), (&json!("create_entity_type"), &Value::Null));
    let audit = api.get("/v1/audit?target=user").await.expect(200);
    assert_eq!(audit["changes"].as_array().unwrap().len(), 3);
    let never = api.get("/v1/entity-types/never/history").await;
    assert_eq!((never.status, never.code().as_str()), (404, "entity_type_not_found"));
}

#[tokio::test]
async fn a_ttl_is_bounded_and_defaults_to_the_longest() {
    let api = api().await;
    let created = api.post(TYPES, json!({"entity_type": "user"})).await.expect(201);
    assert_eq!(created["ttl"], "7300d");
    let too_long = api.post(TYPES, json!({"entity_type": "story", "ttl": "7301d"})).await;
    assert_eq!((too_long.status, too_long.code().as_str()), (422, "ttl_too_long"));
    for (body, field) in [
        (json!({}), "entity_type"),
        (json!({"entity_type": "a b"}), "entity_type"),
        (json!({"entity_type": ""}), "entity_type"),
        (json!({"entity_type": "a", "ttl": null}), "ttl"),
        (json!({"entity_type": "a", "value_type": "json"}), "value_type"),
        (json!({"entity_type": "a", "labels": {"": "v"}}), "labels"),
    ] {
        api.post(TYPES, body).await.refused("invalid_argument", field);
    }
    api.patch("/v1/entity-types/user", json!({"entity_type": "b"})).await.refused("invalid_argument", "entity_type");
    assert_eq!(names(&api, "").await, ["user"]);
}

#[tokio::test]
async fn entity_types_and_features_are_listed_separately() {
    let api = api().await;
    for entity_type in ["user", "story", "status"] {
        api.post(TYPES, json!({"entity_type": entity_type, "description": "of the feed"})).await.expect(201);
    }
    api.feature("seen", "string", "1d").await;
    assert_eq!(names(&api, "").await, ["status", "story", "user"]);
    assert_eq!(names(&api, "?q=st").await, ["status", "story"]);
    assert_eq!(names(&api, "?q=THE+feed").await.len(), 3);
    let page = api.get("/v1/entity-types?page_size=2").await.expect(200);
    let token = page["next_page_token"].as_str().unwrap();
    assert_eq!(names(&api, &format!("?page_size=2&page_token={token}")).await, ["user"]);
    api.get(&format!("/v1/features?page_token={token}")).await.refused("invalid_page_token", "page_token");
    let features = api.get("/v1/features").await.expect(200);
    assert_eq!(features["features"].as_array().unwrap().len(), 1);
}

/// Bags are stored as lists of a feature without a name, which no request can name.
#[tokio::test]
async fn no_list_operation_reaches_a_bag() {
    let api = api().await;
    api.post(TYPES, json!({"entity_type": "user"})).await.expect(201);
    api.get("/v1/lists/user//u-1/items").await.refused("invalid_argument", "feature");
    let item = json!({"items": [{"timestamp": super::client::ago(1), "value": {}}]});
    api.post("/v1/lists/user//u-1/items", item).await.refused("invalid_argument", "feature");
    api.delete("/v1/lists/user//u-1/items").await.refused("invalid_argument", "feature");
    let batch = json!({"requests": [{"entity_type": "user", "feature": "", "entity_id": "u-1"}]});
    let answer = api.post("/v1/lists:batchGet", batch).await.expect(200);
    assert_eq!(answer["results"][0]["problem"]["field"], "requests[0].feature", "{answer}");
    api.get("/v1/features/user/").await.refused("invalid_argument", "name");
    api.get("/v1/features/user//entities").await.refused("invalid_argument", "name");
}

#[tokio::test]
async fn a_purge_of_an_entity_type_is_a_job() {
    let api = api().await;
    let unknown = api.post("/v1/entity-types/user/purge", json!({})).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "entity_type_not_found"));
    api.post(TYPES, json!({"entity_type": "user"})).await.expect(201);
    api.post("/v1/entity-types/user/purge", json!({"version": "v"})).await.refused("invalid_argument", "version");
    let job = api.post("/v1/entity-types/user/purge", json!({"lists_per_second": 100})).await.expect(202);
    assert_eq!((&job["entity_type"], job.get("feature"), &job["generations"]), (&json!("user"), None, &json!(1)));
    let id = job["id"].as_str().unwrap();
    while api.get(&format!("/v1/jobs/{id}")).await.expect(200)["state"] != "done" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let audit = api.get("/v1/audit?target=user&action=purge").await.expect(200);
    assert_eq!(audit["changes"][0]["after"]["feature_keys"], json!(["user#|"]));
}
