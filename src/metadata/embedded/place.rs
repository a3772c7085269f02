//! The place of each revision's entry, so that the complete audit trail has one order. Every change notes its place in
//! its transaction.

use redb::{TableDefinition, WriteTransaction};

use super::tables::META;
use crate::domain::Revision;

/// By revision: the kind of its entry and, for a feature, the key of its history.
pub(super) const PLACES: TableDefinition<u64, (u8, &str)> = TableDefinition::new("trail");

/// The place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// In the history of the feature with this key.
    Feature(&'a str),
    Key,
    Erasure,
    Server,
}

impl<'a> Place<'a> {
    pub fn write(self) -> (u8, &'a str) {
        match self {
            Self::Feature(key) => (0, key),
            Self::Key => (1, ""),
            Self::Erasure => (2, ""),
            Self::Server => (3, ""),
        }
    }

    pub fn read((kind, key): (u8, &'a str)) -> Option<Self> {
        match kind {
            0 => Some(Self::Feature(key)),
            1 => Some(Self::Key),
            2 => Some(Self::Erasure),
            3 => Some(Self::Server),
            _ => None,
        }
    }
}

/// Notes the revision of a change, and the place of its entry.
pub(super) fn note(transaction: &WriteTransaction, revision: Revision, place: Place<'_>) -> Result<(), redb::Error> {
    transaction.open_table(PLACES)?.insert(revision.0, place.write())?;
    transaction.open_table(META)?.insert("revision", revision.0)?;
    Ok(())
}
