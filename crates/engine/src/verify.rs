//! Checks a store at rest, such as a backup: every checksum of every file that counts, and that what
//! they hold fits together. Changes nothing.

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

/// What was found in a directory.
#[derive(Debug, Default)]
pub struct Verified {
    /// The store that it belongs to.
    pub store: Option<StoreId>,
    pub data_files: u64,
    pub data_bytes: u64,
    /// Items in data files, deletion marks among them.
    pub items: u64,
    /// Deletion marks: of items, and of whole lists.
    pub deleted: u64,
    pub log_segments: u64,
    /// Changes in the log that are not in data files yet, and the items that they add or delete.
    pub log_changes: u64,
    pub log_items: u64,
    /// The feature keys of which there is any list, removed ones too.
    pub feature_keys: BTreeSet<String>,
    /// What is wrong, the first thing of each file.
    pub problems: Vec<OpenError>,
}

/// Checks the store in a data directory. An error says why it could not be looked at; damage to a
/// file is among what was found.
pub fn verify(dir: &Path) -> Result<Verified, OpenError> {
    verify_on(&RealDisk, dir, EmbeddedOptions::new(dir).list_hash)
}

/// The same on another disk: for tests.
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
            // Whole, since replaying it has read it to its end.
            items += row::inspect(row).map_or(0, |inspected| inspected.count);
        }
    });
    (found.log_changes, found.log_items, found.feature_keys) = (changes, items, feature_keys);
    found.problems.extend(read.err());
    Ok(found)
}

/// What the items of a data directory say of themselves: the store that they belong to, and whether any
/// were ever stored. `None` if there are none. Changes nothing.
pub fn look(disk: &dyn Disk, dir: &Path) -> Result<Option<(Option<StoreId>, bool)>, OpenError> {
    Directory::look(disk, &dir.join("items"))
}

/// Reads what a start would read, and no more. Changes nothing.
pub fn inspect(dir: &Path) -> Result<Option<StoreId>, OpenError> {
    let (dir, disk) = (dir.join("items"), &RealDisk);
    let (_lock, directory) = Directory::inspect(disk, &dir)?;
    let hash = EmbeddedOptions::new(&dir).list_hash;
    directory.open_runs(disk, hash)?;
    replay::read(disk, &dir, &directory.segments().0, directory.log(disk), hash, |_| {})?;
    Ok(directory.manifest.store_id())
}

/// Notes which feature a list is of.
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
