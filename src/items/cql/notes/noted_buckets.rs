//! Which rows of directories this session has written lately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ListKey;

/// For how long, in microseconds of write timestamps, a row of a directory stands for the items that follow it. A row
/// is deleted only if it is older than the deletion of its bucket by more than this.
pub const HELD: i64 = 600_000_000;

/// Rows that are remembered.
const REMEMBERED_MAX: usize = 20_000;

/// A row of a directory.
#[derive(Debug, Clone, Copy)]
struct Note {
    write_timestamp: i64,
    /// No item that expires later, in nanoseconds since the Unix epoch, may rely on it.
    until: u64,
}

/// The bytes of a list's key, and the name of a bucket.
type Place = (Arc<[u8]>, String);

/// The rows that one session has written.
#[derive(Debug, Default)]
pub struct NotedBuckets(Mutex<HashMap<Place, Note>>);

impl NotedBuckets {
    fn notes(&self) -> MutexGuard<'_, HashMap<Place, Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether items that are written with this timestamp, and expire by then, need no other row.
    pub fn holds(&self, list: &ListKey, name: &str, write_timestamp: i64, expires_at: u64) -> bool {
        let note = self.notes().get(&(Arc::clone(list.bytes()), name.to_owned())).copied();
        note.is_some_and(|note| write_timestamp - note.write_timestamp <= HELD && expires_at <= note.until)
    }

    /// Remembers a row that was written.
    pub fn written(&self, list: &ListKey, name: &str, write_timestamp: i64, until: u64) {
        let mut notes = self.notes();
        if notes.len() >= REMEMBERED_MAX {
            notes.retain(|_, note| write_timestamp - note.write_timestamp <= HELD);
        }
        if notes.len() >= REMEMBERED_MAX {
            notes.clear();
        }
        notes.insert((Arc::clone(list.bytes()), name.to_owned()), Note { write_timestamp, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, VersionLabel};

    fn list(entity: &str) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity).unwrap())
    }

    #[test]
    fn a_row_is_trusted_for_a_while_and_its_expiry() {
        let noted = NotedBuckets::default();
        let holds = |entity, name, at, expires_at| noted.holds(&list(entity), name, at, expires_at);
        assert!(!holds("a", "2026", 5, 7));
        noted.written(&list("a"), "2026", 5, 7);
        assert!(holds("a", "2026", 5, 7) && holds("a", "2026", 5 + HELD, 6));
        assert!(!holds("a", "2026", 6 + HELD, 6), "it may be deleted with its bucket");
        assert!(!holds("a", "2026", 5, 8), "it is gone before");
        assert!(!holds("b", "2026", 5, 7) && !holds("a", "2025", 5, 7));
    }

    #[test]
    fn remembered_rows_are_bounded() {
        let noted = NotedBuckets::default();
        for n in 0..REMEMBERED_MAX as i64 {
            noted.written(&list("a"), &n.to_string(), if n < 10 { 0 } else { HELD }, 7);
        }
        noted.written(&list("b"), "2026", HELD + 1, 7);
        assert_eq!(noted.notes().len(), REMEMBERED_MAX - 10 + 1, "old ones go first");
        (0..10).for_each(|n| noted.written(&list("b"), &n.to_string(), HELD + 1, 7));
        assert!(noted.notes().len() <= REMEMBERED_MAX);
    }
}
