//! Indexes of bags over HTTP: results and their order, while bags and indexes come and go.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use liststore::app::Stores;
use liststore::background::job_of;
use liststore::domain::index::{IndexSpec, Pointer};
use liststore::domain::{Author, EntityType, FeatureId, JobId, ManualClock, Timestamp, VersionLabel};
use liststore::items::memory::MemoryStore;
use liststore::metadata::jobs::{Job, JobState, Target, Task, TaskKind};
use liststore::metadata::memory::memory_store;
use liststore::metadata::{Calls, ChangeContext, JobStore, NewVersion};
use prometheus::Registry;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, api_with};
use super::purges::{is_on_disk, until};
use super::support::{settings, spawn_server, spawn_with};

/// A server whose stores support bags, with the entity type `link`.
async fn api() -> Api {
    let api = in_memory().await;
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    api
}

pub async fn in_memory() -> Api {
    api_with(&[("items.store", "memory"), ("metadata.store", "memory")]).await
}

pub async fn in_files(dir: &Path) -> Api {
    let path = dir.to_str().unwrap();
    let given = [("items.store", "embedded"), ("metadata.store", "embedded"), ("items.embedded.dir", path)];
    Api::of(spawn_server(settings(&given)).await).await
}

async fn put(api: &Api, id: &str, bag: &Value) -> Answer {
    let path = format!("/v1/entities/link/{id}");
    let answer = api.send(Method::PUT, &path, &[], bag.to_string().as_bytes()).await;
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    answer
}

async fn create(api: &Api, index: Value) -> Value {
    api.post("/v1/entity-types/link/indexes", index).await.expect(201)
}

async fn until_ready(api: &Api, index: &str) -> Value {
    api.until_state(&format!("/v1/entity-types/link/indexes/{index}"), "ready").await
}

/// The IDs of all bags that a query finds, page by page.
async fn found(api: &Api, index: &str, query: &str) -> Vec<String> {
    let (mut ids, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/entity-types/link/indexes/{index}/entities?{query}{token}");
        let page = api.get(&path).await.expect(200);
        ids.extend(
            page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].as_str().unwrap().to_owned()),
        );
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => return ids,
        }
    }
}

fn refused(answer: &Answer, status: u16, code: &str, field: Option<&str>) {
    let body = answer.json();
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
    assert_eq!(body.get("field").and_then(Value::as_str), field, "{}", answer.text());
}

#[tokio::test]
async fn the_values_of_a_find_may_be_in_a_body() {
    let api = api().await;
    create(&api, json!({"name": "by_user", "properties": ["/user_id"], "order_by": "/score"})).await;
    for (id, score) in [("l-1", 1), ("l-2", 2), ("l-3", 3)] {
        put(&api, id, &json!({"user_id": "a b+c", "score": score})).await;
    }
    until_ready(&api, "by_user").await;
    let path = "/v1/entity-types/link/indexes/by_user/entities:find";
    let ids = |page: &Value| -> Vec<String> {
        page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].as_str().unwrap().to_owned()).collect()
    };
    let page = api.post(path, json!({"values": ["a b+c"], "limit": 2})).await.expect(200);
    assert_eq!(ids(&page), ["l-3", "l-2"]);
    let token = &page["next_page_token"];
    let rest = api.post(path, json!({"values": ["a b+c"], "limit": 2, "page_token": token})).await.expect(200);
    assert_eq!((ids(&rest), rest.get("next_page_token")), (vec!["l-1".to_owned()], None));
    let bounds = json!({"values": ["a b+c"], "min": 2, "max": "2.5", "order": "oldest"});
    assert_eq!(ids(&api.post(path, bounds).await.expect(200)), ["l-2"]);
    // Too long for a URL.
    let long = json!({"values": ["x".repeat(20_000)]});
    assert_eq!(ids(&api.post(path, long).await.expect(200)), [""; 0]);
    for (body, field) in [
        (json!({}), "values"),
        (json!({"values": []}), "values"),
        (json!({"values": ["a", "b"]}), "values"),
        (json!({"values": [{}]}), "values"),
        (json!({"values": ["a"], "min": true}), "min"),
        (json!({"values": ["a"], "order": "up"}), "order"),
        (json!({"values": ["a"], "limit": 1001}), "limit"),
        (json!({"values": ["a"], "value": "a"}), "value"),
    ] {
        api.post(path, body).await.refused("invalid_argument", field);
    }
}

