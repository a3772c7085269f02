//! Where row tombstones must be replaced by range tombstones: near some deleted rows, and where a read was refused.

use super::noted::{Noted, ToCheck};
use crate::domain::{ListKey, Order};
use crate::items::StoreError;

/// One deletion of so many has its neighbourhood swept.
const DELETIONS_A_SWEEP: u32 = 512;

/// Where rows are swept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub list: ListKey,
    pub key: String,
    /// From the key on in this order; on both sides without one.
    pub order: Option<Order>,
}

/// The places of one session.
#[derive(Debug, Default)]
pub struct ToSweep {
    deletions: Noted<Place>,
    refusals: Noted<Place>,
}

impl ToSweep {
    /// Has the neighbourhood of some deleted rows of a partition swept, once these deletions are settled.
    pub fn deleted<K: ToString>(&self, list: &ListKey, keys: impl IntoIterator<Item = K>) {
        for key in keys {
            if fastrand::u32(..DELETIONS_A_SWEEP) == 0 {
                self.deletions.note(Place { list: list.clone(), key: key.to_string(), order: None });
            }
        }
    }

    /// Has the rows swept from a key on, if a read that began there was refused for its tombstones.
    pub fn check<T>(
        &self,
        read: Result<T, StoreError>,
        (list, key, order): (&ListKey, &str, Order),
    ) -> Result<T, StoreError> {
        if matches!(read, Err(StoreError::TooManyTombstones { .. })) {
            self.refusals.note(Place { list: list.clone(), key: key.to_owned(), order: Some(order) });
        }
        read
    }

    /// The next place near a deleted row: for one caller at a time.
    pub async fn next_of_deletions(&self) -> ToCheck<Place> {
        self.deletions.next().await
    }

    /// The next place where a read was refused: for one caller at a time.
    pub async fn next_of_refusals(&self) -> ToCheck<Place> {
        self.refusals.next().await
    }
}
