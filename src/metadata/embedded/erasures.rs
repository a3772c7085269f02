//! The audit trail of erasures, in a separate table.

use std::collections::BTreeSet;

use redb::{Database, ReadTransaction, ReadableTable, TableDefinition};

use super::place::{self, Place};
use super::tables::Failure;
use super::{JournalError, items_at, jobs};
use crate::domain::Revision;
use crate::metadata::MetadataError;
use crate::metadata::keys::erasures::{self, Erasure, ErasureEntry};
use crate::metadata::keys::record::Broken;

/// Every erasure, by its revision.
pub(super) const ERASURES: TableDefinition<u64, &str> = TableDefinition::new("erasures");

pub(super) fn write(
    database: &Database,
    revision: Revision,
    text: &str,
    job: Option<&jobs::Record>,
    items_at: Option<u64>,
) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.open_table(ERASURES)?.insert(revision.0, text)?;
    place::note(&transaction, revision, Place::Erasure)?;
    if let Some(job) = job {
        jobs::put(&transaction, job)?;
    }
    items_at::note(&transaction, items_at)?;
    transaction.commit().map_err(|error| Failure { error: error.into(), outcome_unknown: true })
}

pub(super) fn read_entry(revision: u64, text: &str) -> Result<ErasureEntry, JournalError> {
    erasures::read(Revision(revision), text.as_bytes()).map_err(|Broken(column)| {
        let (table, key) = ("erasures", revision.to_string());
        JournalError::Inconsistent(MetadataError::DatabaseInconsistency { table, column, key })
    })
}

/// The targets of erasures that began and did not end.
pub(super) fn unended(transaction: &ReadTransaction) -> Result<Vec<String>, JournalError> {
    let mut begun = BTreeSet::new();
    each(transaction, |ErasureEntry { erasure: Erasure { target, details, .. }, .. }| {
        match details["state"].as_str() {
            Some("begun") => begun.insert(target),
            _ => begun.remove(&target),
        };
    })?;
    Ok(begun.into_iter().collect())
}

/// Reads every entry, and counts them.
pub(super) fn read_all(transaction: &ReadTransaction) -> Result<u64, JournalError> {
    let mut entries = 0;
    each(transaction, |_| entries += 1)?;
    Ok(entries)
}

fn each(transaction: &ReadTransaction, mut each: impl FnMut(ErasureEntry)) -> Result<(), JournalError> {
    for row in transaction.open_table(ERASURES)?.iter()? {
        let (revision, text) = row?;
        each(read_entry(revision.value(), text.value())?);
    }
    Ok(())
}
