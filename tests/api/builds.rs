//! Builds of indexes while definitions change under them, cannot be read, or are set back.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use liststore::domain::index::{IndexSpec, Pointer};
use liststore::domain::{EntityType, FeatureId, VersionLabel};
use liststore::items::memory::MemoryStore;
use liststore::metadata::{Change, NewVersion};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ago, items};
use super::faults::{Event, Faults, faulty, faulty_from_the_start, faulty_with_items};
use super::sockets::until;

const INDEXES: &str = "/v1/entity-types/link/indexes";

async fn with_a_bag(api: &Api) {
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    let answer = api.send(Method::PUT, "/v1/entities/link/one", &[], br#"{"a": 1, "b": 2}"#).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// The states of all builds.
async fn builds(api: &Api) -> Vec<Value> {
    let jobs = api.get("/v1/jobs").await.expect(200);
    let of_builds = jobs["jobs"].as_array().unwrap().iter().filter(|job| job["kind"] == "build_index");
    of_builds.map(|job| job["state"].clone()).collect()
}

async fn found(api: &Api, value: u32) -> usize {
    let page = api.get(&format!("{INDEXES}/by/entities?value={value}")).await.expect(200);
    page["entities"].as_array().unwrap().len()
}

/// Otherwise the index would never be built: its job is over, and it is not ready.
#[tokio::test]
async fn a_build_continues_once_definitions_are_readable() {
    let (api, faults) = faulty(&[]).await;
    with_a_bag(&api).await;
    faults.every_other_reading.store(true, SeqCst);
    // The first of these may be the one that fails.
    let index = json!({"name": "by", "properties": ["/a"]});
    until("the index is there", async || matches!(api.post(INDEXES, index.clone()).await.status, 201 | 409)).await;
    until(
        "the build is over",
        async || matches!(&builds(&api).await[..], [state] if *state != "waiting" && *state != "running"),
    )
    .await;
    assert_eq!(builds(&api).await, ["done"]);
    faults.every_other_reading.store(false, SeqCst);
    assert_eq!(api.get(&format!("{INDEXES}/by")).await.expect(200)["state"], "ready");
    assert_eq!(found(&api, 1).await, 1);
}

/// Otherwise a query would use an index that was not built, and miss bags. The server learns of the new one only by
/// its job.
#[tokio::test]
async fn the_build_of_a_deleted_index_does_not_make_its_successor_ready() {
    let shared = |faults: &Faults| faults.shares_definitions.store(true, SeqCst);
    // The time that servers wait for each other follows from these two.
    let given = [("metadata.poll_interval_secs", "1"), ("items.operation_timeout_ms", "5000")];
    let (mut api, faults) = faulty_from_the_start(&given, shared).await;
    api.server.ready().await;
    with_a_bag(&api).await;
    let id = FeatureId::of_bags(EntityType::new("link").unwrap());
    let spec = IndexSpec::new(vec![Pointer::new("/b").unwrap()], None).unwrap();
    let new = NewVersion::index(VersionLabel::new("by").unwrap(), spec);
    *faults.created_again.lock().unwrap() = Some(Change::CreateVersion { id, new });
    api.post(INDEXES, json!({"name": "by", "properties": ["/a"]})).await.expect(201);
    until("it is created again", async || faults.created_again.lock().unwrap().is_none()).await;
    // The newest builds come first.
    until("both builds are over", async || builds(&api).await == ["done", "cancelled"]).await;
    let index = api.until_state(&format!("{INDEXES}/by"), "ready").await;
    assert_eq!(index["properties"], json!(["/b"]));
    assert_eq!((found(&api, 1).await, found(&api, 2).await), (0, 1));
}

/// A generation is given again then, and entries of the index that had it are left.
#[tokio::test]
async fn restored_shared_definitions_cause_no_wrong_matches() {
    let items = Arc::new(MemoryStore::default());
    let on_items = async |properties: Value| {
        let (mut api, faults) = faulty_with_items(&[], Arc::clone(&items), |_: &Faults| {}).await;
        api.server.ready().await;
        api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
        api.post(INDEXES, json!({"name": "by", "properties": properties})).await.expect(201);
        api.until_state(&format!("{INDEXES}/by"), "ready").await;
        (api, faults)
    };
    let (before, _) = on_items(json!(["/a"])).await;
    let bag = br#"{"a": 1, "b": 2}"#;
    assert_eq!(before.send(Method::PUT, "/v1/entities/link/one", &[], bag).await.status, 201);
    assert_eq!(found(&before, 1).await, 1);
    let (after, faults) = on_items(json!(["/b"])).await;
    faults.shares_definitions.store(true, SeqCst);
    assert_eq!((found(&after, 2).await, found(&after, 1).await), (1, 0));
}

async fn index(api: &Api) -> Value {
    api.get(&format!("{INDEXES}/by")).await.expect(200)
}

/// The path of the job that builds the index, once there is one.
async fn build_of(api: &Api) -> String {
    let mut job = String::new();
    until("the index has a job", async || match index(api).await["job_id"].as_str() {
        Some(id) => {
            job = format!("/v1/jobs/{id}");
            true
        }
        None => false,
    })
    .await;
    job
}

/// Otherwise the job of a ready index would be paused permanently.
#[tokio::test]
async fn a_pause_at_the_end_of_a_build_delays_the_job_and_its_index() {
    let (api, faults) = faulty(&[]).await;
    with_a_bag(&api).await;
    faults.finishes_held.send_replace(true);
    api.post(INDEXES, json!({"name": "by", "properties": ["/a"]})).await.expect(201);
    let job = build_of(&api).await;
    until("all is entered", async || faults.finishes_held.receiver_count() > 0).await;
    assert_eq!(api.post(&format!("{job}/pause"), json!({})).await.expect(200)["state"], "paused");
    faults.finishes_held.send_replace(false);
    until("what was entered is noted", async || index(&api).await["bags_done"] == 1).await;
    assert_eq!(index(&api).await["state"], "building");
    assert_eq!(api.get(&job).await.expect(200)["state"], "paused");
    assert_eq!(api.post(&format!("{job}/resume"), json!({})).await.expect(200)["state"], "waiting");
    api.until_state(&format!("{INDEXES}/by"), "ready").await;
    assert_eq!(api.get(&job).await.expect(200)["state"], "done");
}

#[tokio::test]
async fn an_index_with_a_cancelled_build_becomes_ready_by_a_cleaning() {
    let (api, faults) = faulty(&[]).await;
    with_a_bag(&api).await;
    faults.finishes_held.send_replace(true);
    api.post(INDEXES, json!({"name": "by", "properties": ["/a"]})).await.expect(201);
    let job = build_of(&api).await;
    assert_eq!(api.post(&format!("{job}/cancel"), json!({})).await.expect(200)["state"], "cancelled");
    assert_eq!(index(&api).await["state"], "cancelled");
    faults.finishes_held.send_replace(false);
    let clean = api.post("/v1/entity-types/link/clean", json!({"index": "by"})).await.expect(202);
    let cleaned = api.until_state(&format!("/v1/jobs/{}", clean["id"].as_str().unwrap()), "done").await;
    assert_eq!(cleaned["entries"], 1);
    assert_eq!(index(&api).await["state"], "ready");
    assert_eq!(found(&api, 1).await, 1);
    assert_eq!(api.get(&job).await.expect(200)["state"], "cancelled");
}

/// After a loss of power a note would speak of items that are not there.
#[tokio::test]
async fn items_are_durable_before_notes_about_them() {
    let (api, faults) = faulty(&[]).await;
    with_a_bag(&api).await;
    api.feature("seen", "string", "30d").await;
    for entity in 0..20 {
        api.add(&items("seen", &format!("u{entity}")), &[(ago(1), "a".into())]).await;
    }
    faults.events.lock().unwrap().clear();
    api.post(INDEXES, json!({"name": "by", "properties": ["/a"]})).await.expect(201);
    api.until_state(&format!("{INDEXES}/by"), "ready").await;
    let purge = api.post("/v1/features/user/seen/purge", json!({})).await.expect(202);
    api.until_state(&format!("/v1/jobs/{}", purge["id"].as_str().unwrap()), "done").await;
    api.delete("/v1/entities/link/one").await.expect(200);
    let events = faults.events.lock().unwrap().clone();
    let changes = events.iter().filter(|event| **event == Event::Items).count();
    assert!(changes >= 22, "{events:?}");
    // The first note of an operation follows the last fsync of the operation before.
    let mut is_durable = true;
    for event in &events {
        match event {
            Event::Items => is_durable = false,
            Event::Sync => is_durable = true,
            Event::Note => assert!(is_durable, "{events:?}"),
        }
    }
}

/// An unreadable part of the data blocks the job that reaches it, and no other job.
#[tokio::test]
async fn a_blocked_cleaning_gives_way_to_builds_and_continues_later() {
    let (api, faults) = faulty(&[]).await;
    with_a_bag(&api).await;
    api.post(INDEXES, json!({"name": "by", "properties": ["/a"]})).await.expect(201);
    api.until_state(&format!("{INDEXES}/by"), "ready").await;
    for (id, bag) in [("two", r#"{"a": 2, "b": 2}"#), ("three", r#"{"a": 3, "b": 2}"#)] {
        let answer = api.send(Method::PUT, &format!("/v1/entities/link/{id}"), &[], bag.as_bytes()).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    faults.unreadable.lock().unwrap().push("link#|by [3]".to_owned());
    let cleaning = api.post("/v1/entity-types/link/clean", json!({"index": "by"})).await.expect(202);
    let cleaning = format!("/v1/jobs/{}", cleaning["id"].as_str().unwrap());
    until("it is stuck", async || api.get(&cleaning).await.expect(200)["problem"].is_string()).await;
    api.post(INDEXES, json!({"name": "next", "properties": ["/b"]})).await.expect(201);
    api.until_state(&format!("{INDEXES}/next"), "ready").await;
    // A step that succeeds clears the problem.
    let mut stuck = Value::Null;
    until("it is stuck again", async || {
        stuck = api.get(&cleaning).await.expect(200);
        stuck["problem"].is_string()
    })
    .await;
    let problem = stuck["problem"].as_str().unwrap();
    assert!(matches!(stuck["state"].as_str(), Some("waiting" | "running")), "{stuck}");
    assert!(problem.contains("unavailable") && !problem.contains("SECRET"), "{stuck}");
    faults.unreadable.lock().unwrap().clear();
    let done = api.until_state(&cleaning, "done").await;
    assert_eq!((&done["entries"], done.get("problem")), (&json!(3), None), "each is counted once: {done}");
}
