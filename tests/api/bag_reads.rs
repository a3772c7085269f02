//! Reads of bags over HTTP: many in one call, with lists, and by an index.

use reqwest::Method;
use serde_json::{Value, json};

use super::bags::{BAG_BYTES_MAX, U1, api, merge, put, refused};
use super::client::{ago, items};

#[tokio::test]
async fn one_answer_has_many_bags_or_their_problems() {
    let api = api().await;
    for n in 0..3 {
        put(&api, &format!("/v1/entities/user/u-{n}"), &[], &format!("{{\"n\":{n}}}")).await.expect(201);
    }
    let request = |entity_type: &str, id: &str| json!({"entity_type": entity_type, "entity_id": id});
    let requests = [request("user", "u-2"), request("user", "none"), request("story", "s"), request("user", "u-0")];
    let found = api.post("/v1/entities:batchGet", json!({"requests": requests})).await.expect(200);
    let reported: Vec<_> = found["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| match result.get("problem") {
            Some(problem) => problem["code"].clone(),
            None => result["properties"]["n"].clone(),
        })
        .collect();
    assert_eq!(reported, [json!(2), json!("bag_not_found"), json!("entity_type_not_found"), json!(0)]);
    for (body, field) in [
        (json!({"requests": []}), "requests"),
        (json!({"requests": [{"entity_type": "user"}]}), "requests[0].entity_id"),
        (json!({"requests": vec![request("user", "u"); 1_001]}), "requests"),
    ] {
        api.post("/v1/entities:batchGet", body).await.refused("invalid_argument", field);
    }
}

/// An answer is bounded, and marks the parts that did not fit for another request.
#[tokio::test]
async fn an_answer_of_many_bags_is_bounded() {
    let api = api().await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(BAG_BYTES_MAX - 8));
    for n in 0..20 {
        put(&api, &format!("/v1/entities/user/u-{n}"), &[], &large).await.expect(201);
    }
    let requests: Vec<_> = (0..20).map(|n| json!({"entity_type": "user", "entity_id": format!("u-{n}")})).collect();
    let answer = api.post("/v1/entities:batchGet", json!({"requests": requests})).await;
    assert!(answer.body.len() < 5 << 20, "{}", answer.body.len());
    let found = answer.expect(200);
    let fitting =
        found["results"].as_array().unwrap().iter().filter(|result| result.get("properties").is_some()).count();
    assert_eq!(fitting, 16);
    let problems = found["results"].as_array().unwrap().iter().filter_map(|result| result.get("problem"));
    assert!(problems.into_iter().all(|problem| problem["code"] == "response_too_large"));
}

#[tokio::test]
async fn a_bag_can_include_lists() {
    let api = api().await;
    for feature in ["seen", "bought"] {
        api.feature(feature, "string", "30d").await;
    }
    let added: Vec<_> = (1..=5).map(|n| (ago(n), json!(format!("story-{n}")))).collect();
    api.add(&items("seen", "u-1"), &added).await;
    put(&api, U1, &[], "{}").await.expect(201);
    let path = format!("{U1}?lists=seen:2,bought,none:1");
    let found = api.get(&path).await;
    let tag = found.etag().to_owned();
    assert!(tag.starts_with("W/"), "it is no state of the bag alone, and no condition of a write: {tag}");
    assert_eq!(api.send(Method::GET, &path, &[("if-none-match", &tag)], b"").await.status, 304);
    assert_eq!(put(&api, U1, &[("if-match", &tag)], "{}").await.status, 412);
    let found = found.expect(200);
    let values = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|item| item["value"].clone()).collect()
    };
    assert_eq!(values(&found["lists"]["seen"]), ["story-1", "story-2"]);
    assert!(found["lists"]["seen"]["next_page_token"].is_string());
    assert_eq!(values(&found["lists"]["bought"]), Vec::<Value>::new());
    assert_eq!(found["lists"]["none"]["problem"]["code"], "feature_not_found");
    api.add(&items("seen", "u-1"), &[(ago(0), "story-0".into())]).await;
    assert_eq!(api.send(Method::GET, &path, &[("if-none-match", &tag)], b"").await.status, 200, "the list has changed");
    let token = found["lists"]["seen"]["next_page_token"].as_str().unwrap();
    let next = api.get(&format!("{}?limit=2&page_token={token}", items("seen", "u-1"))).await.expect(200);
    assert_eq!(values(&next), ["story-3", "story-4"], "a page goes on as any does");

    put(&api, "/v1/entities/user/u-2", &[], "{}").await.expect(201);
    let requests: Vec<_> =
        ["u-2", "none", "u-1"].iter().map(|id| json!({"entity_type": "user", "entity_id": id})).collect();
    let batch = api.post("/v1/entities:batchGet?lists=seen:1", json!({"requests": requests})).await.expect(200);
    assert_eq!(values(&batch["results"][0]["lists"]["seen"]), Vec::<Value>::new());
    assert_eq!(batch["results"][1]["problem"]["code"], "bag_not_found");
    assert_eq!(values(&batch["results"][2]["lists"]["seen"]), ["story-0"]);
    for bad in ["seen:0", "seen,seen", "se%20en", "seen:x", ","] {
        api.get(&format!("{U1}?lists={bad}")).await.refused("invalid_argument", "lists");
    }
    let many = vec![json!({"entity_type": "user", "entity_id": "u"}); 501];
    api.post("/v1/entities:batchGet?lists=a,b", json!({"requests": many})).await.refused("invalid_argument", "lists");
}

#[tokio::test]
async fn a_bag_is_found_by_its_present_properties() {
    let api = api().await;
    put(&api, "/v1/entities/user/old", &[], r#"{"city":"Paris"}"#).await.expect(201);
    let index = json!({"name": "by_city", "properties": ["/city"]});
    api.post("/v1/entity-types/user/indexes", index).await.expect(201);
    let path = "/v1/entity-types/user/indexes/by_city";
    put(&api, U1, &[], r#"{"city":["Paris","Rome"]}"#).await.expect(201);
    api.until_state(path, "ready").await;
    let found = async |city: &str| -> Vec<String> {
        let page = api.get(&format!("{path}/entities?value=%22{city}%22")).await.expect(200);
        let bags = page["entities"].as_array().unwrap().clone();
        bags.iter().map(|bag| bag["entity_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (found("Paris").await, found("Rome").await),
        (vec!["u-1".to_owned(), "old".to_owned()], vec!["u-1".to_owned()])
    );
    merge(&api, U1, &[], r#"{"city":"Oslo"}"#).await.expect(200);
    assert_eq!(
        (found("Paris").await, found("Rome").await, found("Oslo").await),
        (vec!["old".to_owned()], vec![], vec!["u-1".to_owned()])
    );
    assert_eq!(api.delete(&format!("{U1}/bag")).await.status, 204);
    api.delete("/v1/entities/user/old").await.expect(200);
    assert_eq!((found("Paris").await, found("Oslo").await), (vec![], vec![]));
    let many = json!({"city": (0..1_001).collect::<Vec<_>>()}).to_string();
    refused(&put(&api, U1, &[], &many).await, 422, "too_many_entries");
    refused(&api.get(U1).await, 404, "bag_not_found");
}
