//! Purges: jobs that clear all lists of a feature, and leave no byte of them in the files.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Api, ago, api, items};
use super::sockets;
use super::support::{settings, spawn_server};

const MARKER: &str = "a-value-that-nobody-else-has";

/// Whether any file below a directory holds a marker.
pub(super) fn is_on_disk(dir: &Path, marker: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_on_disk(&path, marker);
        }
        // A file that is renamed or removed since is read under its other name, or is missing.
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
    })
}

async fn server_in(dir: &Path) -> Api {
    let path = dir.to_str().unwrap();
    let given = [("items.store", "embedded"), ("metadata.store", "embedded"), ("items.embedded.dir", path)];
    Api::of(spawn_server(settings(&given)).await).await
}

async fn fill(api: &Api, feature: &str, lists: usize) {
    for list in 0..lists {
        api.add(&items(feature, &format!("u{list}")), &[(ago(1), format!("{MARKER}-{list}").into())]).await;
    }
}

async fn purge(api: &Api, feature: &str, body: Value) -> String {
    let job = api.post(&format!("/v1/features/user/{feature}/purge"), body).await.expect(202);
    job["id"].as_str().unwrap().to_owned()
}

pub(super) async fn until(api: &Api, id: &str, state: &str) -> Value {
    api.until_state(&format!("/v1/jobs/{id}"), state).await
}

#[tokio::test]
async fn purged_data_is_removed_and_all_other_data_stays() {
    let dir = tempfile::tempdir().unwrap();
    let api = server_in(dir.path()).await;
    api.feature("seen", "string", "30d").await;
    api.feature("bought", "string", "30d").await;
    fill(&api, "seen", 150).await;
    api.delete("/v1/features/user/seen").await.expect(200);
    api.feature("seen", "string", "30d").await;
    fill(&api, "seen", 120).await;
    api.add(&items("bought", "u0"), &[(ago(1), "kept".into())]).await;
    assert!(is_on_disk(dir.path(), MARKER));

    let id = purge(&api, "seen", json!({})).await;
    let job = until(&api, &id, "done").await;
    assert_eq!((&job["generations"], &job["generations_cleared"]), (&json!(2), &json!(2)));
    assert_eq!((&job["lists_cleared"], &job["bytes_erased"]), (&json!(270), &json!(true)));
    assert!(!is_on_disk(dir.path(), MARKER), "the values are in the files yet");
    assert!(api.values(&items("seen", "u3")).await.is_empty());
    assert_eq!(api.values(&items("bought", "u0")).await, ["kept"]);
    let audit = api.get("/v1/audit?action=purge").await.expect(200);
    assert_eq!(
        (&audit["changes"][0]["target"], &audit["changes"][0]["after"]["job"]),
        (&json!("user.seen"), &json!(id))
    );
    // The feature continues, and so do its stored items.
    api.add(&items("seen", "u3"), &[(ago(1), "new".into())]).await;
    drop(api);
    let api = server_in(dir.path()).await;
    assert_eq!(api.values(&items("seen", "u3")).await, ["new"]);
    assert_eq!(api.values(&items("bought", "u0")).await, ["kept"]);
}

#[tokio::test]
async fn a_purge_of_deleted_generations_spares_the_present_one() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    fill(&api, "seen", 3).await;
    api.delete("/v1/features/user/seen").await.expect(200);
    api.feature("seen", "string", "30d").await;
    fill(&api, "seen", 2).await;
    let id = purge(&api, "seen", json!({"deleted_only": true})).await;
    let job = until(&api, &id, "done").await;
    assert_eq!((&job["generations"], &job["lists_cleared"]), (&json!(1), &json!(3)));
    assert_eq!(api.values(&items("seen", "u0")).await.len(), 1);
}

#[tokio::test]
async fn a_paused_purge_continues_after_a_restart_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let api = server_in(dir.path()).await;
    api.feature("seen", "string", "30d").await;
    fill(&api, "seen", 60).await;
    let id = purge(&api, "seen", json!({"lists_per_second": 4})).await;
    let paused = api.post(&format!("/v1/jobs/{id}/pause"), json!({})).await.expect(200);
    assert_eq!(paused["state"], "paused");
    drop(api);
    let api = server_in(dir.path()).await;
    assert_eq!(api.get("/v1/jobs").await.expect(200)["jobs"][0]["state"], "paused");
    assert!(is_on_disk(dir.path(), MARKER));
    assert_eq!(api.post(&format!("/v1/jobs/{id}/resume"), json!({})).await.expect(200)["state"], "waiting");
    until(&api, &id, "running").await;
    // Interrupted in its middle, it continues automatically.
    drop(api);
    let api = server_in(dir.path()).await;
    api.patch(&format!("/v1/jobs/{id}"), json!({"lists_per_second": null})).await.expect(200);
    let done = until(&api, &id, "done").await;
    assert_eq!(done["bytes_erased"], true);
    assert!(!is_on_disk(dir.path(), MARKER));
    let over = api.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await;
    assert_eq!((over.status, &over.json()["code"]), (409, &json!("job_is_over")));
}

