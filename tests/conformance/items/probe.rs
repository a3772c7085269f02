//! One list of a store under test, with short ways to write and to read it.
//!
//! Timestamps are nanoseconds relative to the probe's `base`, so that cases do not depend on the time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Item, ItemKey, ListKey, MaxItems, NewItem,
    Order, Timestamp, Ttl, ValueDigest, VersionLabel,
};
use liststore::items::{
    Bounds, ItemPage, ItemSession, ItemStore, MemoryReads, OpContext, Range, Removal, StoreError, Validity,
};
use liststore_testkit::in_turn::{InTurn, open_session};
use tokio::time::Instant;

use super::Backend;

pub const SECOND: i64 = 1_000_000_000;
pub const HOUR: i64 = 3_600 * SECOND;

/// Pages that are remembered.
const READ_MAX: usize = 16;
/// Long enough for any operation of a busy test machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A feature key that no other case, run or machine has used.
pub fn fresh_feature_key() -> FeatureKey {
    feature_key(&format!("f{}", uuid::Uuid::new_v4().simple()), "", 1)
}

pub fn feature_key(name: &str, version: &str, generation: u64) -> FeatureKey {
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() };
    FeatureKey::new(&id, &VersionLabel::new(version).unwrap(), Generation::new(generation).unwrap())
}

pub fn list_key(feature_key: &FeatureKey, entity_id: &str) -> ListKey {
    ListKey::new(feature_key.clone(), EntityId::new(entity_id).unwrap())
}

pub fn ttl(secs: u64) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

pub fn operation(now: Timestamp, ttl: Ttl) -> OpContext {
    OpContext::new(now, ttl, Instant::now() + DEADLINE)
}

/// Everything, in one page.
pub const EVERYTHING: Range = Range {
    min_timestamp: Timestamp::MIN,
    max_timestamp: Timestamp::MAX,
    after: None,
    limit: 100_000,
    value_bytes_max: usize::MAX,
    order: Order::Newest,
};

/// The retention of a get, its range, and its page.
type ReadPage = ((Ttl, Option<MaxItems>), Range, Validity, ItemPage);

#[derive(Clone)]
pub struct Probe {
    pub store: Arc<dyn ItemStore>,
    pub session: Rc<dyn ItemSession>,
    pub list: ListKey,
    /// The current time of [`Self::op`], and the base of offsets.
    pub base: Timestamp,
    /// The TTL of [`Self::op`].
    pub ttl: Ttl,
    /// Pages that came from memory, and for which gets they hold.
    pub read: Rc<RefCell<Vec<ReadPage>>>,
}

impl Probe {
    /// A fresh list at the real time, with a TTL of an hour.
    pub async fn open(backend: &dyn Backend) -> Self {
        Self::open_at(backend, backend.now(), ttl(3_600)).await
    }

    pub async fn open_at(backend: &dyn Backend, base: Timestamp, ttl: Ttl) -> Self {
        Self::of(backend.open().await, list_key(&fresh_feature_key(), "u-1"), base, ttl).await
    }

    pub async fn of(store: Arc<dyn ItemStore>, list: ListKey, base: Timestamp, ttl: Ttl) -> Self {
        let session = InTurn::around(open_session(&*store).await);
        Self { store, session, list, base, ttl, read: Rc::default() }
    }

    /// The same list after the store was closed and opened again.
    pub async fn reopen(self, backend: &dyn Backend) -> Self {
        let Self { store, session, list, base, ttl, .. } = self;
        drop(session);
        store.close().await.unwrap();
        drop(store);
        Self::of(backend.open().await, list, base, ttl).await
    }

    /// The store's reads from memory, if it has them.
    pub fn memory(&self) -> Option<Arc<dyn MemoryReads>> {
        Arc::clone(&self.store).abilities().memory
    }

    /// Another list, through the same session.
    pub fn with_list(&self, list: ListKey) -> Self {
        Self { list, read: Rc::default(), ..self.clone() }
    }

    pub fn at(&self, offset: i64) -> Timestamp {
        Timestamp::from_nanos(self.base.as_nanos().checked_add_signed(offset).unwrap()).unwrap()
    }

    /// Moments between two offsets, both inclusive.
    pub fn bounds(&self, min: i64, max: i64) -> Bounds {
        Bounds { min_timestamp: self.at(min), max_timestamp: self.at(max) }
    }

    pub fn op(&self) -> OpContext {
        operation(self.base, self.ttl)
    }

    /// An operation at another moment, and with another TTL.
    pub fn op_at(&self, offset: i64, ttl: Ttl) -> OpContext {
        operation(self.at(offset), ttl)
    }

    /// An item that expires by the TTL of `op`.
    pub fn new_item(&self, op: &OpContext, offset: i64, value: &[u8]) -> NewItem {
        let timestamp = self.at(offset);
        let expires_at = op.ttl.expiry_of(timestamp);
        assert!(expires_at > op.now.as_nanos(), "a case adds an item that has expired already");
        NewItem { timestamp, value: value.to_vec().into(), expires_at }
    }

