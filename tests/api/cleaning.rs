//! Entries of indexes that do not match their bags, and their repair.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use liststore::app::Stores;
use liststore::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, Generation, ListKey, NewItem, SystemClock, Timestamp, Ttl,
    VersionLabel,
};
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore};
use liststore::items::memory::MemoryStore;
use liststore::items::{BagAfter, BagSwap, EntryChange, ItemSession, ItemStore, OpContext, Range, Swapped};
use liststore::metadata::memory::memory_store;
use prometheus::Registry;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::Api;
use super::keys;
use super::purges::until;
use super::sockets;
use super::support::{settings, spawn_with};

const INDEXES: &str = "/v1/entity-types/link/indexes";

/// A server, and a way to change entries without it.
struct Broken {
    api: Api,
    session: Rc<dyn ItemSession>,
}

async fn on(store: Arc<dyn ItemStore>) -> Broken {
    let stores = Stores {
        items: Arc::clone(&store),
        metadata: Arc::new(memory_store()),
        registry: Registry::new(),
        data_dir: None,
    };
    let mut server = spawn_with(settings(&[]), Arc::new(SystemClock), stores).await;
    server.ready().await;
    let api = Api::of(server).await;
    api.post("/v1/entity-types", json!({"entity_type": "link"})).await.expect(201);
    let index = json!({"name": "by", "properties": ["/a"], "order_by": "/at"});
    api.post(INDEXES, index).await.expect(201);
    api.until_state(&format!("{INDEXES}/by"), "ready").await;
    Broken { api, session: store.open_session().await.unwrap() }
}

fn entries(values: &str) -> ListKey {
    let id = FeatureId::of_bags(EntityType::new("link").unwrap());
    let key = FeatureKey::new(&id, &VersionLabel::new("by").unwrap(), Generation::FIRST);
    ListKey::new(key, EntityId::new(values).unwrap())
}

fn endless() -> OpContext {
    OpContext::new(liststore::domain::Clock::now(&SystemClock), Ttl::ENDLESS, Instant::now() + Duration::from_secs(20))
}

impl Broken {
    async fn put(&self, id: &str, bag: Value) {
        let (path, body) = (format!("/v1/entities/link/{id}"), bag.to_string());
        let answer = self.api.send(Method::PUT, &path, &[], body.as_bytes()).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    }

    /// The places and entities of a list of entries.
    async fn stored(&self, values: &str) -> Vec<(Timestamp, String)> {
        let range = Range {
            min_timestamp: Timestamp::MIN,
            max_timestamp: Timestamp::MAX,
            after: None,
            limit: 100,
            value_bytes_max: usize::MAX,
            order: liststore::domain::Order::Newest,
        };
        let page = self.session.get(&endless(), &entries(values), &range).await.unwrap();
        page.items.into_iter().map(|e| (e.timestamp, String::from_utf8(e.value.to_vec()).unwrap())).collect()
    }

    async fn enter(&self, values: &str, place: Timestamp, id: &str) {
        let expires_at = Ttl::MAX.expiry_of(endless().now);
        let entry = NewItem { timestamp: place, value: id.to_owned().into(), expires_at };
        self.session.add(&endless(), &entries(values), vec![entry]).await.unwrap();
    }

    async fn found(&self, value: &str) -> Vec<String> {
        let page = self.api.get(&format!("{INDEXES}/by/entities?value={value}")).await.expect(200);
        page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].as_str().unwrap().to_owned()).collect()
    }

    /// How many entries were removed.
    async fn removed(&self) -> u64 {
        sockets::metric(&self.api, "liststore_cleaner_repairs_total{kind=\"entry\"}").await as u64
    }

    async fn until_removed(&self, wanted: u64) {
        sockets::until("so many are removed", async || self.removed().await == wanted).await;
    }

    async fn until_nothing_waits(&self) {
        let is_reported = async || sockets::metric(&self.api, "liststore_cleaner_waiting").await == 0.0;
        sockets::until("nothing waits", is_reported).await;
    }
}

