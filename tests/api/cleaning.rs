//! Entries of indexes that do not agree with their bags, and who mends them.

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
use liststore::items::{ItemSession, ItemStore, Operation, Range};
use liststore::metadata::memory::memory_store;
use prometheus::Registry;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::Api;
use super::support::{settings, spawn_with};

const INDEXES: &str = "/v1/entity-types/link/indexes";

/// A server, and the hand of somebody who changes entries behind its back.
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
    while api.get(&format!("{INDEXES}/by")).await.expect(200)["state"] != "ready" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Broken { api, session: store.open_session().await.unwrap() }
}

fn entries(values: &str) -> ListKey {
    let id = FeatureId::of_bags(EntityType::new("link").unwrap());
    let key = FeatureKey::new(&id, &VersionLabel::new("by").unwrap(), Generation::FIRST);
    ListKey::new(key, EntityId::new(values).unwrap())
}

fn endless() -> Operation {
    Operation::new(liststore::domain::Clock::now(&SystemClock), Ttl::ENDLESS, Instant::now() + Duration::from_secs(20))
}

impl Broken {
    async fn put(&self, id: &str, bag: Value) {
        let (path, body) = (format!("/v1/entities/link/{id}"), bag.to_string());
        let answer = self.api.send(Method::PUT, &path, &[], body.as_bytes()).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    }

    /// Where a list of entries has whom.
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

    async fn until_removed(&self, wanted: u64) {
        let line = format!("liststore_cleaner_repairs_total{{kind=\"entry\"}} {wanted}");
        while !self.api.get("/metrics").await.text().lines().any(|told| told == line) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// On each store whose queries may meet what somebody left.
#[tokio::test]
async fn what_a_query_meets_and_no_bag_has_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(EmbeddedOptions::new(dir.path()), Arc::new(SystemClock), &Registry::new());
    for store in [Arc::new(MemoryStore::default()) as Arc<dyn ItemStore>, Arc::new(embedded.unwrap())] {
        let broken = on(store).await;
        broken.put("one", json!({"a": 1, "at": 5})).await;
        broken.put("two", json!({"a": [1, 2], "at": 6})).await;
        let stands = broken.stored("[1]").await;
        let (at_two, at_one) = (stands[0].0, stands[1].0);
        // Of a bag at another place, of a bag of another value, and of no bag at all.
        broken.enter("[1]", at_two, "one").await;
        broken.enter("[2]", at_one, "one").await;
        broken.enter("[1]", at_one, "nobody").await;
        assert_eq!(broken.stored("[1]").await.len(), 4);
        assert_eq!(broken.found("1").await, ["two", "one"]);
        assert_eq!(broken.found("2").await, ["two"]);
        broken.until_removed(3).await;
        assert_eq!(broken.stored("[1]").await, stands);
        assert_eq!(broken.stored("[2]").await, [(at_two, "two".to_owned())]);
        // Nobody who has that place now is lost: a bag is looked at again before its entry goes.
        broken.enter("[1]", at_one, "two").await;
        assert_eq!(broken.found("1").await, ["two", "one"]);
        broken.put("two", json!({"a": 1, "at": 5})).await;
        broken.put("three", json!({"a": 3, "at": 5})).await;
        broken.enter("[3]", at_two, "three").await;
        assert_eq!(broken.found("3").await, ["three"]);
        broken.until_removed(4).await;
        assert_eq!(broken.found("1").await.len(), 2);
        let told = broken.api.get("/metrics").await.text();
        assert!(
            told.contains("\nliststore_cleaner_waiting 0\n") && told.contains("\nliststore_cleaner_lag_seconds 0\n")
        );
    }
}

/// What a bound of the query leaves out is no fault of the entry.
#[tokio::test]
async fn an_entry_that_a_query_passes_over_is_not_looked_at() {
    let broken = on(Arc::new(MemoryStore::default())).await;
    broken.put("one", json!({"a": 1, "at": 1e300})).await;
    let query = format!("{INDEXES}/by/entities?value=1&min=1.0000000000000001e300");
    assert_eq!(broken.api.get(&query).await.expect(200)["entities"], json!([]));
    assert!(broken.api.get("/metrics").await.text().contains("\nliststore_cleaner_waiting 0\n"));
}
