//! Stores with faults on demand, in front of the models in memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use liststore::app::Stores;
use liststore::domain::{SystemClock, Timestamp};
use liststore::items::StoreError;
use liststore::items::memory::MemoryStore;
use liststore::metadata::memory::memory_store;
use liststore::metadata::{Change, MetadataError};
use prometheus::Registry;
use tokio::sync::watch;

use super::client::Api;
use super::faulty_items::FaultyItems;
use super::faulty_metadata::FaultyMetadata;
use super::support::{settings, spawn_with};

/// The calls of the stores, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Bags and lists change.
    Items,
    /// Items are made durable.
    Sync,
    /// A note about items: the state of a job, the readiness of an index, or an entry of the audit trail.
    Note,
}

/// The faults.
pub struct Faults {
    pub events: Mutex<Vec<Event>>,
    /// How many more entries of the audit trail are written, and the error of the later ones.
    pub notes_left: Mutex<Option<(usize, MetadataError)>>,
    /// The error that the caller gets though an entry of the audit trail is written.
    pub noted_unheard: Mutex<Option<MetadataError>>,
    /// Whether indexes wait to be called ready.
    pub finishes_held: watch::Sender<bool>,
    pub items: Mutex<Option<StoreError>>,
    pub metadata: Mutex<Option<MetadataError>>,
    /// Whether every successful reading of a feature is followed by a failing one.
    pub every_other_reading: AtomicBool,
    /// How an index is created again, as by another server, at the moment when it would be marked ready.
    pub created_again: Mutex<Option<Change>>,
    /// Whether other servers have these definitions too.
    pub shares_definitions: AtomicBool,
    pub reading_went_well: AtomicBool,
    pub panics: AtomicBool,
    /// How many operations the store has begun.
    pub begun: AtomicUsize,
    pub read_only: Mutex<Option<String>>,
    /// Lists that are not to be cleared, as feature key and entity ID.
    pub uncleared: Mutex<Vec<String>>,
    /// Lists that were.
    pub cleared: Mutex<Vec<String>>,
    /// The only lists of which the store holds anything, if it can find out.
    pub held: Mutex<Option<Vec<String>>>,
    /// Lists that cannot be read, as above.
    pub unreadable: Mutex<Vec<String>>,
    /// Whether bags cannot be changed.
    pub swaps_fail: AtomicBool,
    /// The error with which items cannot be made durable.
    pub sync_fails: Mutex<Option<StoreError>>,
    /// The store's promise about erased bytes.
    pub erased_by: Mutex<Option<Result<Timestamp, StoreError>>>,
    /// How many more sessions may be opened.
    pub sessions_left: AtomicUsize,
    stalled: watch::Sender<bool>,
    pub clears_held: watch::Sender<bool>,
}

impl Faults {
    pub fn stall(&self, stalled: bool) {
        self.stalled.send_replace(stalled);
    }

    /// Blocks the clearing of lists until it is undone.
    pub fn hold_clears(&self, held: bool) {
        self.clears_held.send_replace(held);
    }

    pub fn allow_sessions(&self) {
        self.allow_only(usize::MAX);
    }

    /// Permits this many more sessions.
    pub fn allow_only(&self, sessions: usize) {
        self.sessions_left.store(sessions, SeqCst);
    }

    pub async fn inject(&self) -> Result<(), StoreError> {
        self.begun.fetch_add(1, SeqCst);
        self.stalled.subscribe().wait_for(|stalled| !stalled).await.unwrap();
        assert!(!self.panics.load(SeqCst), "injected panic");
        self.items.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    pub async fn inject_into_metadata(&self) -> Result<(), MetadataError> {
        self.stalled.subscribe().wait_for(|stalled| !stalled).await.unwrap();
        self.metadata.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

/// A ready server whose stores have the given faults.
pub async fn faulty(given: &[(&'static str, &str)]) -> (Api, Arc<Faults>) {
    let (mut api, faults) = faulty_from_the_start(given, |_| {}).await;
    api.server.ready().await;
    (api, faults)
}

/// A server whose stores may fail before it is ready.
pub async fn faulty_from_the_start(
    given: &[(&'static str, &str)],
    prepare: impl FnOnce(&Faults),
) -> (Api, Arc<Faults>) {
    faulty_with_items(given, Arc::default(), prepare).await
}

/// The same with existing items.
pub async fn faulty_with_items(
    given: &[(&'static str, &str)],
    items: Arc<MemoryStore>,
    prepare: impl FnOnce(&Faults),
) -> (Api, Arc<Faults>) {
    let faults = Arc::new(Faults {
        events: Mutex::default(),
        notes_left: Mutex::default(),
        noted_unheard: Mutex::default(),
        finishes_held: watch::Sender::new(false),
        items: Mutex::default(),
        metadata: Mutex::default(),
        every_other_reading: AtomicBool::new(false),
        created_again: Mutex::default(),
        shares_definitions: AtomicBool::new(false),
        reading_went_well: AtomicBool::new(false),
        panics: AtomicBool::new(false),
        begun: AtomicUsize::new(0),
        read_only: Mutex::default(),
        uncleared: Mutex::default(),
        cleared: Mutex::default(),
        held: Mutex::default(),
        unreadable: Mutex::default(),
        swaps_fail: AtomicBool::new(false),
        sync_fails: Mutex::default(),
        erased_by: Mutex::default(),
        sessions_left: AtomicUsize::new(usize::MAX),
        stalled: watch::Sender::new(false),
        clears_held: watch::Sender::new(false),
    });
    prepare(&faults);
    let stores = Stores {
        items: Arc::new(FaultyItems { faults: Arc::clone(&faults), inner: items }),
        metadata: Arc::new(FaultyMetadata { faults: Arc::clone(&faults), inner: Box::new(memory_store()) }),
        registry: Registry::new(),
        data_dir: None,
    };
    let server = spawn_with(settings(given), Arc::new(SystemClock), stores).await;
    (Api::of(server).await, faults)
}

pub fn refuse_sessions(faults: &Faults) {
    faults.allow_only(0);
}
