//! The data directory as a unit: its store ID, and its parts.
//!
//! Its file `STORE` names the store, and each part names the store to which it belongs. A missing or foreign part is
//! refused by name. If it were created again or mixed in, it would show old items in new lists, or none. The file is
//! written before a part is created and again once all are open, so that a start can be interrupted anywhere. Parts
//! without a store are adopted once.

use std::fmt::Write as _;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::domain::{Belonging, StoreId};
use crate::items::embedded::{self, Disk, LockGuard, RealDisk, create_dirs, read_all, replace, sync_above};
use crate::metadata;

const NAME: &str = "STORE";
const LOCK: &str = "LOCK";
/// The note of the last backup: see `backup`.
pub const LAST_BACKUP: &str = "last-backup";
const FIRST_LINE: &str = "liststore store 1";
/// A new file system has this directory in its root.
const LOST_AND_FOUND: &str = "lost+found";
/// The bits of a mode that let other users in.
const OTHERS: u32 = 0o077;
/// The bit of a mode that a directory has which users share, such as `/tmp`.
const SHARED: u32 = 0o1000;

/// Why a data directory is not opened, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("{} is in use by another process: stop it, or choose another directory", dir.display())]
    Locked { dir: PathBuf },
    #[error("{} is missing, and so is {}: restore it, or restore the whole directory from a backup. If it was never \
             here, start once with the earlier settings, which records the parts that exist", path.display(), what)]
    NeverSeen { path: PathBuf, what: &'static str },
    #[error("{} is missing, although {why}: restore it, or restore the whole directory from a backup", path.display())]
    Missing { path: PathBuf, why: String },
    #[error("{} belongs to {}, but {} belongs to store {expected}: the directory has parts of two stores; put back the \
             parts that belong together, or restore the whole directory from a backup",
             path.display(), found.map_or("no store yet".to_owned(), |found| format!("store {found}")), other.display())]
    Mixed { path: PathBuf, found: Option<StoreId>, other: PathBuf, expected: StoreId },
    #[error("{} is damaged: remove it, and the next start rebuilds it from the parts", path.display())]
    Damaged { path: PathBuf },
    #[error("{} was written by a newer liststore: start that version", path.display())]
    Newer { path: PathBuf },
    #[error("{} is open to other users (mode {mode:o}) and {why}: name a directory for the server only", path.display())]
    Shared { path: PathBuf, mode: u32, why: &'static str },
    #[error("{} is not a data directory of liststore, because it holds {name}: choose an empty directory, or one that a \
             server created", dir.display())]
    Foreign { dir: PathBuf, name: String },
    #[error("{} is a file: choose a directory", path.display())]
    File { path: PathBuf },
    #[error("cannot {what} {}: {source}; correct its rights, or choose another directory", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Items(#[from] embedded::OpenError),
    #[error(transparent)]
    Metadata(#[from] metadata::embedded::OpenError),
}

/// A part of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Items,
    Metadata,
}

impl Part {
    const ALL: [Self; 2] = [Self::Items, Self::Metadata];

    fn name(self) -> &'static str {
        match self {
            Self::Items => "items",
            Self::Metadata => "metadata",
        }
    }

    fn path(self, dir: &Path) -> PathBuf {
        match self {
            Self::Items => dir.join("items"),
            Self::Metadata => dir.join(metadata::embedded::FILE_NAME),
        }
    }
}

/// How far a part has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is being initialized or adopted, and may be missing.
    Begun,
    Present,
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contents {
    id: StoreId,
    parts: Vec<(Part, Stage)>,
}

