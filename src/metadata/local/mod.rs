//! Definitions on one machine: the present state in memory, every change in a [`Journal`] first.
//!
//! The memory store and the embedded store differ in their journal only. Keys are in `keys.rs`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;

use super::change::Transition;
use super::jobs::Job;
use super::keys::change::KeyTransition;
use super::keys::erasures::{Erasure, ErasureEntry};
use super::keys::server_changes::ServerChangeEntry;
use super::keys::{AuditFilter, AuditPage};
use super::{
    Applied, Change, ChangeContext, Changes, EachDefinition, FeatureFilter, Frozen, HeldUp, HistoryEntry,
    LastGeneration, MetadataError, MetadataStore, Page, Snapshot,
};
use crate::definition::{Feature, FeatureVersion};
use crate::domain::{
    ApiKey, EntityType, FeatureId, Generation, JobId, KeyId, Limit, Revision, Timestamp, VersionLabel,
};

mod jobs;
mod keys;
mod packed;
mod past;
mod recent;
mod together;

pub use packed::PackedFeatures;
pub use past::PastGenerations;
use recent::RecentChanges;

/// Changes that are made together, at most: readers of the store wait for all of them.
const TOGETHER_MAX: usize = 64;

/// Where changes are kept. What it holds at the start is the store's first state.
pub trait Journal: Send + 'static {
    /// Stores changes that follow each other, all of them or nothing, before anybody sees them.
    fn append(&mut self, transitions: &[Transition]) -> Result<(), MetadataError>;

    /// As [`MetadataStore::settle`].
    fn settle(&mut self) -> Result<(), MetadataError>;

    /// Keeps a change of a key, as [`Self::append`].
    fn append_key(&mut self, transition: &KeyTransition) -> Result<(), MetadataError>;

    /// Stores an entry of the audit trail, and the state of its job, as [`Self::append`].
    fn append_erasure(&mut self, entry: &ErasureEntry, job: Option<&Job>) -> Result<(), MetadataError>;

    /// Keeps an entry of the audit trail, as [`Self::append`].
    fn append_server_change(&mut self, entry: &ServerChangeEntry) -> Result<(), MetadataError>;

    /// All jobs, in the order of their ids.
    fn jobs(&self) -> Result<Vec<Job>, MetadataError>;

    /// Keeps a job, in the place of one of its id.
    fn keep_job(&mut self, job: &Job) -> Result<(), MetadataError>;

    fn forget_job(&mut self, id: JobId) -> Result<(), MetadataError>;

    /// Keeps when keys were last used.
    fn note_uses(&mut self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError>;

    /// As [`AccessStore::audit`](super::AccessStore::audit).
    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError>;

    /// Called when a change broke off, so that nobody knows what there is of it: all is to be read again, by
    /// [`Self::mend`]. A journal that lives no longer than the state has nothing else to tell.
    fn let_go(&mut self) {}

    /// Called before anything else is asked of the journal: one that has failed mends itself here,
    /// and then tells the state that it holds, since a change whose outcome was unknown may be in
    /// it. An error says that it has not mended yet.
    fn mend(&mut self) -> Result<Option<State>, MetadataError> {
        Ok(None)
    }

    /// All that it holds now.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, MetadataError> {
        let reason = "this metadata store does not support backups".to_owned();
        Err(MetadataError::Unavailable { reason, outcome_unknown: false })
    }

    /// As [`MetadataStore::history`].
    fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError>;
}

impl<J> HeldUp for MutexGuard<'_, Inner<J>> {}

/// All definitions, generations and keys, as of one revision.
#[derive(Debug, Default, Clone)]
pub struct State {
    pub revision: Revision,
    pub features: PackedFeatures,
    /// The last generation of each (feature, version) that ever was and is not there.
    pub past: PastGenerations,
    pub keys: BTreeMap<KeyId, ApiKey>,
}

impl State {
    /// Follows a change of a feature, which was `before`.
    pub fn apply(&mut self, before: Option<&Feature>, transition: &Transition) {
        let Transition { id, after, began, entry, .. } = transition;
        self.revision = entry.revision;
        for gone in before.into_iter().flat_map(|before| &before.versions) {
            if after.as_ref().is_none_or(|after| after.version(&gone.version).is_none()) {
                self.past.insert(id, &gone.version, gone.generation);
            }
        }
        match after {
            Some(feature) => self.features.insert(feature),
            None => self.features.remove(id),
        }
        if let Some((version, _)) = began {
            self.past.remove(id, version);
        }
    }

    pub fn last_generation(&self, id: &FeatureId, version: &VersionLabel) -> Result<Option<Generation>, MetadataError> {
        let present = self.features.get(id)?;
        let present = present.as_ref().and_then(|feature| feature.version(version)).map(|present| present.generation);
        Ok(present.max(self.past.get(id, version)))
    }

    /// Whether a generation of a version was there, and is not any more.
    pub fn is_past(&self, id: &FeatureId, version: &VersionLabel, generation: Generation) -> bool {
        let Ok(present) = self.features.get(id) else { return false };
        let present = present.as_ref().and_then(|feature| feature.version(version)).map(|present| present.generation);
        let last = present.max(self.past.get(id, version));
        last.is_some_and(|last| generation <= last) && present.is_none_or(|present| generation < present)
    }

