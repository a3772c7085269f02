//! Definitions in memory, for tests: nothing survives the process.

use std::collections::{BTreeMap, HashMap};

use super::change::Transition;
use super::jobs::Job;
use super::keys::change::KeyTransition;
use super::keys::erasures::ErasureEntry;
use super::keys::{AuditEntry, AuditFilter, AuditPage};
use super::local::{Journal, LocalStore, State};
use super::{HistoryEntry, MetadataError, Page};
use crate::domain::{FeatureId, JobId, KeyId, Limit, Revision, Timestamp};

/// The history of each feature and that of everything, oldest first.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    entries: HashMap<FeatureId, Vec<HistoryEntry>>,
    audit: Vec<AuditEntry>,
    jobs: BTreeMap<JobId, Job>,
}

/// A metadata store that forgets everything when it is dropped.
pub fn memory_store() -> LocalStore<MemoryJournal> {
    LocalStore::new(State::default(), MemoryJournal::default())
}

impl Journal for MemoryJournal {
    fn append(&mut self, transition: &Transition) -> Result<(), MetadataError> {
        self.entries.entry(transition.id.clone()).or_default().push(transition.entry.clone());
        self.audit.push(AuditEntry::Feature(transition.id.clone(), transition.entry.clone()));
        Ok(())
    }

    fn append_key(&mut self, transition: &KeyTransition) -> Result<(), MetadataError> {
        self.audit.push(AuditEntry::Key(transition.entry.clone()));
        Ok(())
    }

    fn append_erasure(&mut self, entry: &ErasureEntry) -> Result<(), MetadataError> {
        self.audit.push(AuditEntry::Erasure(entry.clone()));
        Ok(())
    }

    fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        Ok(self.jobs.values().cloned().collect())
    }

    fn keep_job(&mut self, job: &Job) -> Result<(), MetadataError> {
        self.jobs.insert(job.id, job.clone());
        Ok(())
    }

    fn forget_job(&mut self, id: JobId) -> Result<(), MetadataError> {
        self.jobs.remove(&id);
        Ok(())
    }

    /// The state has them already, and lives as long.
    fn note_uses(&mut self, _: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        Ok(())
    }

    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        let older = |entry: &&AuditEntry| before.is_none_or(|before| entry.revision() < before);
        let mut matches = self.audit.iter().rev().filter(older).filter(|entry| filter.matches(entry));
        let entries: Vec<_> = matches.by_ref().take(page_size.get()).cloned().collect();
        Ok(Page { entries, more: matches.next().is_some() }.into())
    }

    fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        Ok(self.entries.get(id).map(|entries| {
            let older = |entry: &&HistoryEntry| before.is_none_or(|before| entry.revision < before);
            let mut matches = entries.iter().rev().filter(older);
            let entries = matches.by_ref().take(page_size.get()).cloned().collect();
            Page { entries, more: matches.next().is_some() }
        }))
    }
}
