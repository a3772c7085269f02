//! Stores with faults on demand, in front of the models in memory.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use liststore::app::Stores;
use liststore::definition::Feature;
use liststore::domain::{
    ApiKey, EntityType, FeatureId, JobId, KeyId, Limit, ListKey, NewItem, Revision, SystemClock, Timestamp,
};
use liststore::items::memory::MemoryStore;
use liststore::items::{
    Abilities, Around, BagSwaps, ByteErasure, Done, Erased, ItemSession, ItemStore, ListAccess, OpContext, StoreError,
    Surrounded, ToAwait,
};
use liststore::metadata::jobs::Job;
use liststore::metadata::keys::erasures::{Erasure, ErasureEntry};
use liststore::metadata::keys::server_changes::{ServerChange, ServerChangeEntry};
use liststore::metadata::keys::{AuditFilter, AuditPage, KeyChange, Keys};
use liststore::metadata::memory::memory_store;
use liststore::metadata::{
    AccessStore, Applied, Change, ChangeContext, EachDefinition, FeatureFilter, HistoryEntry, JobStore, LastGeneration,
    MetadataError, MetadataStore, Page, Precondition,
};
use prometheus::Registry;
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::Api;
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
    pub made_anew: Mutex<Option<Change>>,
    /// Whether other servers have these definitions too.
    pub shares_definitions: AtomicBool,
    reading_went_well: AtomicBool,
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
    sessions_left: AtomicUsize,
    stalled: watch::Sender<bool>,
    clears_held: watch::Sender<bool>,
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

    async fn meet(&self) -> Result<(), StoreError> {
        self.begun.fetch_add(1, SeqCst);
        self.stalled.subscribe().wait_for(|stalled| !stalled).await.unwrap();
        assert!(!self.panics.load(SeqCst), "injected panic");
        self.items.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    async fn meet_metadata(&self) -> Result<(), MetadataError> {
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
    faulty_beside(given, Arc::default(), prepare).await
}

/// The same with existing items.
pub async fn faulty_beside(
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
        made_anew: Mutex::default(),
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

struct FaultyItems {
    faults: Arc<Faults>,
    inner: Arc<MemoryStore>,
}

#[async_trait(?Send)]
impl ItemStore for FaultyItems {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        if self.faults.sessions_left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
            return Err(StoreError::Unavailable { reason: "refused by the test".to_owned(), outcome_unknown: false });
        }
        Ok(Surrounded::by(FaultySession { faults: Arc::clone(&self.faults), inner: self.inner.open_session().await? }))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: None,
            permits: None,
            bag_swaps: BagSwaps::Atomic,
            reclaim: None,
            backup: Err("a store of tests"),
            erasure: Some(self),
            migration: None,
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.faults.events.lock().unwrap().push(Event::Sync);
        self.faults.sync_fails.lock().unwrap().clone().map_or_else(|| self.inner.sync(), Err)
    }

    async fn idle(&self) {}

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_only(&self) -> Option<String> {
        self.faults.read_only.lock().unwrap().clone()
    }

    fn warning(&self) -> Option<String> {
        None
    }
}

impl ByteErasure for FaultyItems {
    fn held(&self, lists: &[ListKey], _: Instant) -> Result<Option<Vec<bool>>, StoreError> {
        let held = self.faults.held.lock().unwrap();
        Ok(held.as_ref().map(|held| lists.iter().map(|list| held.contains(&name(list))).collect()))
    }

    fn erase_removed(&self) -> Result<Erased, StoreError> {
        Ok(Erased::Later)
    }

    fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.faults.erased_by.lock().unwrap().clone().transpose()
    }
}

/// A list, as the faults name it.
fn name(list: &ListKey) -> String {
    format!("{} {}", list.feature_key, list.entity_id.as_str())
}

struct FaultySession {
    faults: Arc<Faults>,
    inner: Rc<dyn ItemSession>,
}

impl FaultySession {
    fn fail_if(&self, fails: bool) -> Result<(), StoreError> {
        let failure = || StoreError::Unavailable { reason: "SECRET".to_owned(), outcome_unknown: false };
        if fails { Err(failure()) } else { Ok(()) }
    }