#[tokio::test]
async fn the_audit_trail_calls_an_index_an_index() {
    let api = api().await;
    let made = create(&api, json!({"name": "by_user", "properties": ["/user_id"], "order_by": "/published"})).await;
    until_ready(&api, "by_user").await;
    api.delete("/v1/entity-types/link/indexes/by_user").await;
    let history = api.get("/v1/entity-types/link/history").await.expect(200);
    let audit = api.get("/v1/audit?target=link").await.expect(200);
    for entries in [&history["history"], &audit["changes"]] {
        let of_index: Vec<_> =
            entries.as_array().unwrap().iter().filter(|entry| entry.get("index").is_some()).collect();
        let actions: Vec<_> = of_index.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["delete_index", "update_index", "create_index"], "{entries}");
        for entry in of_index {
            assert_eq!((&entry["index"], entry.get("version")), (&json!("by_user"), None), "{entry}");
        }
        let created = &entries[2]["after"];
        for member in ["name", "properties", "order_by", "state", "created_at"] {
            assert_eq!(created[member], made[member], "{member}: {created}");
        }
        assert_eq!((&entries[1]["after"]["state"], &entries[0]["before"]["state"]), (&json!("ready"), &json!("ready")));
    }
    let only = api.get("/v1/audit?action=create_index").await.expect(200);
    assert_eq!(only["changes"].as_array().unwrap().len(), 1, "{only}");
}

/// The entity of B. Taylor's article, its two indexes, and a third one while links are written.
#[tokio::test]
async fn links_are_found_by_user_tag_and_later_indexes() {
    let api = api().await;
    let by_user = json!({"name": "by_user", "properties": ["/user_id"], "order_by": "/published"});
    let made = api.post("/v1/entity-types/link/indexes", by_user.clone()).await;
    assert_eq!(made.header("location"), Some("/v1/entity-types/link/indexes/by_user"));
    assert_eq!(made.expect(201)["state"], "building");
    create(&api, json!({"name": "by_tag", "properties": ["/tags"], "order_by": "/published"})).await;
    let link = |user: u32, tags: &[&str], minute: u32| json!({"user_id": user, "tags": tags, "title": "a title", "published": format!("2024-08-29T16:{minute:02}:00Z")});
    put(&api, "l-1", &link(7, &["rust", "db"], 1)).await;
    put(&api, "l-2", &link(7, &["db"], 3)).await;
    put(&api, "l-3", &link(8, &["rust"], 2)).await;
    until_ready(&api, "by_user").await;
    until_ready(&api, "by_tag").await;
    assert_eq!(found(&api, "by_user", "value=7").await, ["l-2", "l-1"]);
    assert_eq!(found(&api, "by_user", "value=7&order=oldest&limit=1").await, ["l-1", "l-2"]);
    assert_eq!(found(&api, "by_tag", "value=%22rust%22").await, ["l-3", "l-1"]);
    assert_eq!(found(&api, "by_tag", "value=%22rust%22&min=2024-08-29T16:02:00Z").await, ["l-3"]);
    assert_eq!(found(&api, "by_tag", "value=%22rust%22&max=2024-08-29T16:01:59.9Z").await, ["l-1"]);
    assert_eq!(found(&api, "by_user", "value=%227%22").await, [""; 0], "a string is no number");
    let page = api.get("/v1/entity-types/link/indexes/by_user/entities?value=8").await.expect(200);
    let bag = &page["entities"][0];
    assert_eq!((&bag["entity_type"], &bag["entity_id"]), (&json!("link"), &json!("l-3")));
    assert_eq!(bag["properties"], link(8, &["rust"], 2));

    let writing = join_all((0..300).map(|number| {
        let (api, bag) = (&api, link(number % 5, &["rust"], number % 60));
        async move { put(api, &format!("n-{number}"), &bag).await }
    }));
    let creating = async {
        let both = json!({"name": "by_both", "properties": ["/tags", "/user_id"]});
        create(&api, both).await;
        until_ready(&api, "by_both").await
    };
    let (_, ready) = tokio::join!(writing, creating);
    assert_eq!(ready["properties"], json!(["/tags", "/user_id"]));
    let mut ids = found(&api, "by_both", "value=%22rust%22&value=3&limit=7").await;
    ids.sort();
    let mut expected: Vec<_> = (0..300).filter(|number| number % 5 == 3).map(|number| format!("n-{number}")).collect();
    expected.sort();
    assert_eq!(ids, expected);

    assert_eq!(api.delete("/v1/entity-types/link/indexes/by_user").await.status, 204);
    let gone = api.get("/v1/entity-types/link/indexes/by_user/entities?value=7").await;
    refused(&gone, 404, "index_not_found", None);
    create(&api, by_user).await;
    until_ready(&api, "by_user").await;
    assert_eq!(found(&api, "by_user", "value=7").await, ["l-2", "l-1"]);
    let listed = api.get("/v1/entity-types/link/indexes").await.expect(200);
    let names: Vec<_> = listed["indexes"].as_array().unwrap().iter().map(|index| index["name"].as_str()).collect();
    assert_eq!(names[..3], [Some("by_both"), Some("by_tag"), Some("by_user")]);
}