/// An erasure counts its items once: its bag is removed for a caller without remaining quota, too.
#[tokio::test]
async fn an_erasure_removes_the_entries_of_the_bag_despite_limits_of_its_caller() {
    let broken = on(Arc::new(MemoryStore::default())).await;
    broken.put("one", json!({"a": 1, "at": 5})).await;
    assert_eq!(broken.stored("[1]").await.len(), 1);
    let admin = keys::admin(&broken.api).await;
    let limited = json!({"name": "limited", "roles": ["writer"], "items_per_second": 1, "items_burst": 1});
    let (token, _) = keys::key(&broken.api, Some(&admin), limited).await;
    let erased = keys::with_key(&broken.api, &token, Method::DELETE, "/v1/entities/link/one", &Value::Null).await;
    assert_eq!(erased.expect(200)["complete"], true);
    assert!(broken.stored("[1]").await.is_empty());
}

/// On each store whose queries may encounter leftovers.
#[tokio::test]
async fn a_query_removes_only_stale_entries_that_it_finds() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(EmbeddedOptions::new(dir.path()), Arc::new(SystemClock), &Registry::new());
    for store in [Arc::new(MemoryStore::default()) as Arc<dyn ItemStore>, Arc::new(embedded.unwrap())] {
        let broken = on(store).await;
        broken.put("one", json!({"a": 1, "at": 5})).await;
        broken.put("two", json!({"a": [1, 2], "at": 6})).await;
        let stored = broken.stored("[1]").await;
        let (at_two, at_one) = (stored[0].0, stored[1].0);
        // Of a bag at another place, of a bag with another value, and of no bag.
        broken.enter("[1]", at_two, "one").await;
        broken.enter("[2]", at_one, "one").await;
        broken.enter("[1]", at_one, "nobody").await;
        assert_eq!(broken.stored("[1]").await.len(), 4);
        assert_eq!(broken.found("1").await, ["two", "one"]);
        assert_eq!(broken.found("2").await, ["two"]);
        broken.until_removed(3).await;
        assert_eq!(broken.stored("[1]").await, stored);
        assert_eq!(broken.stored("[2]").await, [(at_two, "two".to_owned())]);
        // A bag with that place now is not lost: the bag is checked again before its entry is removed.
        broken.enter("[1]", at_one, "two").await;
        assert_eq!(broken.found("1").await, ["two", "one"]);
        broken.put("two", json!({"a": 1, "at": 5})).await;
        broken.until_nothing_waits().await;
        // One more if it was read before the bag got it.
        let removed = broken.removed().await;
        assert!((3..=4).contains(&removed), "{removed}");
        assert_eq!(broken.found("1").await.len(), 2);
        broken.put("three", json!({"a": 3, "at": 5})).await;
        broken.enter("[3]", at_two, "three").await;
        assert_eq!(broken.found("3").await, ["three"]);
        broken.until_removed(removed + 1).await;
        broken.until_nothing_waits().await;
        assert_eq!(broken.found("1").await.len(), 2);
        assert!(broken.api.get("/metrics").await.text().contains("\nliststore_cleaner_lag_seconds 0\n"));
    }
}

/// An entry beyond a bound of the query is not an error.
#[tokio::test]
async fn an_entry_that_a_query_skips_is_not_checked() {
    let broken = on(Arc::new(MemoryStore::default())).await;
    broken.put("one", json!({"a": 1, "at": 1e300})).await;
    let query = format!("{INDEXES}/by/entities?value=1&min=1.0000000000000001e300");
    assert_eq!(broken.api.get(&query).await.expect(200)["entities"], json!([]));
    assert!(broken.api.get("/metrics").await.text().contains("\nliststore_cleaner_waiting 0\n"));
}

