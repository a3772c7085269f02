//! The pool of list actors over HTTP.

use reqwest::Method;
use serde_json::json;

use super::client::{ago, api, items, one};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_pool_is_shown_and_changed_while_lists_are_used() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let pool = api.get("/v1/pool").await.expect(200);
    let actors = pool["actors"].as_u64().unwrap();
    assert_eq!(pool["states"].as_array().unwrap().len() as u64, actors);
    assert_eq!(pool["permits"]["bound"], json!(actors * pool["permits_per_actor"].as_u64().unwrap()));
    for (size, value) in [(7_u64, "a"), (1, "b"), (3, "c")] {
        let body = json!({"actors": size, "permits_per_actor": 9}).to_string();
        let changed = api.send(Method::PUT, "/v1/pool", &[JSON], body.as_bytes()).await.expect(200);
        assert_eq!((&changed["actors"], &changed["permits"]["bound"]), (&json!(size), &json!(size * 9)));
        assert!(changed["states"].as_array().unwrap().iter().all(|state| state == "live"), "{changed}");
        for entity in 0..20 {
            api.post(&items("seen", &format!("u-{entity}")), one(ago(10 - size), value)).await.expect(200);
        }
    }
    for entity in 0..20 {
        assert_eq!(api.values(&items("seen", &format!("u-{entity}"))).await.len(), 3);
    }
    let metrics = api.get("/metrics").await.text();
    assert!(metrics.contains("liststore_list_actors{state=\"live\"} 3"), "{metrics}");
}

#[tokio::test]
async fn an_impossible_size_is_refused_with_its_field() {
    let api = api().await;
    for (body, field) in [
        (json!({}), "actors"),
        (json!({"actors": 0}), "actors"),
        (json!({"actors": 1_025}), "actors"),
        (json!({"actors": "4"}), "actors"),
        (json!({"actors": 2.5}), "actors"),
        (json!({"actors": 2, "permits_per_actor": 0}), "permits_per_actor"),
        (json!({"actors": 2, "permits": 5}), "permits"),
    ] {
        let answer = api.send(Method::PUT, "/v1/pool", &[JSON], body.to_string().as_bytes()).await;
        answer.refused("invalid_argument", field);
    }
}
