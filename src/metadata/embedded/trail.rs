//! The audit trail of everything, newest first, by the places that are noted of all entries.
//!
//! Releases that do not know that table leave it alone, and go on without it. So it is looked at each start whether
//! it is whole, and what is missing is made up for. Where there is no room for that, all places are found anew for
//! each page: slow where there were many changes, but nothing of the trail is missing.

use std::collections::BTreeMap;

use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, StorageError};

use super::erasures::{self, ERASURES};
use super::keys::{self, KEY_HISTORY};
use super::place::{PLACES, Place, is_whole, note_whole};
use super::server_changes::{self, SERVER_CHANGES};
use super::tables::{HISTORY, META};
use super::{JournalError, records};
use crate::domain::{Limit, Revision};
use crate::metadata::keys::{AuditEntry, AuditFilter, AuditPage};

/// Makes up for what a release has left out that did not know the table.
pub(super) fn complete(database: &Database) -> Result<(), JournalError> {
    let transaction = database.begin_read()?;
    if is_whole(&transaction.open_table(META)?)? {
        return Ok(());
    }
    let mut writing = database.begin_write()?;
    writing.set_two_phase_commit(true);
    {
        let mut trail = writing.open_table(PLACES)?;
        each_place(&transaction, |revision, place| {
            trail.insert(revision, place.write())?;
            Ok(())
        })?;
    }
    note_whole(&writing)?;
    Ok(writing.commit()?)
}

/// Finds where the entries of all revisions stand, in no order, without the table.
fn each_place(
    transaction: &ReadTransaction,
    mut found: impl FnMut(u64, Place<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    for row in transaction.open_table(HISTORY)?.iter()? {
        let (key, _) = row?;
        let (feature, revision) = key.value();
        found(revision, Place::Feature(feature))?;
    }
    let Histories { keys, erasures, servers } = Histories::open(transaction)?;
    for (table, place) in [(keys, Place::Key), (erasures, Place::Erasure), (servers, Place::Server)] {
        let Some(table) = table else { continue };
        for row in table.iter()? {
            found(row?.0.value(), place)?;
        }
    }
    Ok(())
}

/// A revision, and where its entry stands, as [`Place::write`] has it.
type Noted = Result<(u64, (u8, String)), JournalError>;

/// The places of the entries before a revision, the last one first.
fn places_before(transaction: &ReadTransaction, end: u64) -> Result<Box<dyn Iterator<Item = Noted>>, JournalError> {
    let owned = |(kind, key): (u8, &str)| (kind, key.to_owned());
    let meta = transaction.open_table(META)?;
    if meta.get("revision")?.is_none() {
        return Ok(Box::new(std::iter::empty()));
    }
    if is_whole(&meta)? {
        let noted = transaction.open_table(PLACES)?.range(..end)?.rev();
        return Ok(Box::new(noted.map(move |row| {
            let (revision, place) = row?;
            Ok((revision.value(), owned(place.value())))
        })));
    }
    let mut found = BTreeMap::new();
    each_place(transaction, |revision, place| {
        if revision < end {
            found.insert(revision, owned(place.write()));
        }
        Ok(())
    })?;
    Ok(Box::new(found.into_iter().rev().map(Ok)))
}

/// The histories that are not of features, where there are any.
struct Histories {
    keys: Option<ReadOnlyTable<u64, &'static str>>,
    erasures: Option<ReadOnlyTable<u64, &'static str>>,
    servers: Option<ReadOnlyTable<u64, &'static str>>,
}

impl Histories {
    fn open(transaction: &ReadTransaction) -> Result<Self, JournalError> {
        let keys = if keys::are_there(transaction)? { Some(transaction.open_table(KEY_HISTORY)?) } else { None };
        let erased = erasures::are_there(transaction)?;
        let erasures = if erased { Some(transaction.open_table(ERASURES)?) } else { None };
        let changed = server_changes::are_there(transaction)?;
        let servers = if changed { Some(transaction.open_table(SERVER_CHANGES)?) } else { None };
        Ok(Self { keys, erasures, servers })
    }
}

/// A page, for which no more than `most` entries are looked at, whatever the length of the trail.
pub(super) fn read(
    database: &Database,
    filter: &AuditFilter,
    before: Option<Revision>,
    page_size: Limit,
    most: usize,
) -> Result<AuditPage, JournalError> {
    let transaction = database.begin_read()?;
    let history = transaction.open_table(HISTORY)?;
    let Histories { keys, erasures, servers } = Histories::open(&transaction)?;
    let text_of = |table: &Option<ReadOnlyTable<u64, &'static str>>, revision| {
        let found = table.as_ref().map(|table| table.get(revision)).transpose()?.flatten();
        Ok::<_, StorageError>(found.map(|text| text.value().to_owned()))
    };
    let mut entries: Vec<AuditEntry> = Vec::new();
    let end = before.map_or(u64::MAX, |before| before.0);
    for (looked_at, noted) in places_before(&transaction, end)?.enumerate() {
        let (revision, (kind, key)) = noted?;
        if looked_at == most {
            return Ok(AuditPage { entries, next: Some(Revision(revision + 1)) });
        }
        // What an older release has removed from a history is no part of the trail any more.
        let entry = match Place::read((kind, key.as_str())) {
            Some(Place::Feature(key)) => {
                let Some(text) = history.get((key, revision))? else { continue };
                let id = records::read_feature_id("history", key).map_err(JournalError::Inconsistent)?;
                let entry = records::read_entry(key, revision, text.value()).map_err(JournalError::Inconsistent)?;
                AuditEntry::Feature(id, entry)
            }
            Some(Place::Key) => {
                let Some(text) = text_of(&keys, revision)? else { continue };
                AuditEntry::Key(keys::read_entry(revision, &text)?)
            }
            Some(Place::Erasure) => {
                let Some(text) = text_of(&erasures, revision)? else { continue };
                AuditEntry::Erasure(erasures::read_entry(revision, &text)?)
            }
            Some(Place::Server) => {
                let Some(text) = text_of(&servers, revision)? else { continue };
                AuditEntry::Server(server_changes::read_entry(revision, &text)?)
            }
            // A newer release has noted what this one does not know.
            None => continue,
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
