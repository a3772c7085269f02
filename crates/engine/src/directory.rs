//! The directory of a store: its owner, its format, and its valid files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use liststore_contract::domain::{Belonging, FormatError, Formats, StoreId};

use super::disk::file_id::id_of;
use super::disk::owner::Owner;
use super::disk::{Disk, LockGuard, create_dirs, read_all, replace, sync_above};
use super::error::{Damage, OpenError, WriteError};
use super::files::manifest::{self, Manifest, NamedFile};
use super::files::run::{Run, RunFile};
use super::files::trim::Trim;
use super::files::{DataFile, PARTITIONS};
use super::list_id::ListId;
use super::log::frame::{SEGMENT_HEADER_LEN, SegmentHeader, frame_at, new_salt};
use super::log::known;
use super::log::replay::Expected;
use super::log::writer::SPARES_MAX;
use super::log::{segment_of, segment_path, spare_of, spare_path};
use super::options::ListHash;
use super::read::tables::Files;

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_PREFIX: &str = "liststore items ";
/// The format of everything in the directory.
const FORMATS: Formats<Upgrade> = Formats::new(&[]);

/// Upgrades a directory to the next format. The next start repeats it if a crash interrupts it.
type Upgrade = fn(&dyn Disk, &Path) -> Result<(), OpenError>;

pub struct Directory {
    dir: PathBuf,
    names: Vec<String>,
    pub manifest: Manifest,
}

impl Directory {
    /// Locks a directory and checks that it is a store. Initializes it if it is empty and may be initialized.
    pub fn enter(disk: &dyn Disk, dir: &Path, belonging: Belonging) -> Result<(LockGuard, Self), OpenError> {
        if let Belonging::Present(store) = belonging {
            let begun = list_if_exists(disk, dir)?.is_some_and(|names| names.iter().any(|name| name != LOCK));
            if !begun {
                return Err(OpenError::Missing { path: dir.to_owned(), store });
            }
        }
        create_dirs(disk, dir).map_err(OpenError::io("create the directory", dir))?;
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        check_format(disk, dir, &names)?;
        let lock = disk.lock(&dir.join(LOCK)).map_err(OpenError::io("lock", &dir.join(LOCK)))?;
        let lock = lock.ok_or_else(|| OpenError::Locked { dir: dir.to_owned() })?;
        // Another process may have initialized it in between.
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        match check_format(disk, dir, &names)? {
            Some(upgrades) => upgrade(disk, dir, upgrades)?,
            None => {
                sync_above(disk, dir).map_err(OpenError::io("sync the parent directories of", dir))?;
                write_format(disk, dir).map_err(cannot_write(dir))?;
            }
        }
        let manifest = if names.iter().any(|name| name == manifest::NAME) {
            Manifest::load(disk, dir)?
        } else {
            first_manifest(disk, dir, &names, belonging)?
        };
        let found = manifest.store_id();
        if let Belonging::Present(expected) | Belonging::Joining(expected) = belonging
            && !belonging.allows(found)
        {
            return Err(OpenError::OtherStore { path: dir.join(manifest::NAME), found, expected });
        }
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        Ok((lock, Self { dir: dir.to_owned(), names, manifest }))
    }

    /// Makes the items a part of a store, if they belong to none. The next segment of the log, and the next data file,
    /// have its ID.
    pub fn join(&mut self, disk: &dyn Disk, store: Option<StoreId>, next_segment: u32) -> Result<(), OpenError> {
        let (Some(id), None) = (store, self.manifest.owner) else { return Ok(()) };
        self.manifest.owner = Some(Owner { id, from_segment: next_segment, from_file: self.manifest.next_file });
        self.manifest.store(disk, &self.dir).map_err(cannot_write(&self.dir))
    }

