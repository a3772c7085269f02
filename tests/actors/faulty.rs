//! The memory store with faults on demand, and a clock that can panic.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::Duration;

use async_trait::async_trait;
use liststore::domain::{Clock, ListKey, NewItem, Timestamp};
use liststore::items::memory::MemoryStore;
use liststore::items::{
    Abilities, Around, BagSwaps, Done, ItemSession, ItemStore, ListAccess, OpContext, StoreError, Surrounded, ToAwait,
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

    async fn inject(&self, list: &ListKey) {
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
        Ok(Surrounded::by(FaultySession { faults: Arc::clone(&self.faults), inner: self.inner.open_session().await? }))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: None,
            permits: None,
            bag_swaps: BagSwaps::Atomic,
            reclaim: None,
            backup: Err("a store of tests"),
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
impl Around for FaultySession {
    type Held = ();

    fn session(&self) -> &dyn ItemSession {
        &*self.inner
    }

    async fn before(&self, _: &OpContext, access: ListAccess<'_>) -> Result<(), StoreError> {
        match access {
            ListAccess::Read(list)
            | ListAccess::Remove(list)
            | ListAccess::RemoveAll(list)
            | ListAccess::Swap(list) => {
                self.faults.inject(list).await;
            }
            ListAccess::EnterBags(bags) => {
                for bag in bags {
                    self.faults.inject(&bag.bag).await;
                }
            }
            ListAccess::Walk(_) => {}
        }
        Ok(())
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Some(Box::pin(async move {
            self.faults.inject(&list).await;
            let added = self.inner.add(&op, &list, items).await;
            self.faults.adds_done.fetch_add(1, SeqCst);
            done(added);
        }))
    }
}