/// A bag written by a server with a fast clock, or by this one before its clock was set back, is found from either
/// end.
#[tokio::test]
async fn a_bag_of_a_faster_clock_is_found_oldest_first() {
    let broken = on(Arc::new(MemoryStore::default())).await;
    broken.api.post(INDEXES, json!({"name": "lately", "properties": ["/a"]})).await.expect(201);
    broken.put("past", json!({"a": 1})).await;
    let ListKey { feature_key: by, entity_id: values, .. } = entries("[1]");
    let (id, ..) = FeatureKey::parse(by.as_str()).unwrap();
    let key = |version: &str| FeatureKey::new(&id, &VersionLabel::new(version).unwrap(), Generation::FIRST);
    let hour_ahead = Timestamp::from_nanos(endless().now.as_nanos() + 3_600_000_000_000).unwrap();
    let stored = |value: &'static str| NewItem {
        timestamp: hour_ahead,
        value: value.into(),
        expires_at: Ttl::MAX.expiry_of(endless().now),
    };
    let entry =
        EntryChange { list: ListKey::new(key("lately"), values), removed: vec![], added: vec![stored("ahead")] };
    let swap = BagSwap {
        before: None,
        after: BagAfter::Put(stored(r#"{"a":1}"#)),
        entries: vec![entry],
        row: None,
        entered_in: None,
    };
    let bag = ListKey::new(key(""), EntityId::new("ahead").unwrap());
    assert_eq!(broken.session.swap_bag(&endless(), &bag, swap).await.unwrap(), Swapped::Done);
    for (order, expected) in [("newest", ["ahead", "past"]), ("oldest", ["past", "ahead"])] {
        let (mut ids, mut token) = (Vec::new(), String::new());
        while ids.len() < 3 {
            let query = format!("{INDEXES}/lately/entities?value=1&limit=1&order={order}{token}");
            let page = broken.api.get(&query).await.expect(200);
            ids.extend(page["entities"].as_array().unwrap().iter().map(|bag| bag["entity_id"].clone()));
            let Some(next) = page["next_page_token"].as_str() else { break };
            token = format!("&page_token={next}");
        }
        assert_eq!(ids, expected, "{order}");
    }
}

async fn clean(api: &Api, body: Value) -> Value {
    api.post("/v1/entity-types/link/clean", body).await.expect(202)
}

/// Both directions, of several indexes, and how many entries each has then.
#[tokio::test]
async fn a_cleaning_adds_missing_entries_removes_stale_ones_and_counts() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(EmbeddedOptions::new(dir.path()), Arc::new(SystemClock), &Registry::new());
    for store in [Arc::new(MemoryStore::default()) as Arc<dyn ItemStore>, Arc::new(embedded.unwrap())] {
        let broken = on(store).await;
        let other = json!({"name": "other", "properties": ["/b"]});
        broken.api.post(INDEXES, other).await.expect(201);
        for number in 0..40 {
            broken.put(&format!("e-{number:02}"), json!({"a": [number % 2, 7], "b": 1, "at": number})).await;
        }
        let right = (broken.stored("[0]").await, broken.stored("[1]").await, broken.stored("[7]").await);
        for (place, id) in &right.1[3..6] {
            let value = bytes::Bytes::from(id.clone().into_bytes());
            let removal = liststore::items::Removal::Items(vec![(*place, value)]);
            assert_eq!(broken.session.remove(&endless(), &entries("[1]"), &removal).await.unwrap(), 1);
        }
        for number in 0..50 {
            broken.enter("[0]", right.1[number % 5].0, &format!("e-{number:02}")).await;
            broken.enter("[7]", right.1[0].0, &format!("nobody-{number}")).await;
        }
        assert!(broken.stored("[1]").await.len() == 17 && broken.stored("[7]").await.len() == 90);
        let job = clean(&broken.api, json!({"index": "by"})).await;
        assert_eq!((&job["kind"], &job["indexes"], job.get("feature")), (&json!("clean"), &json!(["by"]), None));
        let done = until(&broken.api, job["id"].as_str().unwrap(), "done").await;
        assert_eq!((&done["entries_added"], &done["entries"]), (&json!(3), &json!(80)), "{done}");
        assert_eq!(done["entries_removed"], json!(100), "{done}");
        let now = (broken.stored("[0]").await, broken.stored("[1]").await, broken.stored("[7]").await);
        assert_eq!(now, right);
        let shown = broken.api.get(&format!("{INDEXES}/by")).await.expect(200);
        assert_eq!((&shown["entries"], &shown["lag_seconds"]), (&json!(80), &json!(0.0)));
        assert_eq!(shown["entries_counted_at"], done["updated_at"]);
        // Of all indexes, and with nothing to do.
        let again = clean(&broken.api, json!({"lists_per_second": 100_000})).await;
        let done = until(&broken.api, again["id"].as_str().unwrap(), "done").await;
        assert_eq!((&done["entries_added"], &done["entries_removed"]), (&json!(0), &json!(0)), "{done}");
        assert_eq!((&done["entries"], &done["generations_cleared"]), (&json!(120), &json!(2)), "{done}");
    }
}

