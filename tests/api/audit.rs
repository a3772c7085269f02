//! The audit trail: authors, the persons they act for, and refused callers.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, api};
use super::keys::{JSON, admin, key, with_key};
use super::sockets::until;

#[tokio::test]
async fn the_audit_trail_names_caller_change_and_principal() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let (editor, _) = key(&api, Some(&admin), json!({"name": "ui", "roles": ["editor"], "scopes": ["user.*"]})).await;
    let authorization = format!("Bearer {editor}");
    let headers = [("authorization", &*authorization), ("liststore-user", "alice"), JSON];
    api.send(Method::PATCH, "/v1/features/user/seen", &headers, br#"{"ttl":"2h"}"#).await.expect(200);
    let history =
        with_key(&api, &editor, Method::GET, "/v1/features/user/seen/history", &Value::Null).await.expect(200);
    let first = &history["history"][0];
    assert_eq!((&first["by"], &first["on_behalf_of"]), (&json!("key:ui"), &json!("alice")));
    assert_eq!(history["history"][1]["by"], "anonymous");

    let read = async |query: &str| {
        let page = with_key(&api, &admin, Method::GET, &format!("/v1/audit{query}"), &Value::Null).await.expect(200);
        let changes = page["changes"].as_array().unwrap().clone();
        let text =
            |change: &Value| format!("{} {}", change["action"].as_str().unwrap(), change["target"].as_str().unwrap());
        (changes.iter().map(text).collect::<Vec<_>>(), page["next_page_token"].as_str().map(str::to_owned), page)
    };
    let (all, none, whole) = read("").await;
    assert_eq!(
        all,
        ["update_feature user.seen", "create_key key:ui", "create_key key:admin", "create_feature user.seen"]
    );
    assert_eq!(none, None);
    assert_eq!(whole["changes"][1]["by"], "key:admin");
    for token in [&editor, &admin] {
        assert!(!whole.to_string().contains(&token[16..]), "the trail has a secret");
    }
    assert_eq!(read("?by=alice").await.0, ["update_feature user.seen"]);
    assert_eq!(read("?by=key:ui").await.0, ["update_feature user.seen"]);
    assert_eq!(read("?target=key:ui").await.0, ["create_key key:ui"]);
    assert_eq!(read("?action=create_feature").await.0, ["create_feature user.seen"]);
    for action in ["update_index", "revoke_key", "resize_pool", "purge", "restore_backup", "erase_entity"] {
        assert!(read(&format!("?action={action}")).await.0.is_empty(), "{action}");
    }
    for (query, field) in [("action=create", "action"), ("action=get_items", "action"), ("since=2&until=1", "since")] {
        let answer = with_key(&api, &admin, Method::GET, &format!("/v1/audit?{query}"), &Value::Null).await;
        answer.refused("invalid_argument", field);
    }
    let at = whole["changes"][2]["at"].as_str().unwrap();
    assert_eq!(read(&format!("?until={at}")).await.0.len(), 2);
    assert_eq!(read(&format!("?since={at}")).await.0.len(), 3);
    let (first, token, _) = read("?page_size=3").await;
    let (second, end, _) = read(&format!("?page_size=3&page_token={}", token.unwrap())).await;
    assert_eq!((first.len(), second, end), (3, vec!["create_feature user.seen".to_owned()], None));
}