impl Contents {
    fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nid {}\n", self.id);
        for (part, stage) in &self.parts {
            let stage = if *stage == Stage::Present { "present" } else { "begun" };
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "{} {stage}", part.name());
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        let _infallible = writeln!(text, "checksum {checksum:08x}");
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let id = StoreId::parse(lines.next()?.strip_prefix("id ")?)?;
        let mut parts = Vec::new();
        for line in lines.take_while(|line| !line.starts_with("checksum ")) {
            let (name, stage) = line.split_once(' ')?;
            let part = Part::ALL.into_iter().find(|part| part.name() == name)?;
            parts.push((part, if stage == "present" { Stage::Present } else { Stage::Begun }));
        }
        Some(Self { id, parts }).filter(|contents| contents.encode() == text)
    }

    fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, DataDirError> {
        let path = dir.join(NAME);
        let bytes = match disk.open_read_only(&path).and_then(|file| read_all(&*file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(DataDirError::File { path: dir.to_owned() });
            }
            bytes => bytes.map_err(cannot("read", &path))?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let number = text.lines().next().and_then(|line| line.strip_prefix("liststore store ")?.parse::<u32>().ok());
        match Self::decode(&text) {
            Some(contents) => Ok(Some(contents)),
            None if number.is_some_and(|number| number > 1) => Err(DataDirError::Newer { path }),
            None => Err(DataDirError::Damaged { path }),
        }
    }

    fn stage(&self, part: Part) -> Option<Stage> {
        self.parts.iter().find(|(other, _)| *other == part).map(|(_, stage)| *stage)
    }

    fn set(&mut self, part: Part, stage: Stage) {
        self.parts.retain(|(other, _)| *other != part);
        self.parts.push((part, stage));
    }

    fn belonging(&self, part: Part) -> Belonging {
        match self.stage(part) {
            Some(Stage::Present) => Belonging::Present(self.id),
            _ => Belonging::Joining(self.id),
        }
    }
}

fn cannot(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |source| DataDirError::Io { what, path, source }
}

/// The state of a part, found without opening it.
struct Found {
    part: Part,
    store: Option<StoreId>,
    /// Whether it has content that is useless without the other part.
    in_use: bool,
}

fn peek(disk: &dyn Disk, dir: &Path, part: Part) -> Result<Option<Found>, DataDirError> {
    let found = match part {
        Part::Items => embedded::peek(disk, dir)?,
        Part::Metadata => metadata::embedded::peek(dir)?,
    };
    Ok(found.map(|(store, in_use)| Found { part, store, in_use }))
}

/// The effect of a start on the parts that the settings want here. Changes nothing.
#[derive(Debug, Clone)]
pub struct Plan {
    dir: PathBuf,
    wanted: Vec<Part>,
    /// The content of the file, if it exists.
    written: Option<Contents>,
    contents: Contents,
}

impl Plan {
    /// `new_id` is used if the directory is not a store yet.
    pub fn make(disk: &dyn Disk, dir: &Path, wanted: &[Part], new_id: StoreId) -> Result<Self, DataDirError> {
        let written = Contents::load(disk, dir)?;
        let contents = match &written {
            Some(written) => written.clone(),
            None => {
                refuse_foreign(disk, dir)?;
                from_parts(disk, dir, wanted, new_id)?
            }
        };
        for part in wanted {
            let path = part.path(dir);
            if contents.stage(*part) == Some(Stage::Present) && !exists(disk, &path)? {
                let why = format!("{} is recorded as a part of this store", dir.join(NAME).display());
                return Err(DataDirError::Missing { path, why });
            }
        }
        Ok(Self { dir: dir.to_owned(), wanted: wanted.to_owned(), written, contents })
    }

    pub fn id(&self) -> StoreId {
        self.contents.id
    }

    /// How to open a part.
    pub fn belonging(&self, part: Part) -> Belonging {
        self.contents.belonging(part)
    }

    /// Whether a part that was found there, with this store ID, would be opened.
    pub fn check(&self, part: Part, found: Option<StoreId>) -> Result<(), DataDirError> {
        if self.belonging(part).allows(found) {
            return Ok(());
        }
        let (path, other) = (part.path(&self.dir), self.dir.join(NAME));
        Err(DataDirError::Mixed { path, found, other, expected: self.id() })
    }
}

