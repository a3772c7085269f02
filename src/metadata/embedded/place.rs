//! Where the entry of each revision stands, so that the audit trail of everything can be walked in one order. Whoever
//! makes a change notes it here, in the same transaction.
//!
//! Releases that do not know the table go on without it, and a full disk may leave no room to make up for that. So it
//! is kept up to which revision the table is whole: a change notes that only where it was whole before.

use redb::{ReadableTable, StorageError, TableDefinition, WriteTransaction};

use super::tables::META;
use crate::domain::Revision;

/// By revision: which kind its entry is of, and of a feature the key of its history.
pub(super) const PLACES: TableDefinition<u64, (u8, &str)> = TableDefinition::new("trail");

/// In [`META`]: the revision up to which nothing is missing in [`PLACES`].
const WHOLE: &str = "trail";

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// In the history of a feature, which has this key.
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

/// Notes the revision of a change, and where its entry stands.
pub(super) fn note(transaction: &WriteTransaction, revision: Revision, place: Place<'_>) -> Result<(), redb::Error> {
    transaction.open_table(PLACES)?.insert(revision.0, place.write())?;
    let mut meta = transaction.open_table(META)?;
    let was_whole = is_whole(&meta)?;
    meta.insert("revision", revision.0)?;
    if was_whole {
        meta.insert(WHOLE, revision.0)?;
    }
    Ok(())
}

/// Notes that nothing is missing up to the present revision.
pub(super) fn note_whole(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    let revision = meta.get("revision")?.map_or(0, |revision| revision.value());
    meta.insert(WHOLE, revision)?;
    Ok(())
}

/// Whether the places of all entries are noted.
pub(super) fn is_whole(meta: &impl ReadableTable<&'static str, u64>) -> Result<bool, StorageError> {
    let number = |name| Ok::<_, StorageError>(meta.get(name)?.map_or(0, |number| number.value()));
    Ok(number(WHOLE)? == number("revision")?)
}
