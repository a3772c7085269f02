//! One list through a store under test, and the same list through a bare driver.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{
    Clock, EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Identity, ItemKey, ListKey, NewItem,
    Order, SystemClock, Timestamp, Ttl, ValueDigest, VersionLabel,
};
use liststore::items::cql::{CqlOptions, CqlStore};
use liststore::items::{ItemPage, ItemSession, OpContext, Range, StoreError};
use liststore_testkit::in_turn::{InTurn, open_session};
use prometheus::Registry;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::time::Instant;

/// Far beyond the time of an operation, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub const EVERYTHING: Range = Range {
    min_timestamp: Timestamp::MIN,
    max_timestamp: Timestamp::MAX,
    after: None,
    limit: 100_000,
    value_bytes_max: usize::MAX,
    order: Order::Newest,
};

pub fn now() -> Timestamp {
    SystemClock.now()
}

pub fn now_micros() -> i64 {
    i64::try_from(now().as_micros()).unwrap()
}

pub fn ttl(secs: u64) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

/// A list that no other test or run has used.
pub fn fresh_list() -> ListKey {
    let name = FeatureName::new(&format!("f{}", uuid::Uuid::new_v4().simple())).unwrap();
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name };
    let key = FeatureKey::new(&id, &VersionLabel::new("").unwrap(), Generation::FIRST);
    ListKey::new(key, EntityId::new("u-1").unwrap())
}

/// The same of a set.
pub fn fresh_set(identity: Identity) -> ListKey {
    let ListKey { feature_key, entity_id, .. } = fresh_list();
    ListKey::new(feature_key.with_identity(identity), entity_id)
}

pub fn key(timestamp: Timestamp, value: &[u8]) -> String {
    ItemKey::new(timestamp, ValueDigest::of(value)).to_string()
}

/// A server: one store with one session, and the metrics of both.
pub struct Server {
    pub store: Arc<CqlStore>,
    pub session: Rc<dyn ItemSession>,
    pub registry: Registry,
    pub deadline: Duration,
}

impl Server {
    pub async fn open(options: CqlOptions) -> Self {
        Self::open_with(options, Arc::new(SystemClock)).await
    }

    pub async fn open_with(options: CqlOptions, clock: Arc<dyn Clock>) -> Self {
        let registry = Registry::new();
        let store = Arc::new(CqlStore::open(options, clock, &registry).unwrap());
        let session = InTurn::around(open_session(&*store).await);
        Self { store, session, registry, deadline: PATIENCE }
    }

    /// The same process with another actor.
    pub async fn another_session(&self) -> Self {
        let session = InTurn::around(open_session(&*self.store).await);
        Self { store: Arc::clone(&self.store), session, registry: self.registry.clone(), deadline: self.deadline }
    }

    pub fn op(&self) -> OpContext {
        self.op_with(ttl(3_600))
    }

    pub fn op_with(&self, ttl: Ttl) -> OpContext {
        OpContext::new(now(), ttl, Instant::now() + self.deadline)
    }

    /// An operation that must succeed, regardless of the machine's speed.
    fn patient_op(&self) -> OpContext {
        OpContext { deadline: Instant::now() + self.deadline.max(PATIENCE), ..self.op() }
    }

    /// Adds values, each at its timestamp.
    pub async fn try_add(
        &self,
        list: &ListKey,
        op: &OpContext,
        items: &[(Timestamp, &[u8])],
    ) -> Result<(), StoreError> {
        let items = items
            .iter()
            .map(|(timestamp, value)| NewItem {
                timestamp: *timestamp,
                value: value.to_vec().into(),
                expires_at: op.ttl.expiry_of(*timestamp),
            })
            .collect();
        self.session.add(op, list, items).await
    }

    pub async fn add(&self, list: &ListKey, items: &[(Timestamp, &[u8])]) {
        self.try_add(list, &self.patient_op(), items).await.unwrap();
    }

    /// The content of the list. A cluster that did not answer just now refuses until it was probed again: this waits
    /// for it.
    pub async fn get(&self, list: &ListKey) -> ItemPage {
        let op = self.patient_op();
        loop {
            match self.session.get(&op, list, &EVERYTHING).await {
                Err(StoreError::Unavailable { .. }) if Instant::now() < op.deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                read => return read.unwrap(),
            }
        }
    }

    pub async fn values(&self, list: &ListKey) -> Vec<Vec<u8>> {
        self.get(list).await.items.into_iter().map(|item| item.value.to_vec()).collect()
    }

    pub async fn remove(&self, list: &ListKey, value: &[u8]) -> u64 {
        self.session.remove_value(&self.patient_op(), list, value).await.unwrap()
    }

    pub async fn remove_all(&self, list: &ListKey) {
        self.session.remove_all(&self.patient_op(), list).await.unwrap();
    }

    /// The sum of a metric over its labels that contain `label`; of a histogram, how often it was fed.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let families = self.registry.gather();
        let metrics = families.iter().filter(|family| family.name() == name).flat_map(|family| family.get_metric());
        metrics
            .filter(|metric| label.is_empty() || metric.get_label().iter().any(|pair| pair.value() == label))
            .map(|metric| {
                let fed = metric.get_histogram().get_sample_count() as f64;
                metric.get_counter().get_value() + metric.get_gauge().get_value() + fed
            })
            .sum()
    }
}

/// A separate driver, to read and to change the stored rows.
pub async fn bare(options: &CqlOptions) -> Session {
    SessionBuilder::new()
        .known_nodes(&options.contact_points)
        .use_keyspace(&options.keyspace, true)
        .build()
        .await
        .unwrap()
}

/// A row as stored in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    pub item_key: String,
    pub value: Vec<u8>,
    pub ttl: i32,
    pub writetime: i64,
}

pub async fn stored(bare: &Session, list: &ListKey) -> Vec<StoredRow> {
    let text =
        "SELECT item_key, value, TTL(value), WRITETIME(value) FROM list_items WHERE feature_key = ? AND entity_id = ?";
    let rows = bare.query_unpaged(text, (list.feature_key.as_str(), list.entity_id.as_str())).await.unwrap();
    let rows = rows.into_rows_result().unwrap();
    rows.rows::<(String, Vec<u8>, i32, i64)>()
        .unwrap()
        .map(|row| row.unwrap())
        .map(|(item_key, value, ttl, writetime)| StoredRow { item_key, value, ttl, writetime })
        .collect()
}

/// Writes a row as another server with its clock at `writetime` would.
pub async fn write_row(bare: &Session, list: &ListKey, timestamp: Timestamp, value: &[u8], ttl: i32, writetime: i64) {
    let text = "INSERT INTO list_items (feature_key, entity_id, item_key, value) VALUES (?, ?, ?, ?) USING TTL ? AND \
                TIMESTAMP ?";
    let key = key(timestamp, value);
    let values = (list.feature_key.as_str(), list.entity_id.as_str(), key, value, ttl, writetime);
    bare.query_unpaged(text, values).await.unwrap();
}
