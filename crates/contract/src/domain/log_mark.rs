//! How far the log of an item store is durable, for notes about its items in another store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mark that an item store moves forward, and that a metadata store writes next to its notes about items. Clones are
/// the same mark. So notes that are newer than the items next to them can be detected.
#[derive(Debug, Clone, Default)]
pub struct LogMark(Arc<AtomicU64>);

impl LogMark {
    /// All before this place of the log is durable. Of one store, a later place is a larger number.
    pub fn reach(&self, place: u64) {
        self.0.fetch_max(place, Ordering::AcqRel);
    }

    /// `None` before an item store has moved it.
    pub fn place(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|place| *place > 0)
    }
}