/// The store that a part of a directory must belong to, according to its file. `None` if the file does not mention it.
pub fn expected(disk: &dyn Disk, dir: &Path, part: Part) -> Result<Option<StoreId>, DataDirError> {
    let contents = Contents::load(disk, dir)?;
    Ok(contents.filter(|contents| contents.stage(part) == Some(Stage::Present)).map(|contents| contents.id))
}

/// Whether a file or a directory exists.
fn exists(disk: &dyn Disk, path: &Path) -> Result<bool, DataDirError> {
    let (dir, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        names => Ok(names.map_err(cannot("read the directory", dir))?.iter().any(|other| **other == *name)),
    }
}

/// Refuses a directory that holds files and none of a store.
fn refuse_foreign(disk: &dyn Disk, dir: &Path) -> Result<(), DataDirError> {
    let names = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(DataDirError::File { path: dir.to_owned() });
        }
        names => names.map_err(cannot("read the directory", dir))?,
    };
    if names.iter().any(|name| is_own(name)) {
        return Ok(());
    }
    match names.into_iter().find(|name| name != LOST_AND_FOUND) {
        Some(name) => Err(DataDirError::Foreign { dir: dir.to_owned(), name }),
        None => Ok(()),
    }
}

/// The content for a missing file: on the first start, or after someone removed it.
fn from_parts(disk: &dyn Disk, dir: &Path, wanted: &[Part], new_id: StoreId) -> Result<Contents, DataDirError> {
    let mut found = Vec::new();
    for part in wanted {
        found.extend(peek(disk, dir, *part)?);
    }
    let missing = wanted.iter().find(|part| found.iter().all(|found| found.part != **part));
    let Some((id, first)) = found.iter().find_map(|found| Some((found.store?, found.part))) else {
        // As far as the remaining parts show.
        if let (Some(missing), Some(other)) = (missing, found.first())
            && other.in_use
        {
            let what = if *missing == Part::Items { "the items" } else { "the definitions of the items" };
            return Err(DataDirError::NeverSeen { path: missing.path(dir), what });
        }
        return Ok(Contents { id: new_id, parts: wanted.iter().map(|part| (*part, Stage::Begun)).collect() });
    };
    if let Some(missing) = missing {
        let why = format!("{} belongs to a store, but {NAME} is missing too", first.path(dir).display());
        return Err(DataDirError::Missing { path: missing.path(dir), why });
    }
    if let Some(odd) = found.iter().find(|found| found.store != Some(id)) {
        let (path, other) = (odd.part.path(dir), first.path(dir));
        return Err(DataDirError::Mixed { path, found: odd.store, other, expected: id });
    }
    Ok(Contents { id, parts: wanted.iter().map(|part| (*part, Stage::Present)).collect() })
}

/// Closes an existing data directory to other users: its mode becomes 0700, and 0600 for its files. A directory
/// that users share, or that holds other files, is refused if it is open to them.
///
/// The server creates directories and files with these modes. A restored copy can have wider ones, and so can a
/// mounted volume.
pub fn make_private(dir: &Path) -> Result<(), DataDirError> {
    let found = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(cannot("look at", dir))?,
    };
    if !found.is_dir() {
        return Ok(());
    }
    let names = RealDisk.list(dir).map_err(cannot("read the directory", dir))?;
    let own: Vec<_> = names.iter().filter(|name| is_own(name)).collect();
    if found.mode() & OTHERS != 0 {
        let refused = |why| Err(DataDirError::Shared { path: dir.to_owned(), mode: found.mode() & 0o7777, why });
        if found.mode() & SHARED != 0 {
            return refused("shared by them");
        }
        if own.is_empty() && names.iter().any(|name| name != LOST_AND_FOUND) {
            return refused("holds files of another program");
        }
    }
    restrict(dir, &found)?;
    for path in own.into_iter().map(|name| dir.join(name)) {
        let Some(found) = metadata_of(&path)? else { continue };
        restrict(&path, &found)?;
        let below =
            if found.is_dir() { RealDisk.list(&path).map_err(cannot("read the directory", &path))? } else { vec![] };
        for path in below.iter().map(|name| path.join(name)) {
            metadata_of(&path)?.map_or(Ok(()), |found| restrict(&path, &found))?;
        }
    }
    Ok(())
}