/// Short documents, long ones, and ones too long for memory: each equals a separate get.
#[tokio::test]
async fn found_bags_equal_the_single_bags() {
    let dir = tempfile::tempdir().unwrap();
    let api = in_files(dir.path()).await;
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    create(&api, json!({"name": "by", "properties": ["/a"]})).await;
    let names = ["plain", "%22quoted%22", "back%5Cslash", "%C3%A9t%C3%A9", "tab%09"];
    let mut written = Vec::new();
    for (number, bytes) in [0, 10, 900, 1_010, 1_030, 5_000, 70_000, 200_000, 1, 2].into_iter().enumerate() {
        let name = format!("{}-{number}", names[number % names.len()]);
        put(&api, &name, &json!({"a": "x", "text": "y".repeat(bytes), "number": number})).await;
        written.push(name);
    }
    put(&api, "another", &json!({"a": "z"})).await;
    // Read once more, where all is in memory that can be.
    for _ in 0..2 {
        let page = api.get("/v1/entity-types/link/indexes/by/entities?value=%22x%22").await.expect(200);
        let bags = page["entities"].as_array().unwrap();
        assert_eq!(bags.len(), written.len());
        for (bag, name) in bags.iter().zip(written.iter().rev()) {
            let alone = api.get(&format!("/v1/entities/link/{name}")).await;
            assert_eq!(bag["etag"].as_str(), alone.header("etag"));
            assert_eq!(*bag, alone.expect(200), "{name}");
        }
    }
    api.delete(&format!("/v1/entities/link/{}/bag", written[3])).await;
    assert_eq!(found(&api, "by", "value=%22x%22").await.len(), written.len() - 1);
}

