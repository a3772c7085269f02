//! The layouts on a simulated cluster: a server's session without a database.

mod buckets;
mod lists;
mod model;
mod sets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus::Registry;
use scylla::policies::load_balancing::DefaultPolicy;
use tokio::time::Instant;

use super::layout::{last_shown, page};
use super::operations;
use crate::domain::{
    Bucket, Clock, EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Identity, Item, ItemKey, Keep,
    ListKey, ManualClock, MaxItems, NewItem, Order, Retention, Timestamp, Ttl, VersionLabel,
};
use crate::items::cql::call::Call;
use crate::items::cql::core::Core;
use crate::items::cql::health::metrics::CqlMetrics;
use crate::items::cql::options::CqlOptions;
use crate::items::cql::partitions::simulated::{Limits, Simulated};
use crate::items::cql::schema::dialect::Dialect;
use crate::items::cql::shared::Shared;
use crate::items::{Bounds, Count, OpContext, Range, Removal, StoreError};

/// Noon of Monday, 2026-11-23.
const NOW: &str = "2026-11-23T12:00:00Z";
const DAY: u64 = 86_400;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A server: one session with the cluster, and the clock of both.
struct Server {
    cluster: Arc<Simulated>,
    core: Arc<Core>,
    clock: Arc<ManualClock>,
    retention: Retention,
}

fn retention(max_items: Option<usize>) -> Retention {
    let max_items = max_items.map(|max_items| MaxItems::new(max_items as u64).unwrap());
    Retention { ttl: Ttl::from_secs(60 * DAY).unwrap(), max_items }
}

impl Server {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::parse(NOW).unwrap()));
        Self::with(&Simulated::new(Arc::clone(&clock)), &clock)
    }

    /// Another server of a cluster.
    fn with(cluster: &Arc<Simulated>, clock: &Arc<ManualClock>) -> Self {
        let (cluster, clock, skew) = (Arc::clone(cluster), Arc::clone(clock), Arc::default());
        let metrics = CqlMetrics::register(&Registry::new(), Arc::clone(&skew)).unwrap();
        let shared = Shared::new(CqlOptions::default(), None, Arc::clone(&clock) as Arc<dyn Clock>, skew, metrics);
        let plan = DefaultPolicy::builder().build();
        let core = Arc::new(Core::new(&shared, Arc::clone(&cluster) as _, Dialect::Cassandra, plan));
        Self { cluster, core, clock, retention: retention(None) }
    }

    /// The same with lists that show so many items.
    fn showing(self, max_items: usize) -> Self {
        Self { retention: retention(Some(max_items)), ..self }
    }

    fn pass(&self, time: Duration) {
        self.clock.set(Timestamp::saturating_from_nanos(u128::from(self.clock.now().as_nanos()) + time.as_nanos()));
    }

    fn call(&self, list: &ListKey) -> Call {
        let deadline = Instant::now() + Duration::from_secs(5);
        Call::new(&self.core, &OpContext::new(self.clock.now(), self.retention, deadline), list)
    }

    async fn add(&self, list: &ListKey, items: &[(Timestamp, Bytes)]) -> Result<(), StoreError> {
        let ttl = self.retention.ttl;
        let new = |(timestamp, value): &(Timestamp, Bytes)| NewItem {
            timestamp: *timestamp,
            value: value.clone(),
            expires_at: ttl.expiry_of(*timestamp),
        };
        operations::add(&mut self.call(list), &items.iter().map(new).collect::<Vec<_>>()).await
    }

    async fn remove(&self, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        operations::remove(&mut self.call(list), removal).await
    }

    async fn count(&self, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        operations::count(&mut self.call(list), within, max).await
    }

    /// One page, and whether more follows.
    async fn page(&self, list: &ListKey, range: &Range) -> Result<(Vec<Item>, bool), StoreError> {
        let mut call = self.call(list);
        let last_shown = last_shown(&mut call).await?;
        let page = page(&mut call, range, last_shown).await?.page;
        Ok((page.items, page.more))
    }

    /// All items within bounds, read by pages of so many.
    async fn walk(&self, list: &ListKey, within: &Bounds, order: Order, limit: usize) -> Vec<Item> {
        let (mut range, mut items) = (Range { limit, ..range(within, order) }, Vec::new());
        loop {
            let (page, more) = self.page(list, &range).await.unwrap();
            assert!(page.len() == limit || !more, "a page that more follows is full");
            range.after = page.last().map(Item::key);
            items.extend(page);
            if !more {
                return items;
            }
        }
    }
}

fn range(within: &Bounds, order: Order) -> Range {
    Range {
        min_timestamp: within.min_timestamp,
        max_timestamp: within.max_timestamp,
        after: None,
        limit: 1_000,
        value_bytes_max: usize::MAX,
        order,
    }
}

fn feature_key() -> FeatureKey {
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
    FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST)
}

fn list() -> ListKey {
    ListKey::new(feature_key(), EntityId::new("u-1").unwrap())
}

fn bucketed(bucket: Bucket) -> ListKey {
    ListKey::new(feature_key().with_bucket(Some(bucket)), EntityId::new("u-1").unwrap())
}

fn set(keep: Keep) -> ListKey {
    ListKey::new(feature_key().with_identity(Identity::Value(keep)), EntityId::new("u-1").unwrap())
}

/// A moment so many seconds before noon.
fn ago(secs: u64) -> Timestamp {
    let now = Timestamp::parse(NOW).unwrap().as_nanos();
    Timestamp::from_nanos(now - secs * NANOS_PER_SEC).unwrap()
}

fn value(n: impl std::fmt::Display) -> Bytes {
    Bytes::from(format!("v-{n}"))
}

/// Items of the last `count` seconds, newest first.
fn items(count: u64) -> Vec<(Timestamp, Bytes)> {
    (0..count).map(|n| (ago(n), value(n))).collect()
}

/// How pages are cut, from whole pages to pages of one row.
fn cuts() -> [Limits; 3] {
    [usize::MAX, 7, 1].map(|scanned_max| Limits { scanned_max, ..Limits::default() })
}

fn timestamps_and_values(items: &[Item]) -> Vec<(Timestamp, Bytes)> {
    items.iter().map(|item| (item.timestamp, item.value.clone())).collect()
}

/// The items in the order of the list, newest first.
fn sorted(items: &[(Timestamp, Bytes)]) -> Vec<(Timestamp, Bytes)> {
    let key = |(timestamp, value): &(Timestamp, Bytes)| {
        let item = Item { timestamp: *timestamp, value: value.clone() };
        (item.key(), (*timestamp, value.clone()))
    };
    let sorted: BTreeMap<ItemKey, _> = items.iter().map(key).collect();
    sorted.into_values().rev().collect()
}
