//! The journal in redb: definitions, generations and history, with one durable transaction for each change.
//!
//! After an I/O error redb refuses every call until it is opened again (its `PreviousIo`). So the journal drops a
//! failed database, and [`Journal::recover`] opens it again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableHandle, WriteTransaction};

use super::erasures::ERASURES;
use super::format::{self, FORMATS, Upgrade};
use super::jobs::JOBS;
use super::keys::{KEY_HISTORY, KEYS, USES};
use super::place::{self, PLACES, Place};
use super::server_changes::SERVER_CHANGES;
use super::tables::{FEATURES, Failure, GENERATIONS, HISTORY, META};
use super::{JournalError, Opened, Opener, erasures, items_at, jobs, keys, records, server_changes, trail};
use crate::definition::Feature;
use crate::domain::{Belonging, FeatureId, FormatError, JobId, KeyId, Limit, LogMark, Revision, StoreId, Timestamp};
use crate::metadata::change::Transition;
use crate::metadata::jobs::Job;
use crate::metadata::keys::change::KeyTransition;
use crate::metadata::keys::erasures::{ErasureEntry, write as write_erasure};
use crate::metadata::keys::server_changes::{ServerChangeEntry, write as write_server_change};
use crate::metadata::keys::{AUDIT_SCANNED_MAX, AuditFilter, AuditPage, record};
use crate::metadata::local::{Journal, PackedFeatures, State};
use crate::metadata::{HistoryEntry, MetadataError, Page, Snapshot};

/// The two halves of the store's ID, in [`META`].
const STORE_HALVES: [&str; 2] = ["store_high", "store_low"];

/// A [`Journal`] in a redb file.
pub struct RedbJournal {
    opener: Opener,
    /// `None` after a failure.
    database: Option<Database>,
    /// The log of the items that notes refer to.
    items: LogMark,
    /// Whether redb detects damage to the last transaction, instead of treating it as one that a crash cut off.
    is_settled: bool,
}

impl RedbJournal {
    /// Opens the database, creates missing tables, and loads the content.
    pub(super) fn open(opener: Opener, belonging: Belonging, items: LogMark) -> Result<(State, Self), JournalError> {
        let (state, database) = load(&opener)?;
        let found = store_of(&database)?;
        if let Belonging::Present(expected) | Belonging::Joining(expected) = belonging {
            if !belonging.allows(found) {
                return Err(JournalError::OtherStore { found, expected });
            }
            if found.is_none() {
                note_store(&database, expected)?;
            }
        }
        Ok((state, Self { opener, database: Some(database), items, is_settled: true }))
    }

    fn database(&self) -> Result<&Database, MetadataError> {
        self.database.as_ref().ok_or_else(unavailable)
    }

    /// Drops a database after a failed change.
    fn conclude(&mut self, written: Result<(), Failure>) -> Result<(), MetadataError> {
        let Err(failure) = written else {
            self.is_settled = true;
            return Ok(());
        };
        tracing::error!(
            error = %failure.error,
            "the metadata file failed: changes are refused until it can be reopened"
        );
        self.release();
        Err(unavailable_after(failure.outcome_unknown))
    }
}

/// Translates a failed read to an error of the contract.
fn unreadable(what: &'static str) -> impl FnOnce(JournalError) -> MetadataError {
    move |error| match error {
        JournalError::Inconsistent(error) => error,
        error => {
            tracing::error!(?error, "cannot read {what}");
            unavailable()
        }
    }
}

impl Journal for RedbJournal {
    fn append(&mut self, transitions: &[Transition]) -> Result<(), MetadataError> {
        let written: Vec<_> = transitions.iter().map(Written::of).collect::<Result<_, _>>()?;
        let written = write(self.database()?, &written, self.items.place());
        self.conclude(written)?;
        self.is_settled = false;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), MetadataError> {
        if self.is_settled {
            return Ok(());
        }
        let settled = settle(self.database()?);
        self.conclude(settled)
    }