    /// Opens a directory for reading only. It changes nothing, and refuses a foreign or incomplete directory. It locks
    /// the directory if it has a lock, which a fresh backup lacks.
    pub fn inspect(disk: &dyn Disk, dir: &Path) -> Result<(Option<LockGuard>, Self), OpenError> {
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        let no_format = || OpenError::Foreign { dir: dir.to_owned(), found: "no file FORMAT".into() };
        check_format(disk, dir, &names)?.ok_or_else(no_format)?;
        let mut lock = None;
        if names.iter().any(|name| name == LOCK) {
            let locked = disk.lock(&dir.join(LOCK)).map_err(OpenError::io("lock", &dir.join(LOCK)))?;
            lock = Some(locked.ok_or_else(|| OpenError::Locked { dir: dir.to_owned() })?);
        }
        let manifest = Manifest::load(disk, dir)?;
        let names = disk.list(dir).map_err(OpenError::io("read the directory", dir))?;
        Ok((lock, Self { dir: dir.to_owned(), names, manifest }))
    }

    /// Reads, without a lock, the store that items belong to, and whether anything was ever stored. `None` for an
    /// uninitialized directory.
    pub fn peek(disk: &dyn Disk, dir: &Path) -> Result<Option<(Option<StoreId>, bool)>, OpenError> {
        let Some(names) = list_if_exists(disk, dir)? else { return Ok(None) };
        if check_format(disk, dir, &names)?.is_none() {
            return Ok(None);
        }
        if !names.iter().any(|name| name == manifest::NAME) {
            return Ok(Some((None, false)));
        }
        let manifest = Manifest::load(disk, dir)?;
        let used = manifest.next_file > 1 || manifest.log_start.segment > 1 || names.iter().any(|name| is_log(name));
        Ok(Some((manifest.store_id(), used)))
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Opens the files that the manifest names.
    pub fn open_runs(&self, disk: &dyn Disk, hash: ListHash) -> Result<Files, OpenError> {
        let mut partitions = vec![Vec::new(); PARTITIONS];
        for (partition, (runs, named)) in partitions.iter_mut().zip(&self.manifest.runs).enumerate() {
            for named in named {
                let mut run = Run { inputs_left: named.inputs_left, ..Run::default() };
                run.trim =
                    named.trim.as_ref().map(|(list, item)| Trim { list: ListId::from_bytes(list, hash), item: *item });
                for &NamedFile { id, bytes, continues, hides } in &named.files {
                    let file = DataFile::open(disk, &self.dir, id, bytes)?;
                    if file.summary.partition != partition {
                        let (file, what) = (file.path().to_owned(), "it belongs to another partition");
                        return Err(Damage { file, offset: 0, what }.into());
                    }
                    file.check_owner(self.manifest.owner)?;
                    run.files.push(RunFile { file: Arc::new(file), continues, hides });
                }
                runs.push(run);
            }
        }
        Ok(Files::new(partitions))
    }

    /// The known state of the log.
    pub fn log(&self, disk: &dyn Disk) -> Expected {
        let Manifest { owner, log_start, .. } = self.manifest;
        Expected { start: log_start, durable: known::load(disk, &self.dir, self.manifest.store_id()), owner }
    }

    /// The log's segments: used ones and obsolete ones, both oldest first, and spare ones.
    pub fn segments(&self) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let mut segments: Vec<u32> = self.names.iter().filter_map(|name| segment_of(name)).collect();
        segments.sort_unstable();
        let start = self.manifest.log_start.segment;
        let used_up = segments.extract_if(.., |segment| *segment < start).collect();
        let spares = self.names.iter().filter_map(|name| spare_of(name)).take(SPARES_MAX).collect();
        (segments, used_up, spares)
    }

