//! Copies the journal's file during its use, and checks a closed one.

use std::io;
use std::path::Path;

use redb::{
    Builder, Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, Value, WriteTransaction,
};

use super::erasures::{self, ERASURES};
use super::jobs::{self, JOBS};
use super::journal::{mistrusting, read_state, store_of};
use super::overlay::Overlay;
use super::place::PLACES;
use super::server_changes::{self, SERVER_CHANGES};
use super::tables::{FEATURES, GENERATIONS, HISTORY, META};
use super::trust::create_private;
use super::{CACHE_BYTES, FILE_NAME, JournalError, OpenError, items_at, keys, records};
use crate::definition::Feature;
use crate::domain::StoreId;
use crate::metadata::jobs::Job;
use crate::metadata::local::State;
use crate::metadata::{MetadataError, Snapshot};

impl Snapshot for ReadTransaction {
    fn write(&self, dir: &Path) -> Result<(), MetadataError> {
        let path = dir.join(FILE_NAME);
        copy(self, &path).map_err(|error| {
            let reason = format!("cannot write {}: {error}", path.display());
            MetadataError::Unavailable { reason, outcome_unknown: false }
        })
    }
}

/// Writes all tables into a new file, in one transaction.
fn copy(from: &ReadTransaction, path: &Path) -> Result<(), redb::Error> {
    let database = create_private(path)?;
    let to = database.begin_write()?;
    copy_table(from, &to, META)?;
    copy_table(from, &to, FEATURES)?;
    copy_table(from, &to, GENERATIONS)?;
    copy_table(from, &to, HISTORY)?;
    copy_table(from, &to, PLACES)?;
    copy_table(from, &to, keys::KEYS)?;
    copy_table(from, &to, keys::USES)?;
    copy_table(from, &to, keys::KEY_HISTORY)?;
    copy_table(from, &to, ERASURES)?;
    copy_table(from, &to, SERVER_CHANGES)?;
    copy_table(from, &to, JOBS)?;
    Ok(to.commit()?)
}

fn copy_table<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<K, V>,
) -> Result<(), redb::Error> {
    let mut target = to.open_table(table)?;
    for row in from.open_table(table)?.iter()? {
        let (key, value) = row?;
        target.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// The findings about a metadata file.
#[derive(Debug)]
pub struct Verified {
    /// The store that it belongs to.
    pub store: Option<StoreId>,
    pub features: u64,
    /// Entries of the history.
    pub changes: u64,
    pub definitions: Vec<Feature>,
    pub jobs: Vec<Job>,
    /// The targets of erasures that began and did not end.
    pub unended: Vec<String>,
    /// The durable position of the items' log at the last write, if the file has it.
    pub items_at: Option<u64>,
}

/// Checks the metadata file of a data directory, if it exists: every checksum, and the form of every record. Changes
/// nothing, even if a kill left a file that needs repair.
pub fn verify(dir: &Path) -> Result<Option<Verified>, OpenError> {
    with_overlay(dir, check)
}

fn with_overlay<T>(dir: &Path, read: impl FnOnce(Overlay) -> Result<T, JournalError>) -> Result<Option<T>, OpenError> {
    let path = dir.join(FILE_NAME);
    match Overlay::open(&path) {
        Ok(Some(overlay)) => mistrusting(|| read(overlay)).map(Some).map_err(|error| error.at(&path)),
        Ok(None) => Err(OpenError::Locked { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(OpenError::Io { path, source }),
    }
}

/// The store that the metadata file of a data directory belongs to, and whether it ever held a definition. `None`
/// without a file. Changes nothing.
pub fn peek(dir: &Path) -> Result<Option<(Option<StoreId>, bool)>, OpenError> {
    with_overlay(dir, |overlay| {
        let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(overlay)?;
        let revision = read_state(&database)?.revision;
        Ok((store_of(&database)?, revision.0 > 0))
    })
}

fn check(overlay: Overlay) -> Result<Verified, JournalError> {
    let mut database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(overlay)?;
    if !database.check_integrity()? {
        return Err(JournalError::Storage(redb::Error::Corrupted("checksum mismatch".to_owned())));
    }
    let State { features, .. } = read_state(&database)?;
    let definitions: Vec<_> = features.iter().collect::<Result<_, _>>().map_err(JournalError::Inconsistent)?;
    Ok(Verified {
        store: store_of(&database)?,
        features: definitions.iter().filter(|feature| !feature.id.is_of_bags()).count() as u64,
        changes: read_all_changes(&database)?,
        definitions,
        jobs: jobs::read(&database)?,
        unended: erasures::unended(&database.begin_read()?)?,
        items_at: items_at::read(&database.begin_read()?)?,
    })
}

fn read_all_changes(database: &Database) -> Result<u64, JournalError> {
    let mut changes = 0;
    for row in database.begin_read()?.open_table(HISTORY)?.iter()? {
        let (key, record) = row?;
        let (key, revision) = key.value();
        records::read_entry(key, revision, record.value()).map_err(JournalError::Inconsistent)?;
        changes += 1;
    }
    let transaction = database.begin_read()?;
    let of_servers = server_changes::read_all(&transaction)?;
    Ok(changes + keys::read_all_changes(&transaction)? + erasures::read_all(&transaction)? + of_servers)
}
