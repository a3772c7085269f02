//! Keys in the journal's file, in tables of their own, and the audit trail of everything.
//!
//! The first key makes the tables, and raises the file's format to [`WITH_KEYS`](format::WITH_KEYS): a server that
//! does not know keys would serve everybody, and refuses the file instead.

use std::cmp::Reverse;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};

use super::erasures::{self, ERASURES};
use super::tables::{Failure, HISTORY, META};
use super::{JournalError, format, records};
use crate::domain::{ApiKey, KeyId, Limit, Revision, Timestamp};
use crate::metadata::keys::change::KeyTransition;
use crate::metadata::keys::record::{self, Broken};
use crate::metadata::keys::{AuditEntry, AuditFilter, KeyHistoryEntry};
use crate::metadata::{MetadataError, Page};

/// Keys by their ids.
pub(super) const KEYS: TableDefinition<&str, &str> = TableDefinition::new("api_keys");
/// When each was last used, in nanoseconds since the Unix epoch: of no account for what a key is.
pub(super) const USES: TableDefinition<&str, u64> = TableDefinition::new("api_key_uses");
/// Every change of a key, by its revision.
pub(super) const KEY_HISTORY: TableDefinition<u64, &str> = TableDefinition::new("api_key_history");

fn inconsistent(table: &'static str, key: &str) -> impl FnOnce(Broken) -> JournalError + use<> {
    let key = key.to_owned();
    move |Broken(column)| JournalError::Inconsistent(MetadataError::DatabaseInconsistency { table, column, key })
}

/// Whether there ever was a key.
pub(super) fn are_there(transaction: &ReadTransaction) -> Result<bool, JournalError> {
    Ok(transaction.list_tables()?.any(|table| table.name() == KEYS.name()))
}

pub(super) fn write(
    database: &Database,
    KeyTransition { key, entry }: &KeyTransition,
    texts: &(String, String),
) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        transaction.open_table(USES)?;
        transaction.open_table(KEYS)?.insert(key.id.as_str(), texts.0.as_str())?;
        transaction.open_table(KEY_HISTORY)?.insert(entry.revision.0, texts.1.as_str())?;
        let mut meta = transaction.open_table(META)?;
        meta.insert("revision", entry.revision.0)?;
        format::raise(&mut meta, format::WITH_KEYS)?;
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
    if !are_there(transaction)? {
        return Ok(Vec::new());
    }
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

/// Which table an entry of the audit trail stands in.
enum AuditTable {
    /// In the history of a feature, which has this key.
    Feature(String),
    Key,
    Erasure,
}

pub(super) fn read_audit(
    database: &Database,
    filter: &AuditFilter,
    before: Option<Revision>,
    page_size: Limit,
) -> Result<Page<AuditEntry>, JournalError> {
    let transaction = database.begin_read()?;
    let history = transaction.open_table(HISTORY)?;
    let end = before.map_or(u64::MAX, |before| before.0);
    // The history of features is kept feature by feature.
    let mut rows: Vec<(u64, AuditTable)> = Vec::new();
    for row in history.iter()? {
        let (key, _) = row?;
        let (feature, revision) = key.value();
        if revision < end {
            rows.push((revision, AuditTable::Feature(feature.to_owned())));
        }
    }
    let keys = if are_there(&transaction)? { Some(transaction.open_table(KEY_HISTORY)?) } else { None };
    if let Some(keys) = &keys {
        for row in keys.range(..end)? {
            rows.push((row?.0.value(), AuditTable::Key));
        }
    }
    let erased = if erasures::are_there(&transaction)? { Some(transaction.open_table(ERASURES)?) } else { None };
    if let Some(erased) = &erased {
        for row in erased.range(..end)? {
            rows.push((row?.0.value(), AuditTable::Erasure));
        }
    }
    rows.sort_unstable_by_key(|(revision, _)| Reverse(*revision));
    let mut entries = Vec::new();
    for (revision, table) in rows {
        let entry = match table {
            AuditTable::Feature(key) => {
                let Some(text) = history.get((key.as_str(), revision))? else { continue };
                let id = records::read_feature_id("history", &key).map_err(JournalError::Inconsistent)?;
                let entry = records::read_entry(&key, revision, text.value()).map_err(JournalError::Inconsistent)?;
                AuditEntry::Feature(id, entry)
            }
            AuditTable::Key => {
                let Some(text) = keys.as_ref().map(|keys| keys.get(revision)).transpose()?.flatten() else { continue };
                AuditEntry::Key(read_entry(revision, text.value())?)
            }
            AuditTable::Erasure => {
                let text = erased.as_ref().map(|erased| erased.get(revision)).transpose()?.flatten();
                let Some(text) = text else { continue };
                AuditEntry::Erasure(erasures::read_entry(revision, text.value())?)
            }
        };
        if filter.matches(&entry) {
            if entries.len() == page_size.get() {
                return Ok(Page { entries, more: true });
            }
            entries.push(entry);
        }
    }
    Ok(Page { entries, more: false })
}

fn read_entry(revision: u64, text: &str) -> Result<KeyHistoryEntry, JournalError> {
    let broken = inconsistent("api_key_history", &revision.to_string());
    record::read_entry(Revision(revision), text.as_bytes()).map_err(broken)
}

/// Reads every entry of the audit trail of keys, and counts them.
pub(super) fn read_all_changes(transaction: &ReadTransaction) -> Result<u64, JournalError> {
    if !are_there(transaction)? {
        return Ok(0);
    }
    let mut changes = 0;
    for row in transaction.open_table(KEY_HISTORY)?.iter()? {
        let (revision, text) = row?;
        read_entry(revision.value(), text.value())?;
        changes += 1;
    }
    Ok(changes)
}
