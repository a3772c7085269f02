//! Definitions in memory, for tests: nothing survives the process.

use std::collections::HashMap;

use super::change::Transition;
use super::local::{Journal, LocalStore, State};
use super::{HistoryEntry, MetadataError, Page};
use crate::domain::{FeatureId, Limit, Revision};

/// The history of each feature, oldest first.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    entries: HashMap<FeatureId, Vec<HistoryEntry>>,
}

/// A metadata store that forgets everything when it is dropped.
pub fn memory_store() -> LocalStore<MemoryJournal> {
    LocalStore::new(State::default(), MemoryJournal::default())
}

impl Journal for MemoryJournal {
    fn append(&mut self, transition: &Transition) -> Result<(), MetadataError> {
        self.entries.entry(transition.id.clone()).or_default().push(transition.entry.clone());
        Ok(())
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