/// In pages like the history's, and without texts that callers invent.
#[tokio::test]
async fn the_audit_trail_has_refusals_with_their_caller() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let reader = json!({"name": "ro", "roles": ["reader"], "requests_per_second": 1, "requests_burst": 30});
    let (reader, id) = key(&api, Some(&admin), reader).await;
    let list = "/v1/lists/user/seen/u/items";
    let item = json!({"items": [{"timestamp": super::client::ago(1), "value": "x"}]});
    for _ in 0..3 {
        with_key(&api, &reader, Method::POST, list, &item).await.refused("permission_denied", "");
    }
    let request = json!({"entity_type": "user", "feature": "seen", "entity_id": "u", "items": item["items"]});
    let batch = json!({"requests": [request, request]});
    let (elsewhere, _) =
        key(&api, Some(&admin), json!({"name": "e", "roles": ["writer"], "scopes": ["customer.*"]})).await;
    with_key(&api, &elsewhere, Method::POST, "/v1/lists:batchAdd", &batch).await.expect(200);
    let is_limited = async || with_key(&api, &reader, Method::GET, list, &Value::Null).await.status == 429;
    until("it is limited", is_limited).await;
    with_key(&api, &admin, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    with_key(&api, &reader, Method::GET, list, &Value::Null).await.refused("unauthenticated", "");
    // Texts from unknown callers are not stored.
    for n in 0..50 {
        api.get(&format!("/v1/features/user/made-up-{n}")).await.refused("unauthenticated", "");
    }
    let read = async |query: &str| {
        with_key(&api, &admin, Method::GET, &format!("/v1/audit{query}"), &Value::Null).await.expect(200)
    };
    let reported = |page: &Value| {
        let changes = page["changes"].as_array().unwrap();
        let reported = changes.iter().map(|change| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (by, target, after) = (text(&change["by"]), text(&change["target"]), &change["after"]);
            match change["action"].as_str() {
                Some("refuse") => format!("{by} {target} {} {}", text(&after["code"]), after["count"]),
                other => format!("{by} {target} {}", other.unwrap()),
            }
        });
        reported.collect::<Vec<_>>()
    };
    let refusals = read("?action=refuse").await;
    let expected = [
        "anonymous get_feature unauthenticated 50",
        "anonymous get_items unauthenticated 1",
        "key:ro get_items rate_limited 1",
        "key:e batch_add permission_denied 2",
        "key:ro add_items permission_denied 3",
    ];
    assert_eq!(reported(&refusals), expected);
    let reasons: Vec<_> =
        refusals["changes"].as_array().unwrap().iter().map(|r| r["after"]["reason"].clone()).collect();
    assert_eq!((&reasons[0], &reasons[1]), (&json!("no key"), &json!("revoked key")));
    assert!(!refusals.to_string().contains("made-up") && !refusals.to_string().contains(&reader[16..]));
    assert_eq!(reported(&read("?action=refuse&by=key:ro").await), [expected[2], expected[4]]);
    assert_eq!(reported(&read("?action=refuse&target=batch_add").await), [expected[3]]);
    assert_eq!(reported(&read("").await)[0], "key:admin key:ro revoke_key", "changes stand by themselves");
    let (mut paged, mut token) = (Vec::new(), String::new());
    loop {
        let page = read(&format!("?action=refuse&page_size=2{token}")).await;
        assert!(page["changes"].as_array().unwrap().len() <= 2);
        paged.extend(reported(&page));
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(paged, expected);
}

