//! What is done to a list: what is queued, logged, kept pending, and applied to the heads.

use bytes::Bytes;

/// One change to one list, as the log carries it.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds the items of a row, or deletes those that it marks as deleted.
    Row(Bytes),
    /// Removes all that is older than this.
    Clear,
}

impl Change {
    /// Bytes of the items that it carries.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Row(row) => row.len(),
            Self::Clear => 0,
        }
    }
}
