//! Buckets of definitions over HTTP: given, inherited, shown, and never changed. Their effect on lists is tested with
//! stores that have many partitions.

use serde_json::{Value, json};

use super::client::{ago, api};

#[tokio::test]
async fn a_definition_selects_the_buckets_of_its_lists() {
    let api = api().await;
    let body = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d", "bucket": "month"});
    let created = api.post("/v1/features", body).await.expect(201);
    assert_eq!((&created["bucket"], &created["versions"][0]["bucket"]), (&json!("month"), &json!("month")));
    let versions = "/v1/features/user/seen/versions";
    for (body, expected) in [
        (json!({"version": "v2"}), Some(json!("month"))),
        (json!({"version": "v3", "bucket": "week"}), Some(json!("week"))),
        (json!({"version": "v4", "bucket": null}), None),
        (json!({"version": "v5", "bucket": null, "identity": "key"}), None),
    ] {
        let version = api.post(versions, body.clone()).await.expect(201);
        assert_eq!(version.get("bucket"), expected.as_ref(), "{body}");
    }
    let history = api.get("/v1/features/user/seen/history").await.expect(200);
    assert_eq!(history["history"][2]["after"]["bucket"], "week");
    let set = json!({"version": "v6", "identity": "key"});
    api.post(versions, set).await.refused("invalid_argument", "bucket");
    for bucket in [json!("hour"), json!("Month"), json!(7)] {
        api.post(versions, json!({"version": "v6", "bucket": bucket})).await.refused("invalid_argument", "bucket");
    }
    for path in ["/v1/features/user/seen", "/v1/features/user/seen/versions/v3"] {
        for bucket in [json!("day"), json!("week"), Value::Null] {
            let refused = api.patch(path, json!({"bucket": bucket})).await;
            refused.refused("invalid_argument", "bucket");
            let problem: Value = serde_json::from_slice(&refused.body).unwrap();
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("create another version") && detail.contains("liststore copy"), "{detail}");
        }
    }
    // The store at hand ignores it.
    let list = "/v1/lists/user/seen/u-1/items";
    let item = |secs, value: &str| json!({"timestamp": ago(secs), "value": value});
    api.post(list, json!({"items": [item(60, "b"), item(20 * 86_400, "a")]})).await.expect(200);
    assert_eq!(api.get(list).await.expect(200)["items"].as_array().unwrap().len(), 2);
}
