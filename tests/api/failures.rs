//! Failures of the server: each with its code, and with the information for the caller.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use liststore::domain::Invalid;
use liststore::items::StoreError;
use liststore::metadata::MetadataError;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, ago, items, one};
use super::faults::{faulty, faulty_from_the_start, refuse_sessions};
use super::sockets::until;

/// All four list operations.
async fn all(api: &Api, headers: &[(&str, &str)]) -> [(Answer, bool); 4] {
    let list = items("seen", "u");
    let add = one(ago(1), "x").to_string();
    let remove = json!({"value": "x"}).to_string();
    [
        (api.send(Method::GET, &list, headers, b"").await, false),
        (api.send(Method::POST, &list, headers, add.as_bytes()).await, true),
        (api.send(Method::POST, &format!("{list}:remove"), headers, remove.as_bytes()).await, true),
        (api.send(Method::DELETE, &list, headers, b"").await, true),
    ]
}

fn unsure(body: &Value) -> bool {
    body.get("outcome_unknown").is_some()
}

#[tokio::test]
async fn failures_of_the_item_store_keep_their_meaning() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    let unavailable =
        |outcome_unknown| StoreError::Unavailable { reason: "the disk is full".to_owned(), outcome_unknown };
    let internal = |outcome_unknown| StoreError::Internal { reason: "SECRET".to_owned(), outcome_unknown };
    for (error, code) in [
        (unavailable(false), "store_unavailable"),
        (unavailable(true), "store_unavailable"),
        (StoreError::TooManyTombstones { outcome_unknown: false }, "too_many_tombstones"),
        (StoreError::TooManyTombstones { outcome_unknown: true }, "too_many_tombstones"),
        (StoreError::Overloaded { reason: "busy".to_owned() }, "overloaded"),
        (StoreError::Timeout { outcome_unknown: false }, "deadline_exceeded"),
        (StoreError::Timeout { outcome_unknown: true }, "deadline_exceeded"),
        (StoreError::Refused(Invalid::argument("too large for this store")), "invalid_argument"),
        (internal(false), "internal"),
        (internal(true), "internal"),
    ] {
        *faults.items.lock().unwrap() = Some(error.clone());
        for (answer, writes) in all(&api, &[]).await {
            let body = answer.refused(code, "");
            // A read leaves nothing to be unsure of.
            assert_eq!(unsure(&body), writes && error.outcome_unknown(), "{body}");
            assert!(!answer.text().contains("SECRET"), "{body}");
        }
    }
    *faults.items.lock().unwrap() = None;
    api.get(&items("seen", "u")).await.expect(200);
}