    async fn before_swap(&self) -> Result<(), StoreError> {
        self.faults.meet().await?;
        self.fail_if(self.faults.swaps_fail.load(SeqCst))?;
        self.faults.events.lock().unwrap().push(Event::Items);
        Ok(())
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
            ListAccess::Read(list) => {
                self.faults.meet().await?;
                self.fail_if(self.faults.unreadable.lock().unwrap().contains(&name(list)))
            }
            ListAccess::Remove(_) | ListAccess::Walk(_) => self.faults.meet().await,
            ListAccess::RemoveAll(list) => {
                self.faults.meet().await?;
                self.faults.clears_held.subscribe().wait_for(|held| !held).await.unwrap();
                self.fail_if(self.faults.uncleared.lock().unwrap().contains(&name(list)))?;
                self.faults.cleared.lock().unwrap().push(name(list));
                self.faults.events.lock().unwrap().push(Event::Items);
                Ok(())
            }
            ListAccess::Swap(_) => self.before_swap().await,
            ListAccess::EnterBags(bags) => {
                for _ in bags {
                    self.before_swap().await?;
                }
                Ok(())
            }
        }
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Some(Box::pin(async move {
            let added = match self.faults.meet().await {
                Ok(()) => self.inner.add(&op, &list, items).await,
                Err(failed) => Err(failed),
            };
            done(added);
        }))
    }
}

struct FaultyMetadata {
    faults: Arc<Faults>,
    inner: Box<dyn MetadataStore>,
}

impl FaultyMetadata {
    /// Before an entry of the audit trail is written.
    async fn meet_note(&self) -> Result<(), MetadataError> {
        self.faults.meet_metadata().await?;
        self.faults.events.lock().unwrap().push(Event::Note);
        match &mut *self.faults.notes_left.lock().unwrap() {
            None => Ok(()),
            Some((0, error)) => Err(error.clone()),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// Once it is written.
    fn answer_note(&self) -> Result<(), MetadataError> {
        self.faults.noted_unheard.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl AccessStore for FaultyMetadata {
    async fn keys(&self, known: Option<Revision>) -> Result<Option<Keys>, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.keys(known).await
    }

    async fn change_key(&self, change: KeyChange, context: ChangeContext) -> Result<ApiKey, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.change_key(change, context).await
    }

    async fn note_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.note_uses(uses).await
    }

    async fn note_erasure(&self, erasure: Erasure, context: ChangeContext) -> Result<ErasureEntry, MetadataError> {
        self.meet_note().await?;
        let noted = self.inner.note_erasure(erasure, context).await?;
        self.answer_note().map(|()| noted)
    }

    async fn note_server_change(
        &self,
        change: ServerChange,
        context: ChangeContext,
    ) -> Result<ServerChangeEntry, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.note_server_change(change, context).await
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.audit(filter, before, page_size).await
    }
}

#[async_trait]
impl JobStore for FaultyMetadata {
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.jobs().await
    }

    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError> {
        self.faults.meet_metadata().await?;
        self.faults.events.lock().unwrap().push(Event::Note);
        self.inner.put_job(job).await
    }

    async fn begin_job(&self, job: &Job, note: Erasure, context: ChangeContext) -> Result<(), MetadataError> {
        self.meet_note().await?;
        self.inner.begin_job(job, note, context).await?;
        self.answer_note()
    }

    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.forget_job(id).await
    }
}

#[async_trait]
impl MetadataStore for FaultyMetadata {
    async fn apply(&self, change: Change, context: ChangeContext) -> Result<Applied, MetadataError> {
        self.faults.meet_metadata().await?;
        if let Change::FinishIndex { id, index, .. } = &change {
            self.faults.events.lock().unwrap().push(Event::Note);
            self.faults.finishes_held.subscribe().wait_for(|held| !held).await.unwrap();
            let made_anew = self.faults.made_anew.lock().unwrap().take();
            if let Some(creation) = made_anew {
                let (id, version) = (id.clone(), index.version.clone());
                let deletion = Change::DeleteVersion { id, version, condition: Precondition::None };
                self.inner.apply(deletion, context.clone()).await?;
                self.inner.apply(creation, context.clone()).await?;
            }
        }
        self.inner.apply(change, context).await
    }

    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>> {
        let mut outcomes = Vec::new();
        for (change, context) in changes {
            outcomes.push(self.apply(change, context).await);
        }
        outcomes
    }

    fn together_max(&self) -> usize {
        self.inner.together_max()
    }

    async fn settle(&self) -> Result<(), MetadataError> {
        self.inner.settle().await
    }

    async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError> {
        self.faults.meet_metadata().await?;
        if self.faults.every_other_reading.load(SeqCst) && self.faults.reading_went_well.swap(false, SeqCst) {
            let key = id.to_string();
            return Err(MetadataError::DatabaseInconsistency { table: "list_feature", column: "labels", key });
        }
        self.faults.reading_went_well.store(true, SeqCst);
        self.inner.feature(id).await
    }

    fn is_shared(&self) -> bool {
        self.faults.shares_definitions.load(SeqCst)
    }

    async fn features(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.features(filter, after, page_size).await
    }

    async fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.history(id, before, page_size).await
    }

    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.each_definition(each).await
    }

    async fn generations(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError> {
        self.faults.meet_metadata().await?;
        self.inner.generations(entity_type).await
    }

    async fn close(&self) {}
}