/// Whether a name in a data directory is one of the store's.
fn is_own(name: &str) -> bool {
    [NAME, LOCK, LAST_BACKUP, metadata::embedded::FILE_NAME].iter().any(|own| name.starts_with(own))
        || name == Part::Items.name()
}

/// `None` for a link, and for an entry that another server removes at that moment.
fn metadata_of(path: &Path) -> Result<Option<Metadata>, DataDirError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => Ok(Some(found.map_err(cannot("look at", path))?).filter(|found| !found.is_symlink())),
    }
}

/// Takes the rights of other users away. Where another user owns the directory, its files still are the server's
/// alone.
fn restrict(path: &Path, found: &Metadata) -> Result<(), DataDirError> {
    let mode = found.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
        Ok(()) => tracing::info!(path = %path.display(), "closed the data directory to other users, mode was {mode:o}"),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied) => {
            tracing::warn!(path = %path.display(), "open to other users (mode {mode:o}), and owned by another user");
        }
        Err(error) => return Err(cannot("change the mode of", path)(error)),
    }
    Ok(())
}

/// An open data directory. No other process can open it at the same time.
pub struct DataDir {
    plan: Plan,
    _lock: LockGuard,
}

impl DataDir {
    /// Creates the directory, if necessary, and notes the parts that will be opened.
    pub fn enter(disk: &dyn Disk, dir: &Path, wanted: &[Part], new_id: StoreId) -> Result<Self, DataDirError> {
        // A refused directory stays as it is.
        Plan::make(disk, dir, wanted, new_id)?;
        create_dirs(disk, dir).map_err(cannot("create the directory", dir))?;
        let lock = disk.lock(&dir.join(LOCK)).map_err(cannot("lock", &dir.join(LOCK)))?;
        let lock = lock.ok_or_else(|| DataDirError::Locked { dir: dir.to_owned() })?;
        // Another process may have been faster.
        let mut plan = Plan::make(disk, dir, wanted, new_id)?;
        if plan.written.is_none() {
            sync_above(disk, dir).map_err(cannot("sync the parent directories of", dir))?;
        }
        for part in wanted {
            if plan.contents.stage(*part).is_none() {
                plan.contents.set(*part, Stage::Begun);
            }
        }
        let mut entered = Self { plan, _lock: lock };
        entered.write(disk)?;
        Ok(entered)
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Notes that all parts that are wanted are open, and so have to be there from now on.
    pub fn complete(&mut self, disk: &dyn Disk) -> Result<(), DataDirError> {
        for part in self.plan.wanted.clone() {
            self.plan.contents.set(part, Stage::Present);
        }
        self.write(disk)
    }

    fn write(&mut self, disk: &dyn Disk) -> Result<(), DataDirError> {
        if self.plan.written.as_ref() != Some(&self.plan.contents) {
            store(disk, &self.plan.dir, &self.plan.contents)?;
            self.plan.written = Some(self.plan.contents.clone());
        }
        Ok(())
    }
}

fn store(disk: &dyn Disk, dir: &Path, contents: &Contents) -> Result<(), DataDirError> {
    replace(disk, dir, NAME, contents.encode().as_bytes())
        .map_err(|error| cannot("write", &dir.join(NAME))(error.into_source()))
}

/// Notes in a copy of a store which parts it has.
pub fn note_copy(disk: &dyn Disk, dir: &Path, id: StoreId, parts: &[Part]) -> Result<(), DataDirError> {
    let parts = parts.iter().map(|part| (*part, Stage::Present)).collect();
    store(disk, dir, &Contents { id, parts })
}