    /// As [`MetadataStore::generations`].
    pub fn generations_of(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError> {
        let mut found = self.past.of_type(entity_type);
        for feature in self.features.of_type(entity_type) {
            let Feature { id, versions, .. } = feature?;
            // All of them share the text of the type.
            let id = FeatureId { entity_type: entity_type.clone(), name: id.name };
            found.extend(versions.into_iter().map(|FeatureVersion { version, generation, .. }| LastGeneration {
                id: id.clone(),
                version,
                generation,
            }));
        }
        found.sort_unstable();
        Ok(found)
    }

    pub fn next_revision(&self) -> Revision {
        Revision(self.revision.0 + 1)
    }
}

struct Inner<J> {
    state: State,
    journal: J,
    recent: RecentChanges,
}

/// A metadata store of one process. Changes are made one after another, under one lock.
pub struct LocalStore<J> {
    inner: Mutex<Inner<J>>,
}

impl<J: Journal> LocalStore<J> {
    pub fn new(state: State, journal: J) -> Self {
        let recent = RecentChanges::since(state.revision);
        Self { inner: Mutex::new(Inner { state, journal, recent }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<J>> {
        self.inner.lock().unwrap_or_else(|poisoned| {
            self.inner.clear_poison();
            let mut inner = poisoned.into_inner();
            inner.journal.let_go();
            inner
        })
    }

    /// The store with a journal that works.
    fn lock_mended(&self) -> Result<MutexGuard<'_, Inner<J>>, MetadataError> {
        let mut inner = self.lock();
        inner.mend()?;
        Ok(inner)
    }
}

impl<J: Journal> Inner<J> {
    fn mend(&mut self) -> Result<(), MetadataError> {
        if let Some(state) = self.journal.mend()? {
            let known = self.state.revision;
            let is_back = state.revision < known;
            if is_back {
                tracing::error!(
                    found = state.revision.0,
                    acknowledged = known.0,
                    "the metadata file went back: its last changes are lost"
                );
            }
            // Whoever knows a lost change, or another one of its revision, reads everything.
            self.recent = RecentChanges::since(if is_back { Revision(known.0 + 1) } else { state.revision });
            self.state = state;
        }
        Ok(())
    }

    /// Stores an entry of the audit trail, and a job with it.
    fn note(
        &mut self,
        erasure: Erasure,
        job: Option<&Job>,
        ChangeContext { by, at }: ChangeContext,
    ) -> Result<ErasureEntry, MetadataError> {
        let entry = ErasureEntry { revision: self.state.next_revision(), at, by, erasure };
        self.journal.append_erasure(&entry, job)?;
        self.state.revision = entry.revision;
        Ok(entry)
    }
}

#[async_trait]
impl<J: Journal> MetadataStore for LocalStore<J> {
    async fn apply(&self, change: Change, context: ChangeContext) -> Result<Applied, MetadataError> {
        self.lock_mended()?.apply(vec![(change, context)]).pop().unwrap_or_else(|| Err(unanswered()))
    }

    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>> {
        match self.lock_mended() {
            Ok(mut inner) => inner.apply(changes),
            Err(error) => changes.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn together_max(&self) -> usize {
        TOGETHER_MAX
    }

    async fn settle(&self) -> Result<(), MetadataError> {
        self.lock_mended()?.journal.settle()
    }

    async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError> {
        self.lock().state.features.get(id)
    }

    async fn features(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        self.lock().state.features.page(filter, after, page_size)
    }

    async fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        self.lock_mended()?.journal.history(id, before, page_size)
    }

    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError> {
        // A journal that cannot be mended yet may hold a change that the state lacks.
        let inner = self.lock_mended()?;
        let features = &inner.state.features;
        for feature in features.iter() {
            each(&feature?, features.len());
        }
        Ok(inner.state.revision)
    }

    async fn changes(&self, since: Revision) -> Result<Option<Changes>, MetadataError> {
        let inner = self.lock_mended()?;
        let Inner { state, recent, .. } = &*inner;
        let Some(changed) = recent.after(since).filter(|_| since <= state.revision) else { return Ok(None) };
        let with_state = |id: FeatureId| state.features.get(&id).map(|feature| (id, feature));
        let features = changed.into_iter().map(with_state).collect::<Result<_, _>>()?;
        Ok(Some(Changes { revision: state.revision, features }))
    }

    fn is_past(&self, id: &FeatureId, version: &VersionLabel, generation: Generation) -> bool {
        self.lock().state.is_past(id, version, generation)
    }

    async fn generations(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError> {
        self.lock_mended()?.state.generations_of(entity_type)
    }

    fn freeze(&self) -> Result<Frozen<'_>, MetadataError> {
        let inner = self.lock_mended()?;
        Ok(Frozen { snapshot: inner.journal.snapshot()?, changes: Box::new(inner) })
    }

    async fn close(&self) {
        if let Err(error) = self.settle().await {
            tracing::warn!(%error, "the metadata store could not settle before it was closed");
        }
    }
}

fn unanswered() -> MetadataError {
    MetadataError::Internal { reason: "a change has no outcome".to_owned(), outcome_unknown: true }
}
