//! The memory store of definitions as if other servers shared it: they change it, with or without a notification, and
//! it can be unavailable.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use liststore::definition::Feature;
use liststore::domain::{ApiKey, Author, EntityType, FeatureId, JobId, KeyId, Limit, Revision, Timestamp};
use liststore::metadata::jobs::Job;
use liststore::metadata::keys::erasures::{Erasure, ErasureEntry};
use liststore::metadata::keys::server_changes::{ServerChange, ServerChangeEntry};
use liststore::metadata::keys::{AuditFilter, AuditPage, KeyChange, Keys};
use liststore::metadata::local::LocalStore;
use liststore::metadata::memory::{MemoryJournal, memory_store};
use liststore::metadata::{
    AccessStore, Applied, Calls, Change, ChangeContext, Changes, EachDefinition, FeatureFilter, Frozen, HistoryEntry,
    JobStore, LastGeneration, MetadataError, MetadataStore, NewFeature, News, Page,
};
use tokio::sync::{Mutex as Turns, Notify, watch};

pub struct SharedStore {
    inner: LocalStore<MemoryJournal>,
    shared: bool,
    /// Whether definitions cannot be read; everything else works.
    unreadable: AtomicBool,
    /// Whether creations wait until this is over.
    stalled: watch::Sender<bool>,
    creations_begun: AtomicUsize,
    /// How many changes were made together, each time.
    together: Mutex<Vec<usize>>,
    news: Turns<Vec<News>>,
    /// Whether the next wait for news panics, and the next full reading.
    news_panic: AtomicBool,
    reading_panics: AtomicBool,
    reported: Notify,
    /// Changes by other servers that are not in the revision of a reader.
    changed: Mutex<Vec<(FeatureId, Option<Feature>)>>,
    full_readings: AtomicUsize,
    readings_of_changes: AtomicUsize,
    closed: AtomicBool,
}

impl SharedStore {
    pub fn new(shared: bool) -> Self {
        Self {
            inner: memory_store(),
            shared,
            unreadable: AtomicBool::default(),
            stalled: watch::Sender::new(false),
            creations_begun: AtomicUsize::default(),
            together: Mutex::default(),
            news: Turns::default(),
            news_panic: AtomicBool::default(),
            reading_panics: AtomicBool::default(),
            reported: Notify::new(),
            changed: Mutex::default(),
            full_readings: AtomicUsize::default(),
            readings_of_changes: AtomicUsize::default(),
            closed: AtomicBool::default(),
        }
    }

    /// Another server creates a feature.
    pub async fn create_elsewhere(&self, new: NewFeature) {
        let context = ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
        let feature = self.inner.create_feature(new, context).await.unwrap();
        self.changed.lock().unwrap().push((feature.id.clone(), Some(feature)));
    }

    pub async fn notify(&self, news: News) {
        self.news.lock().await.push(news);
        self.reported.notify_one();
    }

    pub fn be_unreadable(&self, unreadable: bool) {
        self.unreadable.store(unreadable, SeqCst);
    }

    /// The next wait for news panics.
    pub fn panic_in_news(&self) {
        self.news_panic.store(true, SeqCst);
        self.reported.notify_one();
    }

    /// The next reading of all definitions panics.
    pub fn panic_in_reading(&self) {
        self.reading_panics.store(true, SeqCst);
    }

    pub fn stall(&self, stalled: bool) {
        self.stalled.send_replace(stalled);
    }

    pub fn creations_begun(&self) -> usize {
        self.creations_begun.load(SeqCst)
    }

    /// How many changes were made together, each time.
    pub fn together(&self) -> Vec<usize> {
        self.together.lock().unwrap().clone()
    }

    /// The number of complete readings of definitions, or of attempts.
    pub fn full_readings(&self) -> usize {
        self.full_readings.load(SeqCst)
    }

    pub fn readings_of_changes(&self) -> usize {
        self.readings_of_changes.load(SeqCst)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    fn readable(&self) -> Result<(), MetadataError> {
        if self.unreadable.load(SeqCst) {
            return Err(MetadataError::Unavailable { reason: "unreadable".into(), outcome_unknown: false });
        }
        Ok(())
    }
}

#[async_trait]
impl AccessStore for SharedStore {
    async fn keys(&self, known: Option<Revision>) -> Result<Option<Keys>, MetadataError> {
        self.inner.keys(known).await
    }

    async fn change_key(&self, change: KeyChange, context: ChangeContext) -> Result<ApiKey, MetadataError> {
        self.inner.change_key(change, context).await
    }

    async fn note_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        self.inner.note_uses(uses).await
    }

    async fn note_erasure(&self, erasure: Erasure, context: ChangeContext) -> Result<ErasureEntry, MetadataError> {
        self.inner.note_erasure(erasure, context).await
    }

    async fn note_server_change(
        &self,
        change: ServerChange,
        context: ChangeContext,
    ) -> Result<ServerChangeEntry, MetadataError> {
        self.inner.note_server_change(change, context).await
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        self.inner.audit(filter, before, page_size).await
    }
}

#[async_trait]
impl JobStore for SharedStore {
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        self.inner.jobs().await
    }

    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError> {
        self.inner.put_job(job).await
    }

    async fn begin_job(&self, job: &Job, note: Erasure, context: ChangeContext) -> Result<(), MetadataError> {
        self.inner.begin_job(job, note, context).await
    }

    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError> {
        self.inner.forget_job(id).await
    }
}

#[async_trait]
impl MetadataStore for SharedStore {
    async fn apply(&self, change: Change, context: ChangeContext) -> Result<Applied, MetadataError> {
        self.apply_together(vec![(change, context)]).await.pop().unwrap()
    }

    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>> {
        self.together.lock().unwrap().push(changes.len());
        let creations = changes.iter().filter(|(change, _)| matches!(change, Change::CreateFeature(_))).count();
        if creations > 0 {
            self.creations_begun.fetch_add(creations, SeqCst);
            self.stalled.subscribe().wait_for(|stalled| !stalled).await.unwrap();
        }
        self.inner.apply_together(changes).await
    }

    fn together_max(&self) -> usize {
        self.inner.together_max()
    }

    async fn settle(&self) -> Result<(), MetadataError> {
        self.inner.settle().await
    }

    async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError> {
        self.inner.feature(id).await
    }

    async fn features(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        self.inner.features(filter, after, page_size).await
    }

    async fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        self.inner.history(id, before, page_size).await
    }

    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError> {
        self.full_readings.fetch_add(1, SeqCst);
        assert!(!self.reading_panics.swap(false, SeqCst), "injected panic");
        self.readable()?;
        self.inner.each_definition(each).await
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    async fn news(&self) -> News {
        loop {
            assert!(!self.news_panic.swap(false, SeqCst), "injected panic");
            if let Some(news) = self.news.lock().await.pop() {
                return news;
            }
            self.reported.notified().await;
        }
    }

    async fn changes(&self, _since: Revision) -> Result<Option<Changes>, MetadataError> {
        self.readings_of_changes.fetch_add(1, SeqCst);
        self.readable()?;
        let revision = self.inner.definitions().await?.revision;
        // Repeated notifications: a change that is already known changes nothing.
        Ok(Some(Changes { revision, features: self.changed.lock().unwrap().clone() }))
    }

    async fn generations(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError> {
        self.inner.generations(entity_type).await
    }

    fn freeze(&self) -> Result<Frozen<'_>, MetadataError> {
        self.inner.freeze()
    }

    async fn close(&self) {
        self.closed.store(true, SeqCst);
    }
}