#[tokio::test]
async fn former_properties_do_not_find_a_bag() {
    let api = api().await;
    create(&api, json!({"name": "by", "properties": ["/a"]})).await;
    put(&api, "one", &json!({"a": [1, 2, "x", null, true, 1.0]})).await;
    put(&api, "two", &json!({"a": 2.00})).await;
    assert_eq!(found(&api, "by", "value=2").await, ["two", "one"]);
    assert_eq!(found(&api, "by", "value=null").await, ["one"]);
    let path = "/v1/entities/link/one";
    let merge = [("content-type", "application/merge-patch+json")];
    api.send(Method::PATCH, path, &merge, br#"{"a": 3}"#).await.expect(200);
    assert_eq!(found(&api, "by", "value=2").await, ["two"]);
    assert_eq!(found(&api, "by", "value=3.0").await, ["one"]);
    // Updated again, it comes first.
    put(&api, "two", &json!({"a": 3, "b": 1})).await;
    assert_eq!(found(&api, "by", "value=3").await, ["two", "one"]);
    assert_eq!(found(&api, "by", "value=3&order=oldest").await, ["one", "two"]);
    assert_eq!(api.delete(&format!("{path}/bag")).await.status, 204);
    assert_eq!(found(&api, "by", "value=3").await, ["two"]);
    put(&api, "one", &json!({"b": 3})).await;
    assert_eq!(found(&api, "by", "value=3").await, ["two"]);
}

#[tokio::test]
async fn an_entity_type_created_again_finds_none_of_the_old_bags() {
    let api = api().await;
    create(&api, json!({"name": "by", "properties": ["/a"]})).await;
    put(&api, "one", &json!({"a": 1})).await;
    api.delete("/v1/entity-types/link").await.expect(200);
    refused(&api.get("/v1/entity-types/link/indexes").await, 404, "entity_type_not_found", None);
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    create(&api, json!({"name": "by", "properties": ["/a"]})).await;
    until_ready(&api, "by").await;
    assert_eq!(found(&api, "by", "value=1").await, [""; 0]);
}

#[tokio::test]
async fn bad_indexes_and_queries_are_refused_with_the_fault() {
    let api = api().await;
    let path = "/v1/entity-types/link/indexes";
    for (body, field) in [
        (json!({"properties": ["/a"]}), "name"),
        (json!({"name": "", "properties": ["/a"]}), "name"),
        (json!({"name": "a b", "properties": ["/a"]}), "name"),
        (json!({"name": "x"}), "properties"),
        (json!({"name": "x", "properties": []}), "properties"),
        (json!({"name": "x", "properties": "/a"}), "properties"),
        (json!({"name": "x", "properties": ["/a", "/a"]}), "properties"),
        (json!({"name": "x", "properties": ["/a", "a"]}), "properties[1]"),
        (json!({"name": "x", "properties": ["/a~2"]}), "properties[0]"),
        (json!({"name": "x", "properties": vec!["/a"; 9]}), "properties"),
        (json!({"name": "x", "properties": ["/a"], "order_by": "b"}), "order_by"),
        (json!({"name": "x", "properties": ["/a"], "unique": true}), "unique"),
    ] {
        refused(&api.post(path, body).await, 400, "invalid_argument", Some(field));
    }
    create(&api, json!({"name": "by", "properties": ["/a", "/b"], "order_by": "/c"})).await;
    let again = json!({"name": "by", "properties": ["/a"]});
    refused(&api.post(path, again).await, 409, "index_exists", None);
    let elsewhere = json!({"name": "by", "properties": ["/a"]});
    refused(&api.post("/v1/entity-types/other/indexes", elsewhere).await, 404, "entity_type_not_found", None);
    for (query, field) in [
        ("", "value"),
        ("value=1", "value"),
        ("value=1&value=2&value=3", "value"),
        ("value=1&value=GB", "value"),
        ("value=1&value=%5B1%5D", "value"),
        ("value=1&value=2&min=x", "min"),
        ("value=1&value=2&max=2024-08-29", "max"),
        ("value=1&value=2&order=up", "order"),
        ("value=1&value=2&limit=0", "limit"),
        ("value=1&value=2&limit=1001", "limit"),
        ("value=1&value=2&page_size=1", "page_size"),
    ] {
        let answer = api.get(&format!("{path}/by/entities?{query}")).await;
        refused(&answer, 400, "invalid_argument", Some(field));
    }
    // An offset whose plus became a space.
    let at = |plus: &str| format!("2024-08-29T18:44:05{plus}02:00");
    create(&api, json!({"name": "by_update", "properties": ["/a"]})).await;
    until_ready(&api, "by_update").await;
    for index in ["by", "by_update"] {
        let values = if index == "by" { "value=1&value=2" } else { "value=1" };
        for bound in ["min", "max"] {
            let asked = async |text: &str| api.get(&format!("{path}/{index}/entities?{values}&{bound}={text}")).await;
            asked(&at("%2B")).await.expect(200);
            for (text, hints) in [(at("+"), true), (at("%20"), true), ("x".to_owned(), false)] {
                let answer = asked(&text).await;
                assert_eq!(answer.json()["field"], bound, "{}", answer.text());
                let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                assert_eq!(detail.contains("%2B"), hints, "{index} {text}: {detail}");
            }
        }
    }
    let detail = api.get(&format!("{path}/by_update/entities?value=1e+5")).await.json()["detail"].to_string();
    assert!(detail.contains("%2B"), "{detail}");
    refused(&api.get(&format!("{path}/none/entities?value=1")).await, 404, "index_not_found", None);
    refused(&api.get(&format!("{path}/none")).await, 404, "index_not_found", None);
    refused(&api.delete(&format!("{path}/none")).await, 404, "index_not_found", None);
    put(&api, "one", &json!({"a": 1, "b": 2, "c": 3})).await;
    put(&api, "two", &json!({"a": 1, "b": 2, "c": 3})).await;
    let page = api.get(&format!("{path}/by/entities?value=1&value=2&limit=1")).await.expect(200);
    let token = page["next_page_token"].as_str().unwrap();
    let elsewhere = api.get(&format!("{path}/by/entities?value=1&value=3&limit=1&page_token={token}")).await;
    refused(&elsewhere, 400, "invalid_page_token", Some("page_token"));
}

#[tokio::test]
async fn a_bag_with_too_many_values_is_refused_or_omitted() {
    let api = api().await;
    let many = json!({"a": (0..1_001).collect::<Vec<_>>()});
    put(&api, "before", &many).await;
    put(&api, "few", &json!({"a": [5]})).await;
    create(&api, json!({"name": "by", "properties": ["/a"]})).await;
    until_ready(&api, "by").await;
    assert_eq!(found(&api, "by", "value=5").await, ["few"]);
    let refusal = api.send(Method::PUT, "/v1/entities/link/after", &[], many.to_string().as_bytes()).await;
    refused(&refusal, 422, "too_many_entries", None);
    refused(&api.get("/v1/entities/link/after").await, 404, "bag_not_found", None);
    // Older bags may be repaired, and are found then.
    put(&api, "before", &json!({"a": (0..1_000).collect::<Vec<_>>()})).await;
    assert_eq!(found(&api, "by", "value=5").await, ["before", "few"]);
}

#[tokio::test]
async fn a_purge_of_bags_empties_indexes_and_spares_later_bags() {
    let dir = tempfile::tempdir().unwrap();
    let api = in_files(dir.path()).await;
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    create(&api, json!({"name": "by", "properties": ["/a"]})).await;
    let marker = "an-entity-that-nobody-else-is";
    for number in 0..50 {
        put(&api, &format!("{marker}-{number}"), &json!({"a": 1})).await;
    }
    assert!(is_on_disk(dir.path(), marker));
    let job = api.post("/v1/entity-types/link/purge", json!({})).await.expect(202);
    let later = json!({"a": 2});
    let (_, done) = tokio::join!(put(&api, "later", &later), until(&api, job["id"].as_str().unwrap(), "done"));
    assert!(done["lists_cleared"].as_u64() >= Some(50) && done["bytes_erased"] == true, "{done}");
    assert_eq!(found(&api, "by", "value=1").await, [""; 0]);
    assert!(!is_on_disk(dir.path(), marker));
    put(&api, "latest", &json!({"a": 1})).await;
    assert_eq!(found(&api, "by", "value=1").await, ["latest"]);
}

/// A shorter TTL hides bags, and a longer one shows them again.
#[tokio::test]
async fn an_index_that_is_built_while_a_shorter_ttl_hides_bags_has_them() {
    let at = |secs: u64| Timestamp::from_nanos(secs * 1_000_000_000).unwrap();
    let clock = Arc::new(ManualClock::at(at(1_700_000_000)));
    let (items, metadata) = (Arc::new(MemoryStore::default()), Arc::new(memory_store()));
    let stores = Stores { items, metadata, registry: Registry::new(), data_dir: None };
    let mut server = spawn_with(settings(&[]), Arc::clone(&clock) as _, stores).await;
    server.ready().await;
    let api = Api::of(server).await;
    let id = "/v1/entity-types/link";
    api.post("/v1/entity-types", json!({"entity_type": "link", "ttl": "30d"})).await.expect(201);
    for bag in 0..5 {
        put(&api, &format!("b{bag}"), &json!({"a": 1})).await;
    }
    create(&api, json!({"name": "before", "properties": ["/a"]})).await;
    until_ready(&api, "before").await;
    clock.set(at(1_700_003_600));
    api.patch(id, json!({"ttl": "60s"})).await.expect(200);
    create(&api, json!({"name": "meanwhile", "properties": ["/a"]})).await;
    until_ready(&api, "meanwhile").await;
    assert!(found(&api, "meanwhile", "value=1").await.is_empty());
    let clean = api.post(&format!("{id}/clean"), json!({})).await.expect(202);
    until(&api, clean["id"].as_str().unwrap(), "done").await;
    api.patch(id, json!({"ttl": "30d"})).await.expect(200);
    for index in ["before", "meanwhile"] {
        assert_eq!(found(&api, index, "value=1").await.len(), 5, "{index}");
    }
}

/// As earlier releases left them where a pause came at the end of a build, and as backups of theirs have them.
#[tokio::test]
async fn a_start_corrects_disagreeing_builds_and_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let api = in_files(dir.path()).await;
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    put(&api, "one", &json!({"a": 1})).await;
    create(&api, json!({"name": "ready", "properties": ["/a"]})).await;
    until_ready(&api, "ready").await;
    drop(api);
    let label = |text: &str| VersionLabel::new(text).unwrap();
    let context = || ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
    let (built, gone) = {
        let store = liststore::metadata::embedded::open(dir.path()).unwrap();
        let bags = FeatureId::of_bags(EntityType::new("link").unwrap());
        let built = store.jobs().await.unwrap().pop().unwrap();
        let paused = Job { number: built.number + 1, state: JobState::Paused, ..built.clone() };
        let spec = IndexSpec::new(vec![Pointer::new("/a").unwrap()], None).unwrap();
        let late = NewVersion::index(label("late"), spec);
        let late = store.create_version(&bags, late, context()).await.unwrap().version;
        let task = |version, generation| {
            let targets = vec![Target { version, generation }];
            Task { kind: TaskKind::BuildIndex, feature: bags.clone(), targets, lists_per_second: None }
        };
        let done = Job::new(job_of(&bags, &late), task(label("late"), late.generation), context());
        let gone = Job::new(JobId::new(7), task(label("gone"), late.generation), context());
        let done = Job { state: JobState::Done, ..done };
        let gone = Job { state: JobState::Paused, ..gone };
        for job in [&paused, &done, &gone] {
            assert!(store.put_job(job).await.unwrap());
        }
        (built.id.to_string(), gone.id.to_string())
    };
    let api = in_files(dir.path()).await;
    until_ready(&api, "late").await;
    assert_eq!(found(&api, "late", "value=1").await, ["one"]);
    until(&api, &built, "done").await;
    until(&api, &gone, "cancelled").await;
}