    /// Removes files that a crash left. Files that cannot be removed are harmless.
    pub fn remove_orphans(&self, disk: &dyn Disk) {
        let named = |id| self.manifest.files().any(|(_, file)| file.id == id);
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

fn list_if_exists(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<String>>, OpenError> {
    match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        names => names.map(Some).map_err(OpenError::io("read the directory", dir)),
    }
}

/// Whether it is a segment after the first one, which each directory has.
fn is_log(name: &str) -> bool {
    segment_of(name).is_some_and(|segment| segment > 1)
}

/// Initializes a directory.
pub fn write_format(disk: &dyn Disk, dir: &Path) -> Result<(), WriteError> {
    replace(disk, dir, FORMAT, format!("{FORMAT_PREFIX}{}\n", FORMATS.present()).as_bytes())
}

/// Upgrades to the current format, and notes it last.
fn upgrade(disk: &dyn Disk, dir: &Path, upgrades: &[Upgrade]) -> Result<(), OpenError> {
    for upgrade in upgrades {
        upgrade(disk, dir)?;
    }
    if upgrades.is_empty() { Ok(()) } else { write_format(disk, dir).map_err(cannot_write(dir)) }
}

fn cannot_write(dir: &Path) -> impl FnOnce(WriteError) -> OpenError {
    let path = dir.to_owned();
    move |error| match error {
        WriteError::NotWritten(source) | WriteError::Unknown(source) => {
            OpenError::Io { what: "write in", path, source }
        }
    }
}

/// Returns the upgrades to the current format. `None` if the directory is empty.
fn check_format(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<Option<&'static [Upgrade]>, OpenError> {
    let foreign = |found: &str| OpenError::Foreign { dir: dir.to_owned(), found: found.into() };
    if !names.iter().any(|name| name == FORMAT) {
        let temporary = format!("{FORMAT}.tmp");
        let other = names.iter().find(|name| *name != LOCK && **name != temporary);
        return other.map_or(Ok(None), |other| Err(foreign(&format!("no file {FORMAT}, but {other}"))));
    }
    let path = dir.join(FORMAT);
    let bytes = disk.open_read_only(&path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", &path))?;
    let text = str::from_utf8(&bytes).ok();
    let number = text.and_then(|text| text.strip_prefix(FORMAT_PREFIX)?.strip_suffix('\n')?.parse::<u64>().ok());
    match number.map(|found| FORMATS.upgrades_from(found)) {
        Some(Ok(upgrades)) => Ok(Some(upgrades)),
        Some(Err(FormatError::Newer { found, known })) => Err(OpenError::Newer { dir: dir.to_owned(), found, known }),
        Some(Err(FormatError::Unknown)) | None => Err(foreign(&format!("its file {FORMAT} has an unknown format"))),
    }
}

/// Makes the first manifest. The log's first segment exists before, so that a missing segment is always damage. A
/// missing manifest is damage if anything was stored.
fn first_manifest(disk: &dyn Disk, dir: &Path, names: &[String], belonging: Belonging) -> Result<Manifest, OpenError> {
    let store = belonging.once_open(None);
    let owner = store.map(|id| Owner { id, from_segment: 1, from_file: 1 });
    let manifest = Manifest { owner, ..Manifest::new() };
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
        if used || !belonging.may_begin() {
            let file = dir.join(manifest::NAME);
            return Err(Damage { file, offset: 0, what: "it is missing, although items exist" }.into());
        }
    }
    let header = SegmentHeader { number: first.segment, salt: new_salt(), durable: first, store };
    let begun = disk.create(&path).and_then(|file| {
        file.write_all_at(&header.encode(), 0)?;
        file.sync()?;
        disk.sync_dir(dir)
    });
    begun.map_err(OpenError::io("create", &path))?;
    manifest.store(disk, dir).map_err(cannot_write(dir))?;
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::super::disk::RealDisk;
    use super::*;

    #[test]
    fn upgrades_run_in_order_before_the_present_format_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let content = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        upgrade(&RealDisk, dir.path(), &[]).unwrap();
        assert_eq!(content(FORMAT), "");
        let first: Upgrade = |disk, dir| replace(disk, dir, "first", b"done").map_err(cannot_write(dir));
        let second: Upgrade = |disk, dir| {
            assert!(dir.join("first").exists() && !dir.join(FORMAT).exists());
            replace(disk, dir, "second", b"done").map_err(cannot_write(dir))
        };
        upgrade(&RealDisk, dir.path(), &[first, second]).unwrap();
        assert_eq!((content("second").as_str(), content(FORMAT).as_str()), ("done", "liststore items 1\n"));
    }
}
