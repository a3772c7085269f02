//! Clients that leave before they have their answer.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::client::{ago, items};
use super::faults::faulty;
use super::sockets::{PATIENCE, add_request, connect, metric, until};

#[tokio::test]
async fn work_of_a_disconnected_client_is_not_done() {
    let given = [
        ("items.actors", "1"),
        ("items.permits_per_actor", "1"),
        ("items.permit_wait_ms", "30000"),
        ("items.operation_timeout_ms", "30000"),
    ];
    let (api, faults) = faulty(&given).await;
    api.feature("seen", "string", "30d").await;
    let add = |entity_id: &str| add_request(&items("seen", entity_id), "x").into_bytes();
    faults.stall(true);
    let mut stays = connect(&api).await;
    stays.write_all(&add("stays")).await.unwrap();
    until("it is at work", async || metric(&api, "liststore_list_permits_in_use").await >= 1.0).await;
    let before = metric(&api, "liststore_http_connections").await;
    let mut goes = connect(&api).await;
    goes.write_all(&add("goes")).await.unwrap();
    until("the other is there", async || metric(&api, "liststore_http_connections").await > before).await;
    // It resets the connection. A client that only ends its side is answered.
    goes.set_zero_linger().unwrap();
    drop(goes);
    until("it is noticed to be gone", async || metric(&api, "liststore_http_connections").await <= before).await;
    faults.stall(false);
    let mut answer = [0; 15];
    timeout(PATIENCE, stays.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(api.values(&items("seen", "stays")).await, ["x"]);
    assert!(api.values(&items("seen", "goes")).await.is_empty());
}

/// The author of an erasure must be recorded in any case.
#[tokio::test]
async fn an_erasure_of_a_disconnected_client_continues_and_is_audited() {
    let (api, faults) = faulty(&[]).await;
    for feature in ["bought", "seen"] {
        api.feature(feature, "string", "30d").await;
        api.add(&items(feature, "u"), &[(ago(1), "a".into())]).await;
    }
    faults.hold_clears(true);
    let before = metric(&api, "liststore_http_connections").await;
    let mut goes = connect(&api).await;
    goes.write_all(b"DELETE /v1/entities/user/u HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    until("it is at work", async || metric(&api, "liststore_list_permits_in_use").await >= 1.0).await;
    goes.set_zero_linger().unwrap();
    drop(goes);
    until("it is noticed to be gone", async || metric(&api, "liststore_http_connections").await <= before).await;
    faults.hold_clears(false);
    let noted = async {
        loop {
            let audit = api.get("/v1/audit?action=erase_entity").await.expect(200);
            let entry = audit["changes"].as_array().unwrap().first().cloned().unwrap_or_default();
            if entry["after"]["state"] == "done" {
                return entry["after"].clone();
            }
        }
    };
    let noted = timeout(PATIENCE, noted).await.expect("the erasure is noted");
    assert_eq!(noted, json!({"state": "done", "lists_cleared": 2, "lists_not_cleared": 0, "not_cleared": []}));
    for feature in ["bought", "seen"] {
        assert!(api.values(&items(feature, "u")).await.is_empty());
    }
}