    pub async fn try_add<V: AsRef<[u8]>>(&self, op: &OpContext, items: &[(i64, V)]) -> Result<(), StoreError> {
        let items = items.iter().map(|(offset, value)| self.new_item(op, *offset, value.as_ref())).collect();
        self.session.add(op, &self.list, items).await
    }

    pub async fn add<V: AsRef<[u8]>>(&self, items: &[(i64, V)]) {
        self.add_at(&self.op(), items).await;
    }

    pub async fn add_at<V: AsRef<[u8]>>(&self, op: &OpContext, items: &[(i64, V)]) {
        self.try_add(op, items).await.unwrap();
    }

    pub async fn remove(&self, value: impl AsRef<[u8]>) -> u64 {
        self.session.remove_value(&self.op(), &self.list, value.as_ref()).await.unwrap()
    }

    pub async fn remove_between(&self, min: i64, max: i64) -> u64 {
        let removal = Removal::Between(self.bounds(min, max));
        self.session.remove(&self.op(), &self.list, &removal).await.unwrap()
    }

    pub async fn remove_items<V: AsRef<[u8]>>(&self, items: &[(i64, V)]) -> u64 {
        let named = |(offset, value): &(i64, V)| (self.at(*offset), value.as_ref().to_vec().into());
        let removal = Removal::Items(items.iter().map(named).collect());
        self.session.remove(&self.op(), &self.list, &removal).await.unwrap()
    }

    pub async fn remove_all(&self) {
        self.session.remove_all(&self.op(), &self.list).await.unwrap();
    }

    /// Reads a page through the session. If the store answers without one, that answer must be equal, before and after.
    /// So must an earlier such page that is still valid.
    pub async fn page(&self, op: &OpContext, range: &Range) -> ItemPage {
        let retention = (op.ttl, op.max_items);
        let memory = self.memory();
        let look = || memory.as_ref()?.get_from_memory(op, &self.list, range);
        let before = look();
        let page = self.session.get(op, &self.list, range).await.unwrap();
        for found in before.into_iter().chain(look()) {
            assert_eq!(found.page, page, "memory and a session disagree");
            if let Some(validity) = found.validity {
                let mut read = self.read.borrow_mut();
                read.truncate(READ_MAX);
                read.insert(0, (retention, *range, validity, found.page));
            }
        }
        let state = memory.as_ref().and_then(|memory| memory.state(&self.list));
        for (shown, of, Validity { state: read_in, from, until }, earlier) in self.read.borrow().iter() {
            let in_time = *from <= op.now && op.now.as_nanos() < *until;
            if Some(*read_in) == state && (*shown, *of) == (retention, *range) && in_time {
                assert_eq!(*earlier, page, "a page that must not change is not the answer");
            }
        }
        page
    }

    /// All visible items, as offsets and values.
    pub async fn all(&self) -> Vec<(i64, Vec<u8>)> {
        self.all_at(&self.op()).await
    }

    pub async fn all_at(&self, op: &OpContext) -> Vec<(i64, Vec<u8>)> {
        let page = self.page(op, &EVERYTHING).await;
        assert!(!page.more, "the whole list was asked for");
        self.offsets(&page)
    }

    pub fn offsets(&self, page: &ItemPage) -> Vec<(i64, Vec<u8>)> {
        page.items.iter().map(|item| (self.offset_of(item), item.value.to_vec())).collect()
    }

    pub fn offset_of(&self, item: &Item) -> i64 {
        item.timestamp.as_nanos().wrapping_sub(self.base.as_nanos()).cast_signed()
    }

    /// The expected list for these items: newest first, ties by the key's text.
    pub fn in_order<V: AsRef<[u8]>>(&self, items: &[(i64, V)]) -> Vec<(i64, Vec<u8>)> {
        let mut keyed: Vec<_> = items
            .iter()
            .map(|(offset, value)| (self.key(*offset, value.as_ref()).to_string(), (*offset, value.as_ref().to_vec())))
            .collect();
        keyed.sort_by(|(a, _), (b, _)| b.cmp(a));
        keyed.into_iter().map(|(_, item)| item).collect()
    }

    pub fn key(&self, offset: i64, value: &[u8]) -> ItemKey {
        ItemKey::new(self.at(offset), ValueDigest::of(value))
    }

    /// Walks the list by pages of `limit`, as a caller with page tokens does.
    pub async fn walk(&self, op: &OpContext, range: Range, limit: usize) -> Vec<(i64, Vec<u8>)> {
        let mut seen = Vec::new();
        let mut range = Range { limit, ..range };
        loop {
            let page = self.page(op, &range).await;
            assert!(page.items.len() <= limit);
            assert!(!page.more || page.items.len() == limit, "a page that is not full says that more follows");
            seen.extend(self.offsets(&page));
            match page.items.last() {
                Some(last) if page.more => range.after = Some(last.key()),
                _ => return seen,
            }
        }
    }
}

/// Values that are all different.
pub fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}