    fn append_key(&mut self, transition: &KeyTransition) -> Result<(), MetadataError> {
        let reason = "cannot serialize a key";
        let failed = |_| MetadataError::Internal { reason: reason.into(), outcome_unknown: false };
        let key = record::write(&transition.key).map_err(failed)?;
        let entry = record::write_entry(&transition.entry).map_err(failed)?;
        let written = keys::write(self.database()?, transition, &(key, entry));
        self.conclude(written)
    }

    fn append_erasure(&mut self, entry: &ErasureEntry, job: Option<&Job>) -> Result<(), MetadataError> {
        let reason = "cannot serialize an erasure";
        let failed = |_| MetadataError::Internal { reason: reason.into(), outcome_unknown: false };
        let text = write_erasure(entry).map_err(failed)?;
        let job = job.map(jobs::record).transpose()?;
        let written = erasures::write(self.database()?, entry.revision, &text, job.as_ref(), self.items.place());
        self.conclude(written)
    }

    fn append_server_change(&mut self, entry: &ServerChangeEntry) -> Result<(), MetadataError> {
        let reason = "cannot serialize a server change";
        let failed = |_| MetadataError::Internal { reason: reason.into(), outcome_unknown: false };
        let text = write_server_change(entry).map_err(failed)?;
        let written = server_changes::write(self.database()?, entry.revision, &text);
        self.conclude(written)
    }

    fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        jobs::read(self.database()?).map_err(unreadable("the jobs"))
    }

    fn keep_job(&mut self, job: &Job) -> Result<(), MetadataError> {
        let written = jobs::write(self.database()?, &jobs::record(job)?, self.items.place());
        self.conclude(written)
    }

    fn forget_job(&mut self, id: JobId) -> Result<(), MetadataError> {
        let written = jobs::remove(self.database()?, id);
        self.conclude(written)
    }

    fn note_uses(&mut self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        let written = keys::write_uses(self.database()?, uses);
        self.conclude(written)
    }

    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        let read = trail::read(self.database()?, filter, before, page_size, AUDIT_SCANNED_MAX);
        read.map_err(unreadable("the audit trail"))
    }

    fn release(&mut self) {
        (self.database, self.is_settled) = (None, false);
    }

    fn recover(&mut self) -> Result<Option<State>, MetadataError> {
        if self.database.is_some() {
            return Ok(None);
        }
        let (state, database) = load(&self.opener).map_err(|error| match error {
            JournalError::Inconsistent(error) => error,
            error => {
                tracing::debug!(?error, "cannot reopen the metadata file yet");
                unavailable()
            }
        })?;
        tracing::info!(revision = state.revision.0, "the metadata file is available again");
        self.database = Some(database);
        Ok(Some(state))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, MetadataError> {
        let transaction = self.database()?.begin_read().map_err(|error| {
            tracing::error!(%error, "cannot read the metadata file");
            unavailable()
        })?;
        Ok(Box::new(transaction))
    }

    fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        let key = records::feature_key(id);
        read_history(self.database()?, &key, before, page_size).map_err(unreadable("the history"))
    }
}

fn unavailable() -> MetadataError {
    unavailable_after(false)
}

fn unavailable_after(outcome_unknown: bool) -> MetadataError {
    MetadataError::Unavailable { reason: "cannot read or write the metadata file".to_owned(), outcome_unknown }
}

/// A change in its stored form.
struct Written<'a> {
    transition: &'a Transition,
    feature: Option<Vec<u8>>,
    entry: Vec<u8>,
    job: Option<jobs::Record>,
}

impl<'a> Written<'a> {
    fn of(transition: &'a Transition) -> Result<Self, MetadataError> {
        Ok(Self {
            transition,
            feature: transition.after.as_ref().map(records::write_feature).transpose()?,
            entry: records::write_entry(&transition.entry)?,
            job: transition.job.as_ref().map(jobs::record).transpose()?,
        })
    }

    fn put(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let Transition { id, began, entry: HistoryEntry { revision, .. }, .. } = self.transition;
        let key = records::feature_key(id);
        let mut features = transaction.open_table(FEATURES)?;
        match &self.feature {
            Some(record) => features.insert(key.as_str(), record.as_slice())?,
            None => features.remove(key.as_str())?,
        };
        if let Some((version, generation)) = began {
            let key = records::version_key(id, version);
            transaction.open_table(GENERATIONS)?.insert(key.as_str(), generation.as_u64())?;
        }
        transaction.open_table(HISTORY)?.insert((key.as_str(), revision.0), self.entry.as_slice())?;
        place::note(transaction, *revision, Place::Feature(&key))?;
        if let Some(job) = &self.job {
            jobs::put(transaction, job)?;
        }
        Ok(())
    }
}

