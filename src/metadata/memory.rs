//! Definitions in memory, for tests: nothing survives the process.

use std::collections::{BTreeMap, HashMap};

use super::change::Transition;
use super::jobs::Job;
use super::keys::change::KeyTransition;
use super::keys::erasures::ErasureEntry;
use super::keys::server_changes::ServerChangeEntry;
use super::keys::{AUDIT_SCANNED_MAX, AuditEntry, AuditFilter, AuditPage};
use super::local::{Journal, LocalStore, State};
use super::{HistoryEntry, MetadataError, Page};
use crate::domain::{FeatureId, JobId, KeyId, Limit, Revision, Timestamp};

/// The history of each feature and the complete history, oldest first.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    entries: HashMap<FeatureId, Vec<HistoryEntry>>,
    audit: Vec<AuditEntry>,
    jobs: BTreeMap<JobId, Job>,
}

/// A metadata store without persistence.
pub fn memory_store() -> LocalStore<MemoryJournal> {
    LocalStore::new(State::default(), MemoryJournal::default())
}

impl Journal for MemoryJournal {
    fn append(&mut self, transitions: &[Transition]) -> Result<(), MetadataError> {
        for transition in transitions {
            self.entries.entry(transition.id.clone()).or_default().push(transition.entry.clone());
            self.audit.push(AuditEntry::Feature(transition.id.clone(), transition.entry.clone()));
            self.jobs.extend(transition.job.iter().map(|job| (job.id, job.clone())));
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), MetadataError> {
        Ok(())
    }

    fn append_key(&mut self, transition: &KeyTransition) -> Result<(), MetadataError> {
        self.audit.push(AuditEntry::Key(transition.entry.clone()));
        Ok(())
    }

    fn append_erasure(&mut self, entry: &ErasureEntry, job: Option<&Job>) -> Result<(), MetadataError> {
        self.audit.push(AuditEntry::Erasure(entry.clone()));
        self.jobs.extend(job.map(|job| (job.id, job.clone())));
        Ok(())
    }

    fn append_server_change(&mut self, entry: &ServerChangeEntry) -> Result<(), MetadataError> {
        self.audit.push(AuditEntry::Server(entry.clone()));
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
        let older = |before| self.audit.partition_point(|entry| entry.revision() < before);
        let end = before.map_or(self.audit.len(), older);
        let begin = end.saturating_sub(AUDIT_SCANNED_MAX);
        let scanned = self.audit.get(begin..end).unwrap_or_default();
        let mut matches = scanned.iter().rev().filter(|entry| filter.matches(entry));
        let entries: Vec<_> = matches.by_ref().take(page_size.get()).cloned().collect();
        let scanned_from = scanned.first().filter(|_| begin > 0).map(AuditEntry::revision);
        Ok(AuditPage::of(Page { entries, more: matches.next().is_some() }, scanned_from))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::GivenProperties;
    use crate::domain::{Author, EntityType, FeatureName, Ttl};
    use crate::metadata::keys::AccessStore;
    use crate::metadata::keys::erasures::{Erasure, ErasureAction};
    use crate::metadata::{Calls, ChangeContext, MetadataStore, NewFeature, Precondition};

    fn id(name: &str) -> FeatureId {
        FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() }
    }

    fn new_feature(name: &str) -> NewFeature {
        let bags = NewFeature::of_bags(EntityType::new("user").unwrap(), None);
        NewFeature { id: id(name), ..bags }
    }

    /// So the catalog follows a note in the audit trail without reading all definitions.
    #[tokio::test]
    async fn changes_since_a_revision_are_returned() {
        let store = memory_store();
        let context = || ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
        for name in ["a", "b", "c"] {
            store.create_feature(new_feature(name), context()).await.unwrap();
        }
        let patch = GivenProperties { ttl: Some(Ttl::MIN), ..GivenProperties::default() }.into();
        let changed = store.update_feature(&id("c"), patch, Precondition::None, context()).await.unwrap();
        store.delete_feature(&id("a"), Precondition::None, context()).await.unwrap();
        let erasure =
            Erasure { action: ErasureAction::EraseEntity, target: "entity:user/u".into(), details: json!({}) };
        store.note_erasure(erasure, context()).await.unwrap();
        let reported = async |since| store.changes(Revision(since)).await.unwrap().unwrap();
        assert_eq!(reported(3).await.revision, Revision(6));
        assert_eq!(reported(3).await.features, [(id("a"), None), (id("c"), Some(changed.clone()))]);
        assert_eq!(reported(4).await.features, [(id("a"), None)]);
        assert_eq!(reported(5).await.features, []);
    }

    #[test]
    fn a_page_of_the_audit_trail_reads_a_bounded_number_of_entries() {
        let mut journal = MemoryJournal::default();
        let entries = 2 * AUDIT_SCANNED_MAX as u64 + 1;
        for revision in 1..=entries {
            let target = format!("entity:user/u-{revision}");
            let erasure = Erasure { action: ErasureAction::EraseEntity, target, details: json!({}) };
            let entry = ErasureEntry {
                revision: Revision(revision),
                at: Timestamp::from_nanos(revision).unwrap(),
                by: Author::anonymous(),
                erasure,
            };
            journal.append_erasure(&entry, None).unwrap();
        }
        let oldest = AuditFilter { target: Some("entity:user/u-1".to_owned()), ..AuditFilter::default() };
        let page = |before| journal.audit(&oldest, before, Limit::of_page(1).unwrap()).unwrap();
        for before in [None, Some(Revision(entries + 1))] {
            let first = page(before);
            assert_eq!((first.entries.len(), first.next), (0, Some(Revision(AUDIT_SCANNED_MAX as u64 + 2))));
        }
        let second = page(Some(Revision(AUDIT_SCANNED_MAX as u64 + 2)));
        assert_eq!((second.entries.len(), second.next), (0, Some(Revision(2))));
        let last = page(second.next);
        assert_eq!((last.entries.len(), last.next), (1, None));
    }
}
