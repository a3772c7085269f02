//! The recently changed features, so that a reader with an earlier revision need not read all of them.

use std::collections::{BTreeSet, VecDeque};

use crate::domain::{FeatureId, Revision};

/// A reader that is behind by more changes reads everything.
const CHANGES_MAX: usize = 1_000;

/// The last changes of features, oldest first.
#[derive(Debug)]
pub(super) struct RecentChanges {
    /// All later changes are present.
    since: Revision,
    changes: VecDeque<(Revision, FeatureId)>,
}

impl RecentChanges {
    /// Starts without changes after this revision.
    pub fn since(revision: Revision) -> Self {
        Self { since: revision, changes: VecDeque::new() }
    }

    pub fn push(&mut self, revision: Revision, id: FeatureId) {
        if self.changes.len() == CHANGES_MAX
            && let Some((oldest, _)) = self.changes.pop_front()
        {
            self.since = oldest;
        }
        self.changes.push_back((revision, id));
    }

    /// Whether it has all changes after a revision.
    pub fn knows(&self, revision: Revision) -> bool {
        revision >= self.since
    }

    /// The features that changed after a revision; `None` if it lacks some of these changes.
    pub fn after(&self, revision: Revision) -> Option<Vec<FeatureId>> {
        if !self.knows(revision) {
            return None;
        }
        let begin = self.changes.partition_point(|(at, _)| *at <= revision);
        let changed: BTreeSet<_> = self.changes.range(begin..).map(|(_, id)| id).collect();
        Some(changed.into_iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EntityType, FeatureName};

    fn id(name: &str) -> FeatureId {
        FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() }
    }

    #[test]
    fn changes_after_a_revision_are_returned_while_they_are_known() {
        let mut recent = RecentChanges::since(Revision(5));
        assert_eq!((recent.after(Revision(4)), recent.after(Revision(5))), (None, Some(vec![])));
        for (revision, name) in [(6, "b"), (8, "a"), (9, "b")] {
            recent.push(Revision(revision), id(name));
        }
        for (after, names) in [(5, vec!["a", "b"]), (7, vec!["a", "b"]), (8, vec!["b"]), (9, vec![]), (12, vec![])] {
            assert_eq!(recent.after(Revision(after)), Some(names.into_iter().map(id).collect()), "{after}");
        }
        (10..10 + CHANGES_MAX as u64 - 1).for_each(|revision| recent.push(Revision(revision), id("c")));
        assert_eq!(recent.after(Revision(7)), None);
        assert_eq!(recent.after(Revision(8)).map(|changed| changed.len()), Some(2));
    }
}