/// The entries of a target, newest first: the action with the states before and after.
async fn entries(api: &Api, token: &str, target: &str) -> Vec<(String, Value, Value)> {
    let path = format!("/v1/audit?target={target}");
    let page = with_key(api, token, Method::GET, &path, &Value::Null).await.expect(200);
    let changes = page["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["by"] == "key:ops"), "{page}");
    let entry = |change: &Value| {
        let shown = |state: &str| {
            let mut shown = change[state].clone();
            if let Some(members) = shown.as_object_mut() {
                assert_ne!(members.remove("server"), Some(json!("")));
            }
            shown
        };
        (change["action"].as_str().unwrap().to_owned(), shown("before"), shown("after"))
    };
    changes.iter().map(entry).collect()
}

/// With an admin's key, as `ops`.
async fn with_operator() -> (Api, String) {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let (token, _) = key(&api, None, json!({"name": "ops", "roles": ["admin"]})).await;
    (api, token)
}

#[tokio::test]
async fn the_audit_trail_has_changes_of_the_pool_and_of_the_log() {
    let (api, token) = with_operator().await;
    let put = async |body: Value| with_key(&api, &token, Method::PUT, "/v1/pool", &body).await;
    let pool = with_key(&api, &token, Method::GET, "/v1/pool", &Value::Null).await.expect(200);
    let size = |actors: &Value, permits: &Value| json!({"actors": actors, "permits_per_actor": permits});
    let (before, permits) = (size(&pool["actors"], &pool["permits_per_actor"]), &pool["permits_per_actor"]);
    put(json!({"actors": 7})).await.expect(200);
    put(json!({"actors": 7})).await.expect(200);
    put(json!({"permits_per_actor": 9})).await.expect(200);
    let (seven, bounded) = (size(&json!(7), permits), size(&json!(7), &json!(9)));
    let resize = |before: &Value, after: &Value| ("resize_pool".to_owned(), before.clone(), after.clone());
    assert_eq!(entries(&api, &token, "pool").await, [resize(&seven, &bounded), resize(&before, &seven)]);

    let patch = async |body: Value| with_key(&api, &token, Method::PATCH, "/v1/log", &body).await;
    let log = with_key(&api, &token, Method::GET, "/v1/log", &Value::Null).await.expect(200);
    patch(json!({"filter": "off", "access": "off"})).await.expect(200);
    patch(json!({"filter": "liststore=loud"})).await.refused("invalid_argument", "filter");
    let off = json!({"filter": "off", "access": "off"});
    assert_eq!(entries(&api, &token, "log").await, [("change_log".to_owned(), log, off)]);
}

#[tokio::test]
async fn the_audit_trail_has_commands_to_jobs() {
    let (api, token) = with_operator().await;
    let post = async |path: &str, body: Value| with_key(&api, &token, Method::POST, path, &body).await;
    for list in 0..50 {
        let items = json!({"items": [{"timestamp": super::client::ago(1), "value": "x"}]});
        post(&format!("/v1/lists/user/seen/u{list}/items"), items).await.expect(200);
    }
    let job = post("/v1/features/user/seen/purge", json!({"lists_per_second": 1})).await.expect(202);
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    post(&format!("{path}/pause"), Value::Null).await.expect(200);
    post(&format!("{path}/pause"), Value::Null).await.expect(200);
    let rate = json!({"lists_per_second": 2});
    with_key(&api, &token, Method::PATCH, &path, &rate).await.expect(200);
    post(&format!("{path}/resume"), Value::Null).await.expect(200);
    post(&format!("{path}/cancel"), Value::Null).await.expect(200);
    post(&format!("{path}/pause"), Value::Null).await.refused("job_is_over", "");
    let target = format!("job:{}", job["id"].as_str().unwrap());
    let found = entries(&api, &token, &target).await;
    let mut last: Vec<_> = found.iter().map(|(action, _, after)| (action.as_str(), after["state"].as_str())).collect();
    last.dedup();
    let expected = [
        ("cancel_job", Some("cancelled")),
        ("resume_job", Some("waiting")),
        ("update_job", Some("paused")),
        ("pause_job", Some("paused")),
    ];
    assert_eq!(last, expected, "{found:?}");
    let updated = found.iter().find(|(action, ..)| action == "update_job").unwrap();
    assert_eq!((&updated.1["lists_per_second"], &updated.2["lists_per_second"]), (&json!(1), &json!(2)));
    assert_eq!((&updated.2["kind"], &updated.2["feature"]), (&json!("purge"), &json!("user.seen")));
}

/// Otherwise a caller that silences the log while the metadata store is unavailable would leave no trace.
#[tokio::test]
async fn a_change_that_cannot_be_audited_is_not_made() {
    use liststore::metadata::MetadataError;
    let (api, faults) = super::faults::faulty(&[]).await;
    let before = (api.get("/v1/log").await.expect(200), api.get("/v1/pool").await.expect(200));
    let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown: false };
    *faults.metadata.lock().unwrap() = Some(away);
    let send = async |method, path, body: Value| api.send(method, path, &[JSON], body.to_string().as_bytes()).await;
    send(Method::PATCH, "/v1/log", json!({"filter": "off"})).await.refused("metadata_unavailable", "");
    send(Method::PATCH, "/v1/log", json!({"access": "all"})).await.refused("metadata_unavailable", "");
    send(Method::PUT, "/v1/pool", json!({"actors": 7})).await.refused("metadata_unavailable", "");
    assert_eq!((api.get("/v1/log").await.expect(200), api.get("/v1/pool").await.expect(200)), before);
    *faults.metadata.lock().unwrap() = None;
    send(Method::PATCH, "/v1/log", json!({"access": "all"})).await.expect(200);
}
