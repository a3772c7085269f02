//! Definitions on one machine: the current state in memory, with every change in a [`Journal`] first.
//!
//! The memory store and the embedded store differ only in their journal. Keys are in `keys.rs`.

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

mod compact;
mod jobs;
mod keys;
mod packed;
mod past;
mod recent;
mod together;

pub use packed::PackedFeatures;
pub use past::PastGenerations;
use recent::RecentChanges;

/// The largest number of changes that are made together, because readers of the store wait for all of them.
const TOGETHER_MAX: usize = 64;

/// Storage of changes. Its content at the start is the store's first state.
pub trait Journal: Send + 'static {
    /// Stores consecutive changes, all of them or none, before any reader sees them.
    fn append(&mut self, transitions: &[Transition]) -> Result<(), MetadataError>;

    /// As [`MetadataStore::settle`].
    fn settle(&mut self) -> Result<(), MetadataError>;

    /// Stores a change of a key, as [`Self::append`].
    fn append_key(&mut self, transition: &KeyTransition) -> Result<(), MetadataError>;

    /// Stores an entry of the audit trail, and the state of its job, as [`Self::append`].
    fn append_erasure(&mut self, entry: &ErasureEntry, job: Option<&Job>) -> Result<(), MetadataError>;

    /// Stores an entry of the audit trail, as [`Self::append`].
    fn append_server_change(&mut self, entry: &ServerChangeEntry) -> Result<(), MetadataError>;

    /// All jobs, in the order of their IDs.
    fn jobs(&self) -> Result<Vec<Job>, MetadataError>;

    /// Stores a job, and replaces its previous state.
    fn keep_job(&mut self, job: &Job) -> Result<(), MetadataError>;

    fn forget_job(&mut self, id: JobId) -> Result<(), MetadataError>;

    /// Stores when keys were last used.
    fn note_uses(&mut self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError>;

    /// As [`AccessStore::audit`](super::AccessStore::audit).
    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError>;

    /// Called after an interrupted change with an unknown extent. [`Self::recover`] must then read everything again. A
    /// journal that lives as long as the state need not do anything.
    fn release(&mut self) {}

    /// Called before every other use of the journal. A failed journal recovers here, and then returns its state,
    /// because a change with an unknown outcome may be in it. An error means that it has not recovered yet.
    fn recover(&mut self) -> Result<Option<State>, MetadataError> {
        Ok(None)
    }

    /// Its whole current content.
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
    /// The last generation of each (feature, version) that existed and was deleted.
    pub past: PastGenerations,
    pub keys: BTreeMap<KeyId, ApiKey>,
}

impl State {
    /// Applies a change of a feature, which was `before`.
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

    /// Whether a generation of a version existed and was deleted.
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

/// A metadata store of one process. One lock makes changes sequential.
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
            inner.journal.release();
            inner
        })
    }

    /// The store with a working journal.
    fn lock_recovered(&self) -> Result<MutexGuard<'_, Inner<J>>, MetadataError> {
        let mut inner = self.lock();
        inner.recover()?;
        Ok(inner)
    }
}

impl<J: Journal> Inner<J> {
    fn recover(&mut self) -> Result<(), MetadataError> {
        if let Some(state) = self.journal.recover()? {
            let known = self.state.revision;
            let is_back = state.revision < known;
            if is_back {
                tracing::error!(
                    found = state.revision.0,
                    acknowledged = known.0,
                    "the metadata file went back: its last changes are lost"
                );
            }
            // Readers that have a lost change, or another change of its revision, must read everything.
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
        self.lock_recovered()?.apply(vec![(change, context)]).pop().unwrap_or_else(|| Err(unanswered()))
    }

    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>> {
        match self.lock_recovered() {
            Ok(mut inner) => inner.apply(changes),
            Err(error) => changes.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn together_max(&self) -> usize {
        TOGETHER_MAX
    }

    async fn settle(&self) -> Result<(), MetadataError> {
        self.lock_recovered()?.journal.settle()
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
        self.lock_recovered()?.journal.history(id, before, page_size)
    }

    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError> {
        // A journal that cannot recover yet may contain a change that the state lacks.
        let inner = self.lock_recovered()?;
        let features = &inner.state.features;
        for feature in features.iter() {
            each(&feature?, features.len());
        }
        Ok(inner.state.revision)
    }

    async fn changes(&self, since: Revision) -> Result<Option<Changes>, MetadataError> {
        let inner = self.lock_recovered()?;
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
        self.lock_recovered()?.state.generations_of(entity_type)
    }

    fn freeze(&self) -> Result<Frozen<'_>, MetadataError> {
        let inner = self.lock_recovered()?;
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