#[tokio::test]
async fn impossible_cleanings_are_refused() {
    let broken = on(Arc::new(MemoryStore::default())).await;
    let at = |body: Value| broken.api.post("/v1/entity-types/link/clean", body);
    assert_eq!(at(json!({"index": "none"})).await.code(), "index_not_found");
    at(json!({"index": ""})).await.refused("invalid_argument", "index");
    at(json!({"lists_per_second": 0})).await.refused("invalid_argument", "lists_per_second");
    let elsewhere = broken.api.post("/v1/entity-types/none/clean", json!({})).await;
    assert_eq!(elsewhere.code(), "entity_type_not_found");
}

/// A building is paused, resumed and given another rate as a purge is, and waits for none.
#[tokio::test]
async fn a_build_does_not_wait_for_purges_and_accepts_commands() {
    let broken = on(Arc::new(MemoryStore::default())).await;
    let api = &broken.api;
    api.feature("seen", "string", "30d").await;
    for list in 0..40 {
        api.add(&super::client::items("seen", &format!("u{list}")), &[(super::client::ago(1), "v".into())]).await;
        broken.put(&format!("e-{list}"), json!({"a": 1, "b": list % 2, "at": 1})).await;
    }
    let purge = api.post("/v1/features/user/seen/purge", json!({"lists_per_second": 1})).await.expect(202);
    let purge = purge["id"].as_str().unwrap();
    until(api, purge, "running").await;
    // It makes other jobs that scan bags wait, which no purge does.
    let slow = clean(api, json!({"lists_per_second": 1})).await;
    let slow = slow["id"].as_str().unwrap();
    until(api, slow, "running").await;
    api.post(INDEXES, json!({"name": "late", "properties": ["/b"]})).await.expect(201);
    let mut building = Value::Null;
    sockets::until("it has a job", async || {
        let shown = api.get(&format!("{INDEXES}/late")).await.expect(200);
        assert_eq!(shown["state"], "building");
        building = shown["job_id"].clone();
        building.is_string()
    })
    .await;
    let building = building.as_str().unwrap();
    let path = format!("/v1/jobs/{building}");
    assert_eq!(api.get(&path).await.expect(200)["kind"], "build_index");
    assert_eq!(api.post(&format!("{path}/pause"), json!({})).await.expect(200)["state"], "paused");
    let rated = api.patch(&path, json!({"lists_per_second": 5_000})).await.expect(200);
    assert_eq!((&rated["lists_per_second"], &rated["state"]), (&json!(5_000), &json!("paused")));
    api.patch(&path, json!({"lists_per_second": 0})).await.refused("invalid_argument", "lists_per_second");
    api.patch(&path, json!({})).await.refused("invalid_argument", "lists_per_second");
    assert_eq!(api.post(&format!("/v1/jobs/{slow}/cancel"), json!({})).await.expect(200)["state"], "cancelled");
    assert_eq!(api.post(&format!("{path}/resume"), json!({})).await.expect(200)["state"], "waiting");
    let built = until(api, building, "done").await;
    assert_eq!((&built["lists_per_second"], &built["entries"]), (&json!(5_000), &json!(40)));
    assert_eq!(api.get(&format!("{INDEXES}/late")).await.expect(200)["entries"], 40);
    let purging = api.get(&format!("/v1/jobs/{purge}")).await.expect(200);
    assert_eq!(purging["state"], "running", "no caller waited for it: {purging}");
    // The running job continues at its new rate.
    let faster = api.patch(&format!("/v1/jobs/{purge}"), json!({"lists_per_second": null})).await.expect(200);
    assert_eq!((&faster["state"], faster.get("lists_per_second")), (&json!("waiting"), None));
    until(api, purge, "done").await;
    for list in 0..40 {
        assert!(api.values(&super::client::items("seen", &format!("u{list}"))).await.is_empty(), "{list}");
    }
    let over = api.patch(&format!("/v1/jobs/{purge}"), json!({"lists_per_second": 1})).await;
    assert_eq!(over.code(), "job_is_over");
}
