//! Checks a stopped store, such as a backup: every checksum of every valid file, and the consistency of their contents.
//! Changes nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use liststore_contract::domain::StoreId;

use super::directory::Directory;
use super::disk::{Disk, RealDisk};
use super::error::{Damage, OpenError, ReadError};
use super::files::manifest::NamedFile;
use super::files::{DataFile, Scan, ScanSource, partition_of};
use super::list_id::ListId;
use super::log::change::Change;
use super::log::replay;
use super::options::{EmbeddedOptions, ListHash};
use super::row;
use super::row::merge::Source;

/// The findings about a directory.
#[derive(Debug, Default)]
pub struct Verified {
    /// The store that it belongs to.
    pub store: Option<StoreId>,
    pub data_files: u64,
    pub data_bytes: u64,
    /// Items in data files, including tombstones.
    pub items: u64,
    /// Tombstones: of items, and of whole lists.
    pub deleted: u64,
    pub log_segments: u64,
    /// Changes in the log that no data file contains yet, and the items that they add or delete.
    pub log_changes: u64,
    pub log_items: u64,
    /// The feature keys with at least one list, including removed ones.
    pub feature_keys: BTreeSet<String>,
    /// The problems, at most one of each file.
    pub problems: Vec<OpenError>,
}

/// Checks the store in a data directory. An error states why it could not be read. Damage to a file is a finding.
pub fn verify(dir: &Path) -> Result<Verified, OpenError> {
    verify_on(&RealDisk, dir, EmbeddedOptions::new(dir).list_hash)
}

/// Does the same on another disk, for tests.
pub fn verify_on(disk: &dyn Disk, dir: &Path, hash: ListHash) -> Result<Verified, OpenError> {
    let dir = dir.join("items");
    let (_lock, directory) = Directory::inspect(disk, &dir)?;
    let mut found = Verified { store: directory.manifest.store_id(), ..Verified::default() };
    for (partition, named) in directory.manifest.files() {
        found.data_files += 1;
        found.data_bytes += named.bytes;
        match data_file(disk, &directory, partition, *named, hash, &mut found.feature_keys) {
            Ok(file) => {
                found.items += file.summary.items;
                found.deleted += file.summary.deleted;
            }
            Err(error) => found.problems.push(error),
        }
    }
    let (segments, ..) = directory.segments();
    found.log_segments = segments.len() as u64;
    let (mut changes, mut items, mut feature_keys) = (0, 0, std::mem::take(&mut found.feature_keys));
    let read = replay::read(disk, &dir, &segments, directory.log(disk), hash, |record| {
        changes += 1;
        note_feature(&mut feature_keys, &record.list);
        if let Change::Row(row) = &record.change {
            // Complete, because replaying it has read it to its end.
            items += row::inspect(row).map_or(0, |inspected| inspected.count);
        }
    });
    (found.log_changes, found.log_items, found.feature_keys) = (changes, items, feature_keys);
    found.problems.extend(read.err());
    Ok(found)
}

/// The store that the items of a data directory belong to, and whether any were ever stored. `None` if there are none.
/// Changes nothing.
pub fn peek(disk: &dyn Disk, dir: &Path) -> Result<Option<(Option<StoreId>, bool)>, OpenError> {
    Directory::peek(disk, &dir.join("items"))
}

/// Reads the part that a start reads. Changes nothing.
pub fn inspect(dir: &Path) -> Result<Option<StoreId>, OpenError> {
    let (dir, disk) = (dir.join("items"), &RealDisk);
    let (_lock, directory) = Directory::inspect(disk, &dir)?;
    let hash = EmbeddedOptions::new(&dir).list_hash;
    directory.open_runs(disk, hash)?;
    replay::read(disk, &dir, &directory.segments().0, directory.log(disk), hash, |_| {})?;
    Ok(directory.manifest.store_id())
}

/// Records the feature of a list.
fn note_feature(feature_keys: &mut BTreeSet<String>, list: &ListId) {
    let key = list.bytes().split(|byte| *byte == 0).next().unwrap_or_default();
    if let Ok(key) = std::str::from_utf8(key)
        && !feature_keys.contains(key)
    {
        feature_keys.insert(key.to_owned());
    }
}

/// Reads a whole data file.
fn data_file(
    disk: &dyn Disk,
    directory: &Directory,
    partition: usize,
    named: NamedFile,
    hash: ListHash,
    feature_keys: &mut BTreeSet<String>,
) -> Result<Arc<DataFile>, OpenError> {
    let file = Arc::new(DataFile::open(disk, directory.path(), named.id, named.bytes)?);
    file.check_owner(directory.manifest.owner)?;
    let wrong = |what| ReadError::from(Damage { file: file.path().to_owned(), offset: 0, what });
    if file.summary.partition != partition {
        return Err(wrong("it belongs to another partition").into());
    }
    let mut items = 0;
    let mut before: Option<ListId> = None;
    let mut scan = Scan::new(vec![file.clone()], None, hash)?;
    while let Some(list) = scan.list().cloned() {
        if partition_of(list.hash()) != partition || before.is_some_and(|before| before >= list) {
            return Err(wrong("a list is out of order").into());
        }
        if !file.index.may_hold(list.hash()) {
            return Err(wrong("its bloom filter lacks a list in it").into());
        }
        note_feature(feature_keys, &list);
        let mut source = ScanSource::new(&mut scan)?;
        while source.entry().is_some() {
            items += 1;
            source.advance()?;
        }
        before = Some(list);
    }
    if items != file.summary.items {
        return Err(wrong("its number of items differs from its footer").into());
    }
    Ok(file)
}
