//! Definitions in one file of the data directory: a [`LocalStore`] whose journal is a redb file.
//!
//! This folder owns the file's format and its recovery from a failing disk. [`change`](super::change) decides the
//! effect of a change.

mod backup;
mod erasures;
mod format;
mod items_at;
mod jobs;
mod journal;
mod keys;
mod overlay;
mod place;
mod records;
mod server_changes;
mod tables;
#[cfg(test)]
mod tests;
mod trail;
mod trust;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use redb::Database;

use super::MetadataError;
use super::local::LocalStore;
use crate::domain::{Belonging, LogMark, StoreId};
pub use backup::{Verified, peek, verify};
pub use journal::RedbJournal;

/// The file's name in the data directory.
pub const FILE_NAME: &str = "metadata.redb";
/// Small, because the state in memory answers nearly all reads.
const CACHE_BYTES: usize = 2 << 20;

/// Why the embedded metadata store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another server: give each server a separate data directory", path.display())]
    Locked { path: PathBuf },
    #[error(
        "{} was written by a newer liststore (format {found}, this version supports {}): start that version",
        path.display(),
        format::FORMATS.present()
    )]
    Newer { path: PathBuf, found: u64 },
    #[error("{} is not a metadata file of liststore: move it away, or choose another data directory", path.display())]
    Foreign { path: PathBuf },
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{} is missing, although it was a part of store {store}: put it back, or restore the whole data directory \
             from a backup", path.display())]
    Missing { path: PathBuf, store: StoreId },
    #[error("{} belongs to {}, but the data directory belongs to store {expected}: put back the matching part, or \
             restore the whole directory from a backup",
             path.display(), found.map_or("no store yet".to_owned(), |found| format!("store {found}")))]
    OtherStore { path: PathBuf, found: Option<StoreId>, expected: StoreId },
    #[error("cannot open {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Opens `<dir>/metadata.redb` of any store. Creates the file and the directory if they are missing.
pub fn open(dir: &Path) -> Result<LocalStore<RedbJournal>, OpenError> {
    open_as(dir, Belonging::Any, LogMark::default())
}

/// Opens the file as a part of a store. Its notes about items include the durable position of the items' log.
///
/// Blocks on the disk: for the start only.
pub fn open_as(dir: &Path, belonging: Belonging, items: LogMark) -> Result<LocalStore<RedbJournal>, OpenError> {
    let path = dir.join(FILE_NAME);
    if let Belonging::Present(store) = belonging
        && !path.exists()
    {
        return Err(OpenError::Missing { path, store });
    }
    let io_error = |source| OpenError::Io { path: path.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_error)?;
    let file = path.clone();
    let opener = move || trust::open(&file);
    let (state, journal) = RedbJournal::open(Box::new(opener), belonging, items).map_err(|error| error.at(&path))?;
    // The file's name must survive a crash too.
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error)?;
    Ok(LocalStore::new(state, journal))
}

/// How the journal opens its database, at the start and after a failure.
type Opener = Box<dyn Fn() -> Result<Opened, JournalError> + Send>;

/// An open database.
struct Opened {
    database: Database,
    /// Whether opening verified all of its checksums, as after a crash.
    is_verified: bool,
}

/// [`OpenError`] before the file is known.
#[derive(Debug)]
enum JournalError {
    Locked,
    Newer(u64),
    Foreign,
    OtherStore { found: Option<StoreId>, expected: StoreId },
    Inconsistent(MetadataError),
    Storage(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for JournalError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::DatabaseAlreadyOpen => Self::Locked,
            redb::Error::UpgradeRequired(_) | redb::Error::TableTypeMismatch { .. } => Self::Foreign,
            // redb's error for a file with a foreign beginning.
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => Self::Foreign,
            error => Self::Storage(error),
        }
    }
}

impl JournalError {
    fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Locked => OpenError::Locked { path },
            Self::Newer(found) => OpenError::Newer { path, found },
            Self::Foreign => OpenError::Foreign { path },
            Self::OtherStore { found, expected } => OpenError::OtherStore { path, found, expected },
            Self::Inconsistent(error) => OpenError::Damaged { path, reason: error.to_string() },
            Self::Storage(redb::Error::Io(source)) => OpenError::Io { path, source },
            Self::Storage(error) => OpenError::Damaged { path, reason: error.to_string() },
        }
    }
}