/// Stores changes in one transaction with one sync. Checksums distinguish it from a transaction that a crash cut off.
///
/// Until the next two-phase transaction, redb treats damage to it as such a cut too, and returns to the previous
/// transaction.
fn write(database: &Database, changes: &[Written<'_>], items_at: Option<u64>) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    for change in changes {
        change.put(&transaction)?;
    }
    items_at::note(&transaction, items_at)?;
    // Durable when it returns: redb's default durability is immediate.
    transaction.commit().map_err(|error| Failure { error: error.into(), outcome_unknown: true })
}

/// Makes redb trust its last transaction from now on, so that it detects damage to it.
fn settle(database: &Database) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction.commit()?)
}

fn load(opener: &Opener) -> Result<(State, Database), JournalError> {
    mistrusting(|| {
        let Opened { mut database, is_verified } = opener()?;
        // redb verifies its checksums only after a crash, so this checks them. Damaged content must not be used.
        if !is_verified && !database.check_integrity()? {
            tracing::warn!("the metadata file was repaired without losing acknowledged changes");
        }
        Ok((read_state(&database)?, database))
    })
}

/// Opens and reads a file that may be damaged. redb trusts some pages with a checksum unless it checks all of them, and
/// panics if they are malformed.
pub(super) fn mistrusting<T>(read: impl FnOnce() -> Result<T, JournalError>) -> Result<T, JournalError> {
    // Nothing of the opened state survives the panic.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(JournalError::Storage(redb::Error::Corrupted("malformed pages".to_owned()))))
}

pub(super) fn read_state(database: &Database) -> Result<State, JournalError> {
    prepare(database)?;
    let transaction = database.begin_read()?;
    let mut state = State::default();
    if let Some(revision) = transaction.open_table(META)?.get("revision")? {
        state.revision = Revision(revision.value());
    }
    let features = transaction.open_table(FEATURES)?;
    state.features = PackedFeatures::of(features.iter()?.map(|row| {
        let (key, record) = row?;
        records::read_feature(key.value(), record.value()).map_err(JournalError::Inconsistent)
    }))?;
    read_generations(&transaction, &mut state)?;
    state.keys = keys::read(&transaction)?.into_iter().map(|key| (key.id, key)).collect();
    Ok(state)
}

/// Features contain the generations of existing versions.
fn read_generations(transaction: &ReadTransaction, state: &mut State) -> Result<(), JournalError> {
    // Versions of one feature are adjacent.
    let mut present: Option<Feature> = None;
    for row in transaction.open_table(GENERATIONS)?.iter()? {
        let (key, generation) = row?;
        let ((id, version), generation) =
            records::read_generation(key.value(), generation.value()).map_err(JournalError::Inconsistent)?;
        if present.as_ref().is_none_or(|present| present.id != id) {
            present = state.features.get(&id).map_err(JournalError::Inconsistent)?;
        }
        let versions = present.as_ref().map_or(&[][..], |present| present.versions.as_slice());
        let place = versions.binary_search_by(|other| other.version.cmp(&version));
        if place.is_err() || place.is_ok_and(|place| versions[place].generation != generation) {
            state.past.insert(&id, &version, generation);
        }
    }
    Ok(())
}

/// The store that the definitions belong to.
pub(super) fn store_of(database: &Database) -> Result<Option<StoreId>, JournalError> {
    let meta = database.begin_read()?.open_table(META)?;
    let half = |name| Ok::<_, JournalError>(meta.get(name)?.map_or(0, |half| u128::from(half.value())));
    Ok(StoreId::new(half(STORE_HALVES[0])? << 64 | half(STORE_HALVES[1])?))
}

fn note_store(database: &Database, store: StoreId) -> Result<(), JournalError> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(STORE_HALVES[0], (store.number() >> 64) as u64)?;
        meta.insert(STORE_HALVES[1], store.number() as u64)?;
    }
    Ok(transaction.commit()?)
}

