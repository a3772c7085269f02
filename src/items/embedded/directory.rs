//! The directory of a store: whose it is, in which format, and which of its files count.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, LockGuard, read_all, replace};
use super::error::{Damage, OpenError, WriteError};
use super::file::{DataFile, id_of};
use super::log::frame::{SEGMENT_HEADER_LEN, SegmentHeader, frame_at, new_salt};
use super::log::{segment_of, segment_path, spare_of, spare_path};
use super::manifest::{self, Manifest};
use super::tables::no_files;

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_PREFIX: &str = "liststore items ";
const FORMAT_NUMBER: u32 = 1;
/// Used segments that are kept at a start.
const SPARES_MAX: usize = 3;

pub struct Directory {
    dir: PathBuf,
    names: Vec<String>,
    pub manifest: Manifest,
}

impl Directory {
    /// Locks a directory and makes sure that it is one of ours, making it one if it is empty.
    pub fn enter(disk: &dyn Disk, dir: &Path) -> Result<(LockGuard, Self), OpenError> {
        disk.create_dir(dir).map_err(OpenError::io("create the directory", dir))?;
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        check_format(disk, dir, &names)?;
        let lock = disk.lock(&dir.join(LOCK)).map_err(OpenError::io("lock", &dir.join(LOCK)))?;
        let lock = lock.ok_or_else(|| OpenError::Locked { dir: dir.to_owned() })?;
        // Another process may have made it ours in between.
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        if !check_format(disk, dir, &names)? {
            write_format(disk, dir).map_err(cannot_write(dir))?;
        }
        let manifest = if names.iter().any(|name| name == manifest::NAME) {
            Manifest::load(disk, dir)?
        } else {
            first_manifest(disk, dir, &names)?
        };
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        Ok((lock, Self { dir: dir.to_owned(), names, manifest }))
    }

    /// The same for looking only: nothing is changed, and a directory that is not one of ours, or
    /// is not whole, is an error. It is locked where it has a lock, which a fresh backup has not.
    pub fn inspect(disk: &dyn Disk, dir: &Path) -> Result<(Option<LockGuard>, Self), OpenError> {
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        if !check_format(disk, dir, &names)? {
            return Err(OpenError::Foreign { dir: dir.to_owned(), found: "no file FORMAT".into() });
        }
        let mut lock = None;
        if names.iter().any(|name| name == LOCK) {
            let locked = disk.lock(&dir.join(LOCK)).map_err(OpenError::io("lock", &dir.join(LOCK)))?;
            lock = Some(locked.ok_or_else(|| OpenError::Locked { dir: dir.to_owned() })?);
        }
        let manifest = Manifest::load(disk, dir)?;
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        Ok((lock, Self { dir: dir.to_owned(), names, manifest }))
    }

    /// Opens the files that the manifest names.
    pub fn open_files(&self, disk: &dyn Disk) -> Result<Vec<Vec<Arc<DataFile>>>, OpenError> {
        let mut files = no_files();
        for (partition, (files, named)) in files.iter_mut().zip(&self.manifest.files).enumerate() {
            for named in named {
                let file = DataFile::open(disk, &self.dir, named.id, named.bytes)?;
                if file.summary.partition != partition {
                    let (file, what) = (file.path().to_owned(), "it belongs to another partition");
                    return Err(Damage { file, offset: 0, what }.into());
                }
                files.push(Arc::new(file));
            }
        }
        Ok(files)
    }

    /// The log's segments: those in use, those that are used up, both oldest first, and spare ones.
    pub fn segments(&self) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let mut segments: Vec<u32> = self.names.iter().filter_map(|name| segment_of(name)).collect();
        segments.sort_unstable();
        let start = self.manifest.log_start.segment;
        let used_up = segments.extract_if(.., |segment| *segment < start).collect();
        let spares = self.names.iter().filter_map(|name| spare_of(name)).take(SPARES_MAX).collect();
        (segments, used_up, spares)
    }

    /// Removes what a crash left behind. What cannot be removed does no harm.
    pub fn remove_orphans(&self, disk: &dyn Disk) {
        let named = |id| self.manifest.files.iter().flatten().any(|file| file.id == id);
        for name in &self.names {
            if name.ends_with(".tmp") || id_of(name).is_some_and(|id| !named(id)) {
                let _harmless = disk.remove(&self.dir.join(name));
            }
        }
        for spare in self.names.iter().filter_map(|name| spare_of(name)).skip(SPARES_MAX) {
            let _harmless = disk.remove(&spare_path(&self.dir, spare));
        }
    }
}

/// Makes a directory one of ours.
pub fn write_format(disk: &dyn Disk, dir: &Path) -> Result<(), WriteError> {
    replace(disk, dir, FORMAT, format!("{FORMAT_PREFIX}{FORMAT_NUMBER}\n").as_bytes())
}

fn cannot_write(dir: &Path) -> impl FnOnce(WriteError) -> OpenError {
    let path = dir.to_owned();
    move |error| match error {
        WriteError::NotWritten(source) | WriteError::Unknown(source) => {
            OpenError::Io { what: "write in", path, source }
        }
    }
}

/// Whether the directory is ours already. An error if it is somebody else's.
fn check_format(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<bool, OpenError> {
    let foreign = |found: &str| OpenError::Foreign { dir: dir.to_owned(), found: found.into() };
    if !names.iter().any(|name| name == FORMAT) {
        let temporary = format!("{FORMAT}.tmp");
        let other = names.iter().find(|name| *name != LOCK && **name != temporary);
        return other.map_or(Ok(false), |other| Err(foreign(&format!("no file {FORMAT}, but {other}"))));
    }
    let path = dir.join(FORMAT);
    let bytes = disk.open_read_only(&path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", &path))?;
    let text = str::from_utf8(&bytes).ok();
    let number = text.and_then(|text| text.strip_prefix(FORMAT_PREFIX)?.strip_suffix('\n')?.parse::<u32>().ok());
    match number {
        Some(FORMAT_NUMBER) => Ok(true),
        Some(found) if found > FORMAT_NUMBER => {
            Err(OpenError::Newer { dir: dir.to_owned(), found, known: FORMAT_NUMBER })
        }
        _ => Err(foreign(&format!("its file {FORMAT} is not one of ours"))),
    }
}

/// Makes the first manifest. The log's first segment is begun before, so that a missing segment is
/// always damage; and a missing manifest is damage where anything was stored.
fn first_manifest(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<Manifest, OpenError> {
    let manifest = Manifest::new();
    let first = manifest.log_start;
    let path = segment_path(dir, first.segment);
    for name in names {
        let mut used = id_of(name).is_some() || segment_of(name).is_some_and(|segment| segment != first.segment);
        if segment_of(name) == Some(first.segment) {
            let bytes =
                disk.open_read_only(&path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", &path))?;
            let header = SegmentHeader::decode(&bytes);
            used |= header.is_some_and(|header| frame_at(&bytes, header.salt, SEGMENT_HEADER_LEN).is_some());
        }
        if used {
            let file = dir.join(manifest::NAME);
            return Err(Damage { file, offset: 0, what: "it is missing, although there are items" }.into());
        }
    }
    let header = SegmentHeader { number: first.segment, salt: new_salt(), durable: first };
    let begun = disk.create(&path).and_then(|file| {
        file.write_all_at(&header.encode(), 0)?;
        file.sync()?;
        disk.sync_dir(dir)
    });
    begun.map_err(OpenError::io("create", &path))?;
    manifest.store(disk, dir).map_err(cannot_write(dir))?;
    Ok(manifest)
}
