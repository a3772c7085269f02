//! Opens the journal's file: under a lock, complete from the start, and without trust in the kernel's cached pages.
//!
//! After a failed fsync, in an earlier process or this one, Linux still shows the unwritten data, and never writes it
//! again. ext4 may even write such a block later and leave it marked as unwritten. redb would rely on it. So a copy
//! replaces the file before it is opened.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use redb::backends::FileBackend;
use redb::{Builder, Database, StorageBackend};

use super::journal::prepare;
use super::{CACHE_BYTES, JournalError, Opened};

/// The size of one write.
const PIECE_BYTES: u64 = 256 << 10;
/// The file holds API keys, as keyed hashes, and all definitions.
const PRIVATE_FILE: u32 = 0o600;
/// The part of the file that names the last transaction.
const HEADER_BYTES: u64 = 4096;

/// Opens or creates the file, unless another process has it open.
pub(super) fn open(path: &Path) -> Result<Opened, JournalError> {
    if !path.try_exists()? {
        create(path)?;
    }
    let file = lock(path)?;
    match copy(&file, path) {
        Ok(copy) => build(FileBackend::new(copy)?),
        // Its blocks are allocated already, so writing them again is the best remaining option.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => open_in_place(FileBackend::new(file)?),
        Err(error) => Err(error.into()),
    }
}

fn temporary(path: &Path) -> PathBuf {
    path.with_added_extension("tmp")
}

/// Creates a file with its tables before it gets its name, because redb treats an incomplete file as a foreign one.
fn create(path: &Path) -> Result<(), JournalError> {
    let temporary = temporary(path);
    remove(&temporary)?;
    let created = create_private(&temporary).map_err(JournalError::from);
    let created = created.and_then(|database| prepare(&database));
    if created.is_err() {
        remove(&temporary)?;
    }
    created?;
    Ok(give_name(&temporary, path)?)
}

/// Creates an empty database in a new file that only the server's user can read.
pub(super) fn create_private(path: &Path) -> Result<Database, redb::Error> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE_FILE).open(path)?;
    Ok(Builder::new().set_cache_size(CACHE_BYTES).create_file(file)?)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Renames a durable file durably.
fn give_name(temporary: &Path, path: &Path) -> io::Result<()> {
    fs::rename(temporary, path)?;
    File::open(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
}

/// redb takes the same lock, on the same open file, but too late.
fn lock(path: &Path) -> Result<File, JournalError> {
    loop {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        try_lock(&file)?;
        // The process that held the lock may have replaced the file with a copy.
        if file.metadata()?.ino() == fs::metadata(path)?.ino() {
            return Ok(file);
        }
    }
}

fn try_lock(file: &File) -> Result<(), JournalError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(JournalError::Locked),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Replaces a file with a copy, in one step, and returns the locked copy.
fn copy(file: &File, path: &Path) -> io::Result<File> {
    let temporary = temporary(path);
    let mut options = OpenOptions::new();
    let copy = options.read(true).write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(&temporary)?;
    let copied = copy.try_lock().map_err(io::Error::from).and_then(|()| {
        copy_bytes(file, &copy)?;
        copy.sync_all()
    });
    if let Err(error) = copied {
        remove(&temporary)?;
        return Err(error);
    }
    give_name(&temporary, path)?;
    Ok(copy)
}

/// Copies a file except for zeros, because redb doubles the size of a full file.
fn copy_bytes(file: &File, copy: &File) -> io::Result<()> {
    let len = file.metadata()?.len();
    let piece_len = usize::try_from(PIECE_BYTES).unwrap_or(0);
    let (mut piece, zeros) = (vec![0_u8; piece_len], vec![0_u8; piece_len]);
    let mut at = 0;
    while at < len {
        let count = usize::try_from((len - at).min(PIECE_BYTES)).unwrap_or(0);
        file.read_exact_at(&mut piece[..count], at)?;
        if piece[..count] != zeros[..count] {
            copy.write_all_at(&piece[..count], at)?;
        }
        at += count as u64;
    }
    copy.set_len(len)
}

/// Opens a file that may have failed before.
pub(super) fn open_in_place(backend: impl StorageBackend) -> Result<Opened, JournalError> {
    write_again(&backend)?;
    build(backend)
}

fn build(backend: impl StorageBackend) -> Result<Opened, JournalError> {
    let is_repaired = Rc::new(Cell::new(false));
    let repairs = Rc::clone(&is_repaired);
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_repair_callback(move |_| repairs.set(true));
    let database = builder.create_with_backend(backend)?;
    // A repair begins with all checksums.
    Ok(Opened { database, is_verified: is_repaired.get() })
}

/// Writes the same bytes to the same places, the header last. If the power is lost in between, the header refers only
/// to written data.
fn write_again(backend: &impl StorageBackend) -> io::Result<()> {
    let len = backend.len()?;
    let header = len.min(HEADER_BYTES);
    for (from, to) in [(header, len), (0, header)] {
        let mut at = from;
        while at < to {
            let mut piece = vec![0; usize::try_from((to - at).min(PIECE_BYTES)).unwrap_or(0)];
            backend.read(at, &mut piece)?;
            backend.write(at, &piece)?;
            at += piece.len() as u64;
        }
        if from < to {
            backend.sync_data()?;
        }
    }
    Ok(())
}
