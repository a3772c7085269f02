//! Failures of opening and reading, with the file and the offset.

use std::io;
use std::path::{Path, PathBuf};

use liststore_contract::domain::StoreId;
use liststore_storage::StoreError;

/// Stored bytes that cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged at byte {offset}: {what}", file.display())]
pub struct Damage {
    pub file: PathBuf,
    pub offset: u64,
    pub what: &'static str,
}

/// Why a store was not opened, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another process: stop it, or choose another directory", dir.display())]
    Locked { dir: PathBuf },
    #[error("{} does not have liststore items ({found}): choose another directory", dir.display())]
    Foreign { dir: PathBuf, found: String },
    #[error("{} has item format {found} but this version supports only {known}: start a newer version", dir.display())]
    Newer { dir: PathBuf, found: u64, known: u64 },
    #[error("{0}; nothing was changed: restore the directory from a backup")]
    Damaged(#[from] Damage),
    #[error("{} is missing, although it was a part of store {store}: put it back, or restore the whole data directory \
             from a backup", path.display())]
    Missing { path: PathBuf, store: StoreId },
    #[error("{} belongs to {}, but the data directory belongs to store {expected}: put back the matching part, or \
             restore the whole directory from a backup",
             path.display(), found.map_or("no store yet".to_owned(), |found| format!("store {found}")))]
    OtherStore { path: PathBuf, found: Option<StoreId>, expected: StoreId },
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot start the thread {name}: {source}")]
    Thread { name: &'static str, source: io::Error },
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl OpenError {
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The store is unchanged, on disk too. A retry is possible.
    #[error("{0}")]
    NotWritten(io::Error),
    /// An fsync failed, or undoing a failed write did. The state of the disk is unknown until the next start.
    #[error("{0}")]
    Unknown(io::Error),
}

impl WriteError {
    pub fn into_source(self) -> io::Error {
        let (Self::NotWritten(source) | Self::Unknown(source)) = self;
        source
    }
}

/// Why stored items could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match &error {
            ReadError::Io { .. } => Self::Unavailable { reason: error.to_string(), outcome_unknown: false },
            ReadError::Damaged(_) => Self::Internal { reason: error.to_string(), outcome_unknown: false },
        }
    }
}

impl From<ReadError> for OpenError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io { file, source } => Self::Io { what: "read", path: file, source },
            ReadError::Damaged(damage) => Self::Damaged(damage),
        }
    }
}
