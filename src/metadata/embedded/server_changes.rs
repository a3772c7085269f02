//! The audit trail of servers, in a separate table.

use redb::{Database, ReadTransaction, ReadableTable, TableDefinition};

use super::JournalError;
use super::place::{self, Place};
use super::tables::Failure;
use crate::domain::Revision;
use crate::metadata::MetadataError;
use crate::metadata::keys::record::Broken;
use crate::metadata::keys::server_changes::{self, ServerChangeEntry};

/// Every change of a server, by its revision.
pub(super) const SERVER_CHANGES: TableDefinition<u64, &str> = TableDefinition::new("server_changes");

pub(super) fn write(database: &Database, revision: Revision, text: &str) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.open_table(SERVER_CHANGES)?.insert(revision.0, text)?;
    place::note(&transaction, revision, Place::Server)?;
    transaction.commit().map_err(|error| Failure { error: error.into(), outcome_unknown: true })
}

pub(super) fn read_entry(revision: u64, text: &str) -> Result<ServerChangeEntry, JournalError> {
    server_changes::read(Revision(revision), text.as_bytes()).map_err(|Broken(column)| {
        let (table, key) = ("server_changes", revision.to_string());
        JournalError::Inconsistent(MetadataError::DatabaseInconsistency { table, column, key })
    })
}

/// Reads every entry, and counts them.
pub(super) fn read_all(transaction: &ReadTransaction) -> Result<u64, JournalError> {
    let mut entries = 0;
    for row in transaction.open_table(SERVER_CHANGES)?.iter()? {
        let (revision, text) = row?;
        read_entry(revision.value(), text.value())?;
        entries += 1;
    }
    Ok(entries)
}
