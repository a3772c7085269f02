//! The memory store with faults on demand, and a clock that can panic.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use liststore::domain::{Clock, FeatureKey, Item, ListKey, NewItem, Timestamp};
use liststore::items::memory::MemoryStore;
use liststore::items::{
    Abilities, AggregateOutcome, Aggregation, BagEntries, BagScan, BagSwap, BagSwaps, Bounds, Count, Done, EntityPage,
    EntityPlace, ItemPage, ItemSession, ItemStore, JoinedAdds, OpContext, Range, ReadBag, Removal, RemovalTurns,
    StoreError, SwapJournal, Swapped, ToAwait, enter_one_by_one,
};
use tokio::sync::watch;

pub const NOW: Timestamp = Timestamp::MIN;

pub struct Faults {
    panicking_entity: Mutex<Option<String>>,
    clock_panics: AtomicBool,
    sessions_refused: AtomicBool,
    stalled: watch::Sender<Stall>,
    busy: watch::Sender<bool>,
    idle_awaited: AtomicBool,
    sessions_opened: AtomicUsize,
    sessions_alive: AtomicUsize,
    operations_begun: AtomicUsize,
    adds_done: AtomicUsize,
    threads: Mutex<HashSet<ThreadId>>,
}

#[derive(Clone, Default)]
enum Stall {
    #[default]
    Nothing,
    Everything,
    Only(Vec<ListKey>),
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            panicking_entity: Mutex::default(),
            clock_panics: AtomicBool::default(),
            sessions_refused: AtomicBool::default(),
            stalled: watch::Sender::new(Stall::Nothing),
            busy: watch::Sender::new(false),
            idle_awaited: AtomicBool::default(),
            sessions_opened: AtomicUsize::default(),
            sessions_alive: AtomicUsize::default(),
            operations_begun: AtomicUsize::default(),
            adds_done: AtomicUsize::default(),
            threads: Mutex::default(),
        }
    }
}

impl Faults {
    pub fn panic_on(&self, entity: &str) {
        *self.panicking_entity.lock().unwrap() = Some(entity.to_owned());
    }

    pub fn panic_in_clock(&self, panics: bool) {
        self.clock_panics.store(panics, SeqCst);
    }

    pub fn refuse_sessions(&self, refused: bool) {
        self.sessions_refused.store(refused, SeqCst);
    }

    pub fn stall(&self, stalled: bool) {
        self.stalled.send_replace(if stalled { Stall::Everything } else { Stall::Nothing });
    }

    pub fn stall_only(&self, lists: &[ListKey]) {
        self.stalled.send_replace(Stall::Only(lists.to_vec()));
    }

    /// Whether the store works for callers that have left.
    pub fn be_busy(&self, busy: bool) {
        self.busy.send_replace(busy);
    }

    /// Whether a caller has begun to wait until it is not.
    pub fn idle_awaited(&self) -> bool {
        self.idle_awaited.load(SeqCst)
    }

    pub fn sessions_opened(&self) -> usize {
        self.sessions_opened.load(SeqCst)
    }

    pub fn sessions_alive(&self) -> usize {
        self.sessions_alive.load(SeqCst)
    }

    pub fn operations_begun(&self) -> usize {
        self.operations_begun.load(SeqCst)
    }

    pub fn adds_done(&self) -> usize {
        self.adds_done.load(SeqCst)
    }

    pub fn threads(&self) -> HashSet<ThreadId> {
        self.threads.lock().unwrap().clone()
    }

    async fn meet(&self, list: &ListKey) {
        self.operations_begun.fetch_add(1, SeqCst);
        let bad = self.panicking_entity.lock().unwrap().as_deref() == Some(list.entity_id.as_str());
        assert!(!bad, "injected panic");
        let free = |stall: &Stall| match stall {
            Stall::Nothing => true,
            Stall::Everything => false,
            Stall::Only(lists) => !lists.contains(list),
        };
        self.stalled.subscribe().wait_for(free).await.unwrap();
    }
}

impl Clock for Faults {
    fn now(&self) -> Timestamp {
        // The pool reads the clock on the caller's thread too, but only the actor's must panic.
        let on_an_actor = self.threads.lock().unwrap().contains(&std::thread::current().id());
        assert!(!(on_an_actor && self.clock_panics.load(SeqCst)), "injected panic of the clock");
        NOW
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
}

pub struct FaultyStore {
    faults: Arc<Faults>,
    inner: MemoryStore,
}

impl FaultyStore {
    pub fn new(faults: Arc<Faults>) -> Self {
        Self { faults, inner: MemoryStore::default() }
    }
}

#[async_trait(?Send)]
impl ItemStore for FaultyStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        if self.faults.sessions_refused.load(SeqCst) {
            return Err(StoreError::Unavailable { reason: "refused by the test".into(), outcome_unknown: false });
        }
        self.faults.threads.lock().unwrap().insert(std::thread::current().id());
        self.faults.sessions_opened.fetch_add(1, SeqCst);
        self.faults.sessions_alive.fetch_add(1, SeqCst);
        Ok(Rc::new(FaultySession { faults: Arc::clone(&self.faults), inner: self.inner.open_session().await? }))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: None,
            permits: None,
            bag_swaps: BagSwaps::Atomic,
            reclaim: None,
            backup: None,
            erasure: None,
            migration: None,
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn idle(&self) {
        self.faults.idle_awaited.store(true, SeqCst);
        self.faults.busy.subscribe().wait_for(|busy| !busy).await.unwrap();
    }

    fn read_only(&self) -> Option<String> {
        None
    }

    fn warning(&self) -> Option<String> {
        None
    }
}

struct FaultySession {
    faults: Arc<Faults>,
    inner: Rc<dyn ItemSession>,
}

impl Drop for FaultySession {
    fn drop(&mut self) {
        self.faults.sessions_alive.fetch_sub(1, SeqCst);
    }
}

#[async_trait(?Send)]
impl ItemSession for FaultySession {
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        self.faults.meet(list).await;
        self.inner.get(op, list, range).await
    }

    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        self.faults.meet(list).await;
        self.inner.aggregate(op, list, aggregation).await
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Some(Box::pin(async move {
            self.faults.meet(&list).await;
            let added = self.inner.add(&op, &list, items).await;
            self.faults.adds_done.fetch_add(1, SeqCst);
            done(added);
        }))
    }

    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        self.faults.meet(list).await;
        self.inner.contains(op, list, within, values).await
    }

    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        self.faults.meet(list).await;
        self.inner.lookup(op, list, members).await
    }

    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        self.faults.meet(list).await;
        self.inner.count(op, list, within, max).await
    }

    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        self.faults.meet(list).await;
        self.inner.remove(op, list, removal).await
    }

    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError> {
        self.faults.meet(list).await;
        self.inner.remove_all(op, list).await
    }

    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError> {
        self.faults.meet(list).await;
        self.inner.bag(op, list).await
    }

    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        self.faults.meet(list).await;
        self.inner.swap_bag(op, list, swap).await
    }

    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        enter_one_by_one(self, op, bags).await
    }

    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.inner.entities(op, feature_key, from, limit).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        self.inner.removal_turns()
    }

    fn joined_adds(self: Rc<Self>) -> Option<Rc<dyn JoinedAdds>> {
        None
    }

    fn bag_scan(&self) -> Option<&dyn BagScan> {
        None
    }

    fn swap_journal(&self) -> Option<&dyn SwapJournal> {
        None
    }
}
