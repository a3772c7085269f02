//! Jobs, in a separate table.

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::tables::Failure;
use super::{JournalError, items_at};
use crate::domain::JobId;
use crate::metadata::MetadataError;
use crate::metadata::jobs::{self, Job};
use crate::metadata::keys::record::Broken;

/// Jobs by their IDs.
pub(super) const JOBS: TableDefinition<&str, &str> = TableDefinition::new("jobs");

/// A job as it is stored, with its key.
pub(super) struct Record(String, String);

pub(super) fn record(job: &Job) -> Result<Record, MetadataError> {
    let reason = "cannot serialize a job";
    let failed = |_| MetadataError::Internal { reason: reason.into(), outcome_unknown: false };
    Ok(Record(job.id.to_string(), jobs::write(job).map_err(failed)?))
}

/// Stores a job in a transaction.
pub(super) fn put(transaction: &WriteTransaction, Record(id, text): &Record) -> Result<(), redb::Error> {
    transaction.open_table(JOBS)?.insert(id.as_str(), text.as_str())?;
    Ok(())
}

pub(super) fn write(database: &Database, record: &Record, items_at: Option<u64>) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    put(&transaction, record)?;
    items_at::note(&transaction, items_at)?;
    transaction.commit().map_err(|error| Failure { error: error.into(), outcome_unknown: true })
}

pub(super) fn remove(database: &Database, id: JobId) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.open_table(JOBS)?.remove(id.to_string().as_str())?;
    transaction.commit().map_err(|error| Failure { error: error.into(), outcome_unknown: true })
}

pub(super) fn read(database: &Database) -> Result<Vec<Job>, JournalError> {
    let transaction = database.begin_read()?;
    let mut found = Vec::new();
    for row in transaction.open_table(JOBS)?.iter()? {
        let (id, text) = row?;
        let job = jobs::read(text.value().as_bytes()).map_err(|Broken(column)| {
            let (table, key) = ("jobs", id.value().to_owned());
            JournalError::Inconsistent(MetadataError::DatabaseInconsistency { table, column, key })
        })?;
        found.push(job);
    }
    Ok(found)
}
