//! A store that divides all lists into buckets, so that every case of the suite runs on them without changes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use liststore::domain::{Bucket, Clock, FeatureKey, Item, ListKey, NewItem, SystemClock, Timestamp};
use liststore::items::{
    Abilities, AggregateOutcome, Aggregation, BagEntries, BagScan, BagSwap, Bounds, Count, Done, EntityPage,
    EntityPlace, ItemPage, ItemSession, ItemStore, JoinedAdds, OpContext, Range, ReadBag, Removal, RemovalTurns,
    StoreError, SwapJournal, Swapped, ToAwait,
};

pub struct InBuckets<S> {
    pub store: Arc<S>,
    pub bucket: Bucket,
}

struct Session {
    session: Rc<dyn ItemSession>,
    bucket: Bucket,
}

#[async_trait(?Send)]
impl<S: ItemStore> ItemStore for InBuckets<S> {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Rc::new(Session { session: self.store.open_session().await?, bucket: self.bucket }))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        let Abilities { bag_swaps, reclaim, .. } = Arc::clone(&self.store).abilities();
        Abilities { memory: None, permits: None, bag_swaps, reclaim, backup: None, erasure: None, migration: None }
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }

    async fn idle(&self) {
        self.store.idle().await;
    }

    fn read_only(&self) -> Option<String> {
        self.store.read_only()
    }

    fn warning(&self) -> Option<String> {
        self.store.warning()
    }
}

impl Session {
    fn key(&self, feature_key: &FeatureKey) -> FeatureKey {
        feature_key.clone().with_bucket(Some(self.bucket))
    }

    fn list(&self, list: &ListKey) -> ListKey {
        ListKey::new(self.key(&list.feature_key), list.entity_id.clone())
    }
}

#[async_trait(?Send)]
impl ItemSession for Session {
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        self.session.get(op, &self.list(list), range).await
    }

    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        self.session.contains(op, &self.list(list), within, values).await
    }

    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        self.session.lookup(op, &self.list(list), members).await
    }

    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        self.session.aggregate(op, &self.list(list), aggregation).await
    }

    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        self.session.count(op, &self.list(list), within, max).await
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Rc::clone(&self.session).start_add(op, self.list(&list), items, done)
    }

    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        self.session.remove(op, &self.list(list), removal).await
    }

    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError> {
        self.session.remove_all(op, &self.list(list)).await
    }

    /// Bags are lists of one item, and in no buckets.
    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError> {
        self.session.bag(op, list).await
    }

    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        self.session.swap_bag(op, list, swap).await
    }

    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        self.session.enter_bags(op, bags).await
    }

    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.session.entities(op, &self.key(feature_key), from, limit).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        self.session.removal_turns()
    }

    fn joined_adds(self: Rc<Self>) -> Option<Rc<dyn JoinedAdds>> {
        None
    }

    fn bag_scan(&self) -> Option<&dyn BagScan> {
        self.session.bag_scan()
    }

    fn swap_journal(&self) -> Option<&dyn SwapJournal> {
        self.session.swap_journal()
    }
}

/// A clock that is ahead of the machine's by the distance to the next border of a bucket: cases have items on both
/// sides of it. The store uses it, too: otherwise it would cut lists by items that had not expired yet.
#[derive(Clone, Copy)]
pub struct AtTheBorder {
    ahead: u64,
}

impl AtTheBorder {
    pub fn of(bucket: Bucket) -> Self {
        let now = SystemClock.now();
        Self { ahead: bucket.end_of(now) - now.as_nanos() }
    }
}

impl Clock for AtTheBorder {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(SystemClock.now().as_nanos() + self.ahead).unwrap()
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }
}
