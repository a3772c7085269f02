//! Changes of lists, as queued, logged, stored in the memtable, and applied to heads.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::list_id::ListId;

/// One change to one list, in the form of the log.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds the items of a row, or deletes the items that it marks as deleted.
    Row(Bytes),
    /// Removes everything older.
    Clear,
    /// Both: removes everything older, and adds the items of a row without deleted ones. The log contains it as the
    /// two.
    Replace(Bytes),
}

impl Change {
    /// Bytes of its items.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Row(row) | Self::Replace(row) => row.len(),
            Self::Clear => 0,
        }
    }
}

/// A change with its list.
#[derive(Debug, Clone)]
pub struct ListChange {
    pub list: ListId,
    pub change: Change,
    /// The oldest timestamp of the change's row.
    pub oldest: u64,
}

/// Changes to one or several different lists, all or nothing. One frame of the log contains them, and readers see them
/// at one moment. Nearly all are of one list, and need no further memory.
#[derive(Debug, Clone)]
pub struct Changes(SmallVec<[ListChange; 1]>);

impl Changes {
    /// `oldest` is the oldest timestamp of the change's row.
    pub fn of(list: ListId, change: Change, oldest: u64) -> Self {
        Self(smallvec![ListChange { list, change, oldest }])
    }

    /// Each change has the oldest timestamp of its row. `None` if there are none.
    pub fn of_each(changes: impl Iterator<Item = (ListId, Change, u64)>) -> Option<Self> {
        let changes = changes.map(|(list, change, oldest)| ListChange { list, change, oldest });
        let changes: SmallVec<[ListChange; 1]> = changes.collect();
        debug_assert!(
            changes.iter().enumerate().all(|(i, one)| changes[..i].iter().all(|other| other.list != one.list)),
            "a removal of all items must be the only change of its list"
        );
        (!changes.is_empty()).then_some(Self(changes))
    }

    pub fn as_slice(&self) -> &[ListChange] {
        &self.0
    }

    /// Bytes of their items.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|one| one.change.bytes()).sum()
    }
}
