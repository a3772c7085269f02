//! What is done to lists: what is queued, logged, kept pending, and applied to the heads.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::list_id::ListId;

/// One change to one list, as the log carries it.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds the items of a row, or deletes those that it marks as deleted.
    Row(Bytes),
    /// Removes all that is older than this.
    Clear,
    /// Both: removes all that is older, and adds the items of a row, of which none is deleted. The log carries it as
    /// the two.
    Replace(Bytes),
}

impl Change {
    /// Bytes of the items that it carries.
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

/// Changes to one list or several, each of another one. All of them are there or none: they go into one
/// frame of the log, and readers see them at one moment. Nearly all are of one list, and take no memory
/// beside it.
#[derive(Debug, Clone)]
pub struct Changes(SmallVec<[ListChange; 1]>);

impl Changes {
    /// `oldest` is the oldest timestamp of the change's row.
    pub fn of(list: ListId, change: Change, oldest: u64) -> Self {
        Self(smallvec![ListChange { list, change, oldest }])
    }

    /// Each with the oldest timestamp of its row. `None` if there are none.
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

    /// Bytes of the items that they carry.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|one| one.change.bytes()).sum()
    }
}
