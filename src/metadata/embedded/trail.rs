//! The complete audit trail, newest first, by the noted places of all entries.

use redb::{Database, ReadableDatabase};

use super::erasures::{self, ERASURES};
use super::keys::{self, KEY_HISTORY};
use super::place::{PLACES, Place};
use super::server_changes::{self, SERVER_CHANGES};
use super::tables::HISTORY;
use super::{JournalError, records};
use crate::domain::{Limit, Revision};
use crate::metadata::MetadataError;
use crate::metadata::keys::{AuditEntry, AuditFilter, AuditPage};

/// A page, which examines at most `most` entries, regardless of the length of the trail.
pub(super) fn read(
    database: &Database,
    filter: &AuditFilter,
    before: Option<Revision>,
    page_size: Limit,
    most: usize,
) -> Result<AuditPage, JournalError> {
    let transaction = database.begin_read()?;
    let history = transaction.open_table(HISTORY)?;
    let of_keys = transaction.open_table(KEY_HISTORY)?;
    let erased = transaction.open_table(ERASURES)?;
    let servers = transaction.open_table(SERVER_CHANGES)?;
    let mut entries: Vec<AuditEntry> = Vec::new();
    let end = before.map_or(u64::MAX, |before| before.0);
    for (scanned, row) in transaction.open_table(PLACES)?.range(..end)?.rev().enumerate() {
        let (revision, place) = row?;
        let revision = revision.value();
        if scanned == most {
            return Ok(AuditPage { entries, next: Some(Revision(revision + 1)) });
        }
        let missing = || missing_entry(revision);
        let entry = match Place::read(place.value()).ok_or_else(missing)? {
            Place::Feature(key) => {
                let text = history.get((key, revision))?.ok_or_else(missing)?;
                let id = records::read_feature_id("history", key).map_err(JournalError::Inconsistent)?;
                let entry = records::read_entry(key, revision, text.value()).map_err(JournalError::Inconsistent)?;
                AuditEntry::Feature(id, entry)
            }
            Place::Key => {
                AuditEntry::Key(keys::read_entry(revision, of_keys.get(revision)?.ok_or_else(missing)?.value())?)
            }
            Place::Erasure => {
                AuditEntry::Erasure(erasures::read_entry(revision, erased.get(revision)?.ok_or_else(missing)?.value())?)
            }
            Place::Server => {
                let text = servers.get(revision)?.ok_or_else(missing)?;
                AuditEntry::Server(server_changes::read_entry(revision, text.value())?)
            }
        };
        if filter.matches(&entry) {
            if entries.len() == page_size.get() {
                let next = entries.last().map(AuditEntry::revision);
                return Ok(AuditPage { entries, next });
            }
            entries.push(entry);
        }
    }
    Ok(AuditPage { entries, next: None })
}

/// A place without an entry.
fn missing_entry(revision: u64) -> JournalError {
    let (table, column, key) = ("trail", "place", revision.to_string());
    JournalError::Inconsistent(MetadataError::DatabaseInconsistency { table, column, key })
}