/// Creates the tables of a new file, and upgrades an older one to the current format.
pub(super) fn prepare(database: &Database) -> Result<(), JournalError> {
    let transaction = database.begin_read()?;
    let tables: Vec<_> = transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
    if tables.is_empty() {
        let mut transaction = database.begin_write()?;
        transaction.set_two_phase_commit(true);
        make_tables(&transaction)?;
        transaction.commit()?;
        return Ok(());
    }
    if !tables.iter().any(|name| name == META.name()) {
        return Err(JournalError::Foreign);
    }
    let found = transaction.open_table(META)?.get(format::NAME)?.map_or(0, |format| format.value());
    let upgrades = FORMATS.upgrades_from(found).map_err(|error| match error {
        FormatError::Newer { found, .. } => JournalError::Newer(found),
        FormatError::Unknown => JournalError::Foreign,
    })?;
    upgrade(database, upgrades)
}

/// Runs upgrades, and notes the current format, in one transaction.
fn upgrade(database: &Database, upgrades: &[Upgrade]) -> Result<(), JournalError> {
    if upgrades.is_empty() {
        return Ok(());
    }
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    for upgrade in upgrades {
        upgrade(&transaction)?;
    }
    transaction.open_table(META)?.insert(format::NAME, FORMATS.present())?;
    Ok(transaction.commit()?)
}

fn make_tables(transaction: &WriteTransaction) -> Result<(), JournalError> {
    transaction.open_table(META)?.insert(format::NAME, FORMATS.present())?;
    transaction.open_table(FEATURES)?;
    transaction.open_table(GENERATIONS)?;
    transaction.open_table(HISTORY)?;
    transaction.open_table(PLACES)?;
    transaction.open_table(KEYS)?;
    transaction.open_table(USES)?;
    transaction.open_table(KEY_HISTORY)?;
    transaction.open_table(ERASURES)?;
    transaction.open_table(SERVER_CHANGES)?;
    transaction.open_table(JOBS)?;
    Ok(())
}

fn read_history(
    database: &Database,
    key: &str,
    before: Option<Revision>,
    page_size: Limit,
) -> Result<Option<Page<HistoryEntry>>, JournalError> {
    let history = database.begin_read()?.open_table(HISTORY)?;
    let ever = history.range((key, 0)..=(key, u64::MAX))?.next().transpose()?.is_some();
    if !ever {
        return Ok(None);
    }
    let end = before.map_or(u64::MAX, |before| before.0);
    let mut rows = history.range((key, 0)..(key, end))?.rev();
    let mut entries = Vec::new();
    for row in rows.by_ref().take(page_size.get()) {
        let (stored_key, record) = row?;
        let revision = stored_key.value().1;
        entries.push(records::read_entry(key, revision, record.value()).map_err(JournalError::Inconsistent)?);
    }
    let more = rows.next().transpose()?.is_some();
    Ok(Some(Page { entries, more }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrades_and_the_present_format_are_one_transaction() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(dir.path().join("file")).unwrap();
        prepare(&database).unwrap();
        let set_format = |number: u64| {
            let transaction = database.begin_write().unwrap();
            transaction.open_table(META).unwrap().insert(format::NAME, number).unwrap();
            transaction.commit().unwrap();
        };
        let number = |name: &str| {
            let meta = database.begin_read().unwrap().open_table(META).unwrap();
            meta.get(name).unwrap().map(|number| number.value())
        };
        set_format(0);
        assert!(matches!(prepare(&database), Err(JournalError::Foreign)));
        let note: Upgrade = |transaction| {
            transaction.open_table(META)?.insert("upgraded", 7)?;
            Ok(())
        };
        let fail: Upgrade = |_| Err(JournalError::Foreign);
        assert!(matches!(upgrade(&database, &[note, fail]), Err(JournalError::Foreign)));
        assert_eq!((number("upgraded"), number(format::NAME)), (None, Some(0)));
        upgrade(&database, &[note]).unwrap();
        assert_eq!((number("upgraded"), number(format::NAME)), (Some(7), Some(FORMATS.present())));
        prepare(&database).unwrap();
    }
}
