//! Keys in the journal's file, in separate tables.

use redb::{Database, ReadTransaction, ReadableTable, TableDefinition};

use super::JournalError;
use super::place::{self, Place};
use super::tables::Failure;
use crate::domain::{ApiKey, KeyId, Revision, Timestamp};
use crate::metadata::MetadataError;
use crate::metadata::keys::KeyHistoryEntry;
use crate::metadata::keys::change::KeyTransition;
use crate::metadata::keys::record::{self, Broken};

/// Keys by their IDs.
pub(super) const KEYS: TableDefinition<&str, &str> = TableDefinition::new("api_keys");
/// The last use of each key, in nanoseconds since the Unix epoch. It is no part of the key.
pub(super) const USES: TableDefinition<&str, u64> = TableDefinition::new("api_key_uses");
/// Every change of a key, by its revision.
pub(super) const KEY_HISTORY: TableDefinition<u64, &str> = TableDefinition::new("api_key_history");

fn inconsistent(table: &'static str, key: &str) -> impl FnOnce(Broken) -> JournalError + use<> {
    let key = key.to_owned();
    move |Broken(column)| JournalError::Inconsistent(MetadataError::DatabaseInconsistency { table, column, key })
}

pub(super) fn write(
    database: &Database,
    KeyTransition { key, entry }: &KeyTransition,
    texts: &(String, String),
) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        transaction.open_table(KEYS)?.insert(key.id.as_str(), texts.0.as_str())?;
        transaction.open_table(KEY_HISTORY)?.insert(entry.revision.0, texts.1.as_str())?;
        place::note(&transaction, entry.revision, Place::Key)?;
    }
    transaction.commit().map_err(|error| Failure { error: error.into(), outcome_unknown: true })
}

pub(super) fn write_uses(database: &Database, uses: &[(KeyId, Timestamp)]) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        let mut table = transaction.open_table(USES)?;
        for (id, at) in uses {
            table.insert(id.as_str(), at.as_nanos())?;
        }
    }
    Ok(transaction.commit()?)
}

pub(super) fn read(transaction: &ReadTransaction) -> Result<Vec<ApiKey>, JournalError> {
    let uses = transaction.open_table(USES)?;
    let mut keys = Vec::new();
    for row in transaction.open_table(KEYS)?.iter()? {
        let (id, text) = row?;
        let key = record::read(text.value().as_bytes()).map_err(inconsistent("api_keys", id.value()))?;
        if key.id.as_str() != id.value() {
            return Err(inconsistent("api_keys", id.value())(Broken("id")));
        }
        let used = uses.get(id.value())?.map(|nanos| Timestamp::saturating_from_nanos(nanos.value().into()));
        keys.push(ApiKey { last_used_at: used, ..key });
    }
    Ok(keys)
}

pub(super) fn read_entry(revision: u64, text: &str) -> Result<KeyHistoryEntry, JournalError> {
    let broken = inconsistent("api_key_history", &revision.to_string());
    record::read_entry(Revision(revision), text.as_bytes()).map_err(broken)
}

/// Reads every entry of the audit trail of keys, and counts them.
pub(super) fn read_all_changes(transaction: &ReadTransaction) -> Result<u64, JournalError> {
    let mut changes = 0;
    for row in transaction.open_table(KEY_HISTORY)?.iter()? {
        let (revision, text) = row?;
        read_entry(revision.value(), text.value())?;
        changes += 1;
    }
    Ok(changes)
}