/// Paused jobs of callers block no index.
#[tokio::test]
async fn indexes_are_built_and_dropped_next_to_many_paused_purges() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    // Too many to be cleared while purges are paused.
    fill(&api, "seen", 200).await;
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    let indexes = "/v1/entity-types/link/indexes";
    api.post(indexes, json!({"name": "there", "properties": ["/a"]})).await.expect(201);
    api.until_state(&format!("{indexes}/there"), "ready").await;
    let mut paused = Vec::new();
    while paused.len() < 101 {
        let id = purge(&api, "seen", json!({"lists_per_second": 1})).await;
        // It may be done already.
        if api.post(&format!("/v1/jobs/{id}/pause"), json!({})).await.status == 200 {
            paused.push(id);
        }
    }
    assert_eq!(api.delete(&format!("{indexes}/there")).await.status, 204);
    api.post(indexes, json!({"name": "late", "properties": ["/a"]})).await.expect(201);
    api.until_state(&format!("{indexes}/late"), "ready").await;
    let patience = Instant::now() + Duration::from_secs(120);
    while api.get(&format!("{indexes}/there")).await.status == 200 {
        assert!(Instant::now() < patience, "the index is not dropped");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    api.patch(&format!("/v1/jobs/{}", paused[50]), json!({"lists_per_second": null})).await.expect(200);
    api.post(&format!("/v1/jobs/{}/resume", paused[50]), json!({})).await.expect(200);
    until(&api, &paused[50], "done").await;
}

/// 100 of them wait at most. The next one is refused with nothing done.
#[tokio::test]
async fn waiting_purges_are_bounded() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    fill(&api, "seen", 200).await;
    let mut waiting = Vec::new();
    let refused = loop {
        let answer = api.post("/v1/features/user/seen/purge", json!({"lists_per_second": 1})).await;
        if answer.status != 202 {
            break answer;
        }
        waiting.push(answer.json()["id"].as_str().unwrap().to_owned());
        assert!(waiting.len() <= 100);
    };
    assert_eq!((refused.status, refused.code().as_str(), waiting.len()), (409, "too_many_jobs", 100));
    let (mut listed, mut token) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/v1/jobs?page_size=30{token}")).await.expect(200);
        let jobs = page["jobs"].as_array().unwrap();
        listed.extend(jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        assert_eq!(jobs.len(), if listed.len() == 100 { 10 } else { 30 });
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert!(listed.iter().eq(waiting.iter().rev()), "the newest first, each once");
    assert!(api.get("/v1/jobs").await.expect(200).get("next_page_token").is_none());
    api.get("/v1/jobs?page_size=0").await.refused("invalid_argument", "page_size");
    api.get("/v1/jobs?page_token=AQ").await.refused("invalid_page_token", "page_token");
    let noted = api.get("/v1/audit?action=purge&page_size=1000").await.expect(200);
    assert_eq!(noted["changes"].as_array().unwrap().len(), 100);
    api.post(&format!("/v1/jobs/{}/pause", waiting[50]), json!({})).await.expect(200);
    purge(&api, "seen", json!({"lists_per_second": 1})).await;
}

/// Work between the last stored state of the job and the command counts, too.
#[tokio::test]
async fn a_paused_or_cancelled_purge_counts_every_list_that_it_cleared() {
    const LISTS: usize = 2_000;
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let request = |n: usize| {
        let items = json!([{"timestamp": ago(1), "value": "x"}]);
        json!({"entity_type": "user", "feature": "seen", "entity_id": format!("u{n}"), "items": items})
    };
    let all: Vec<_> = (0..LISTS).map(request).collect();
    for requests in all.chunks(100) {
        api.post("/v1/lists:batchAdd", json!({ "requests": requests })).await.expect(200);
    }
    let left = async || {
        let path = |token: &str| format!("/v1/features/user/seen/entities?page_size=1000{token}");
        let (mut count, mut token) = (0, String::new());
        loop {
            let page = api.get(&path(&token)).await.expect(200);
            count += page["entities"].as_array().unwrap().len();
            match page["next_page_token"].as_str() {
                Some(next) => token = format!("&page_token={next}"),
                None => return count,
            }
        }
    };
    let id = purge(&api, "seen", json!({"lists_per_second": 100})).await;
    let job = format!("/v1/jobs/{id}");
    let cleared = async || usize::try_from(api.get(&job).await.expect(200)["lists_cleared"].as_u64().unwrap()).unwrap();
    for command in ["pause", "resume", "cancel"] {
        let before = cleared().await;
        if command != "resume" {
            sockets::until("it goes on", async || cleared().await > before).await;
        }
        api.post(&format!("{job}/{command}"), json!({})).await.expect(200);
        if command != "resume" {
            sockets::until("all that was cleared is reported", async || LISTS - left().await == cleared().await).await;
            assert!(left().await > 0, "the purge ended before the command");
        }
    }
}

#[tokio::test]
async fn a_purge_is_cancelled_and_wrong_commands_are_refused() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    fill(&api, "seen", 60).await;
    let id = purge(&api, "seen", json!({"lists_per_second": 1, "version": ""})).await;
    for _ in 0..2 {
        assert_eq!(api.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await.expect(200)["state"], "cancelled");
    }
    assert!(!api.values(&items("seen", "u0")).await.is_empty() || !api.values(&items("seen", "u59")).await.is_empty());
    let of = |name: &str| format!("/v1/features/user/{name}/purge");
    assert_eq!(api.post(&of("never"), json!({})).await.json()["code"], "feature_not_found");
    assert_eq!(api.post(&of("seen"), json!({"version": "v"})).await.json()["code"], "version_not_found");
    api.post(&of("seen"), json!({"lists_per_second": 0})).await.refused("invalid_argument", "lists_per_second");
    api.post(&of("seen"), json!({"deleted_only": 1})).await.refused("invalid_argument", "deleted_only");
    api.post(&of("seen"), json!({"version": 7})).await.refused("invalid_argument", "version");
    api.get("/v1/jobs/7").await.refused("invalid_argument", "job_id");
    let unknown = api.get(&format!("/v1/jobs/{}", "0".repeat(32))).await;
    assert_eq!((unknown.status, &unknown.json()["code"]), (404, &json!("job_not_found")));
}