/// Another attempt fares no better before the database has compacted the tombstones away.
#[tokio::test]
async fn too_many_tombstones_are_explained_and_not_retryable() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    *faults.items.lock().unwrap() = Some(StoreError::TooManyTombstones { outcome_unknown: false });
    for (answer, _) in all(&api, &[]).await {
        let body = answer.refused("too_many_tombstones", "");
        assert_eq!((answer.status, answer.header("retry-after")), (503, None));
        assert_eq!(body["retryable"], false);
        assert!(
            body["detail"].as_str().unwrap().starts_with("the database reached its limit of tombstones in this list"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn an_operation_that_panics_fails_alone() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    faults.panics.store(true, SeqCst);
    for (answer, writes) in all(&api, &[]).await {
        assert_eq!(unsure(&answer.refused("internal", "")), writes);
    }
    faults.panics.store(false, SeqCst);
    api.get(&items("seen", "u")).await.expect(200);
}

#[tokio::test]
async fn a_deadline_of_the_caller_is_kept() {
    let (api, faults) = faulty(&[("items.operation_timeout_ms", "60000")]).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    // Time enough for a busy machine to begin a write: before that, nothing of it is unknown.
    for (answer, writes) in all(&api, &[("liststore-timeout-ms", "3000")]).await {
        let late = answer.refused("deadline_exceeded", "");
        assert_eq!(unsure(&late), writes);
        // A read must not promise that it changed nothing.
        let is_of_read = late["detail"].as_str().unwrap().contains("before the read was complete");
        assert_eq!(is_of_read, !writes, "{late}");
    }
    // The control plane applies it too.
    let headers = [("liststore-timeout-ms", "20")];
    let path = "/v1/features/user/seen";
    let read = api.send(Method::GET, path, &headers, b"").await.refused("deadline_exceeded", "");
    let change = api.send(Method::PATCH, path, &headers, b"{\"ttl\":\"1d\"}").await.refused("deadline_exceeded", "");
    assert_eq!((unsure(&read), unsure(&change)), (false, true));
    faults.stall(false);
}

#[tokio::test]
async fn an_operation_has_a_default_deadline() {
    let (api, faults) = faulty(&[("items.operation_timeout_ms", "20")]).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    // Asking for more than there is changes nothing.
    let longer = api.send(Method::GET, &items("seen", "u"), &[("liststore-timeout-ms", "600000")], b"").await;
    longer.refused("deadline_exceeded", "");
    faults.stall(false);
}

#[tokio::test]
async fn more_operations_than_permits_are_refused_soon() {
    let given = [("items.permits_per_actor", "1"), ("items.permit_wait_ms", "10"), ("items.actors", "1")];
    let (api, faults) = faulty(&given).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    // The first retains its permit while the store works, although its caller has left. An operation that the actor
    // reaches too late is not begun, and frees its permit.
    let patience = Instant::now() + Duration::from_secs(60);
    while faults.begun.load(SeqCst) == 0 {
        assert!(Instant::now() < patience, "none is begun");
        let first = api.send(Method::GET, &items("seen", "u"), &[("liststore-timeout-ms", "50")], b"").await;
        assert!(["deadline_exceeded", "overloaded"].contains(&first.code().as_str()), "{}", first.text());
    }
    for (answer, _) in all(&api, &[]).await {
        assert!(!unsure(&answer.refused("overloaded", "")));
    }
    faults.stall(false);
    until("it is read", async || api.get(&items("seen", "u")).await.status == 200).await;
}

#[tokio::test]
async fn without_a_session_lists_are_unavailable() {
    let (mut api, faults) = faulty_from_the_start(&[], refuse_sessions).await;
    // The catalog loads without the item store.
    until("it is loaded", async || api.get("/readyz").await.json()["checks"]["catalog"] == "pass").await;
    api.feature("seen", "string", "30d").await;
    for (answer, _) in all(&api, &[]).await {
        assert!(!unsure(&answer.refused("store_unavailable", "")));
    }
    faults.allow_sessions();
    api.server.ready().await;
    api.get(&items("seen", "u")).await.expect(200);
}

#[tokio::test]
async fn without_the_metadata_store_lists_work_and_definitions_are_unavailable() {
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    let calls = [
        (Method::POST, "/v1/features", r#"{"entity_type":"user","name":"x","value_type":"string","ttl":"1d"}"#, true),
        (Method::GET, "/v1/features", "", false),
        (Method::GET, "/v1/features/user/seen", "", false),
        (Method::PATCH, "/v1/features/user/seen", r#"{"ttl":"1d"}"#, true),
        (Method::DELETE, "/v1/features/user/seen", "", true),
        (Method::GET, "/v1/features/user/seen/history", "", false),
        (Method::POST, "/v1/features/user/seen/versions", r#"{"version":"v2"}"#, true),
        (Method::GET, "/v1/features/user/seen/versions/", "", false),
        (Method::PATCH, "/v1/features/user/seen/versions/v2", r#"{"ttl":"1d"}"#, true),
        (Method::DELETE, "/v1/features/user/seen/versions/v2", "", true),
    ];
    for outcome_unknown in [false, true] {
        let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown };
        let broken = MetadataError::Internal { reason: "SECRET".to_owned(), outcome_unknown };
        for (error, code) in [(away, "metadata_unavailable"), (broken, "internal")] {
            *faults.metadata.lock().unwrap() = Some(error);
            for (method, path, body, writes) in &calls {
                let answer = api.send(method.clone(), path, &[], body.as_bytes()).await;
                assert_eq!(unsure(&answer.refused(code, "")), *writes && outcome_unknown, "{method} {path}");
                assert!(!answer.text().contains("SECRET"));
            }
        }
    }
    let damaged = MetadataError::DatabaseInconsistency { table: "features", column: "ttl", key: "SECRET".to_owned() };
    *faults.metadata.lock().unwrap() = Some(damaged);
    assert!(!api.get("/v1/features").await.refused("internal", "").to_string().contains("SECRET"));
    for (answer, _) in all(&api, &[]).await {
        assert!(answer.status < 300, "{}", answer.text());
    }
}

#[tokio::test]
async fn before_the_catalog_is_read_lists_are_unavailable() {
    let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown: false };
    let (mut api, faults) =
        faulty_from_the_start(&[], |faults| *faults.metadata.lock().unwrap() = Some(away.clone())).await;
    for (answer, _) in all(&api, &[]).await {
        assert!(!unsure(&answer.refused("metadata_unavailable", "")));
    }
    *faults.metadata.lock().unwrap() = None;
    api.server.ready().await;
    api.get(&items("seen", "u")).await.refused("feature_not_found", "");
}
