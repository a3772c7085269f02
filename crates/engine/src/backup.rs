//! Copies a running store into another directory, consistently.
//!
//! Data files are immutable, so a backup uses hard links to them where the file system allows it. The log continues
//! during the backup, which copies the content that the log had at the beginning. Writes never wait. Flushes and
//! compactions wait only for the links, and log segments are not reused until they are copied. The caller chooses the
//! directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use liststore_storage::{ItemBackup, StoreError};

use super::compaction::pace::RateLimit;
use super::directory::write_format;
use super::disk::file_id::file_path;
use super::disk::{DiskFile, create_dirs};
use super::engine::Engine;
use super::error::WriteError;
use super::files::{DataFile, Pace};
use super::health::unavailable;
use super::log::copy::{self, Piece};
use super::log::segment_path;

/// The size of one copied piece.
const COPY_BYTES: usize = 256 << 10;
/// The number of copied bytes between syncs, because one large sync would delay the log's syncs.
const SYNC_BYTES: usize = 2 << 20;

/// Writes a backup into the folder `items` of `to`. It contains everything that was acknowledged before the call.
/// Blocks. Ends early when `cancelled` returns true, or the store stops. Calls `fixed` once the content of the backup
/// is decided.
pub fn write(
    engine: &Engine,
    to: &Path,
    cancelled: &(dyn Fn() -> bool + Sync),
    fixed: &mut dyn FnMut(),
) -> Result<ItemBackup, StoreError> {
    if let Some(reason) = engine.health.read_only().filter(|_| engine.health.has_failed()) {
        return Err(unavailable(&reason));
    }
    let (disk, to) = (&*engine.disk, to.join("items"));
    create_dirs(disk, &to).map_err(cannot("create the directory", &to))?;
    let stop = || cancelled() || engine.bell.is_stopping();
    let mut copier = Copier { engine, stop: &stop, pace: RateLimit::new(engine, &stop) };
    let pin = Pin::new(engine)?;
    let (manifest, unlinked) = engine.tables.with_manifest(|manifest, files| {
        // Another file system, or one without links. The files are copied below.
        let link = |file: &DataFile| disk.hard_link(file.path(), &file_path(&to, file.id));
        let unlinked: Vec<_> = files.all().filter(|file| link(file).is_err()).cloned().collect();
        (manifest.clone(), unlinked)
    });
    // After the manifest, and after every write that was acknowledged before the call.
    let (start, end) = (manifest.log_start, engine.progress.written());
    fixed();
    let mut log_bytes = 0;
    for number in start.segment..=end.segment {
        let pieces = copy::segment(disk, &engine.dir, number, start, end)?;
        log_bytes += copier.write_pieces(&segment_path(&to, number), &pieces)?;
    }
    let last = end.segment + 1;
    log_bytes += copier.write_pieces(&segment_path(&to, last), &[copy::last_segment(last, manifest.store_id())])?;
    drop(pin);
    for file in &unlinked {
        copier.copy(file, &file_path(&to, file.id))?;
    }
    copier.go_on()?;
    let stored = write_format(disk, &to).and_then(|()| manifest.store(disk, &to));
    stored.map_err(|(WriteError::NotWritten(error) | WriteError::Unknown(error))| cannot("write in", &to)(error))?;
    let files = || manifest.files().map(|(_, file)| file);
    Ok(ItemBackup {
        data_files: files().count() as u64,
        data_bytes: files().map(|file| file.bytes).sum(),
        copied_files: unlinked.len() as u64,
        log_segments: u64::from(last - start.segment + 1),
        log_bytes,
    })
}

fn cannot(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |error| StoreError::Unavailable { reason: format!("cannot {what} {path}: {error}"), outcome_unknown: false }
}

/// Retains the log's segments until drop.
struct Pin<'a>(&'a Engine);

impl<'a> Pin<'a> {
    fn new(engine: &'a Engine) -> Result<Self, StoreError> {
        let reason = || "another backup is in progress".to_owned();
        let pinned = engine.progress.pin();
        pinned.then_some(Self(engine)).ok_or_else(|| StoreError::Overloaded { reason: reason() })
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let Self(engine) = self;
        engine.progress.unpin();
        let needed = engine.tables.with_manifest(|manifest, _| manifest.log_start.segment);
        // If the store is stopping, the next start does it.
        if !engine.bell.is_stopping() {
            engine.progress.recycle_before(&*engine.disk, needed);
        }
    }
}

/// Writes files at a bounded rate, durably.
struct Copier<'a, H: Fn() -> bool> {
    engine: &'a Engine,
    stop: &'a dyn Fn() -> bool,
    pace: RateLimit<'a, H>,
}

impl<H: Fn() -> bool> Copier<'_, H> {
    fn go_on(&self) -> Result<(), StoreError> {
        let reason = "the backup was interrupted: the server is stopping".to_owned();
        if (self.stop)() { Err(StoreError::Unavailable { reason, outcome_unknown: false }) } else { Ok(()) }
    }

    fn write_pieces(&mut self, path: &Path, pieces: &[Piece]) -> Result<u64, StoreError> {
        let mut target = Target::create(self.engine, path)?;
        for piece in pieces {
            let mut at = piece.offset;
            for bytes in piece.bytes.chunks(COPY_BYTES) {
                self.go_on()?;
                target.write(bytes, at)?;
                self.pace.wrote(bytes.len());
                at += bytes.len() as u64;
            }
        }
        target.sync()?;
        Ok(pieces.iter().map(|piece| piece.bytes.len() as u64).sum())
    }

    /// Copies a data file by its handle, because a compaction may have replaced and removed it.
    fn copy(&mut self, file: &DataFile, path: &Path) -> Result<(), StoreError> {
        let mut target = Target::create(self.engine, path)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < file.bytes {
            self.go_on()?;
            let len = usize::try_from(file.bytes - at).unwrap_or(usize::MAX).min(COPY_BYTES);
            let bytes = &mut buffer[..len];
            file.content().read_exact_at(bytes, at).map_err(cannot("read", file.path()))?;
            target.write(bytes, at)?;
            self.pace.wrote(len);
            at += len as u64;
        }
        target.sync()
    }
}

/// A file under construction.
struct Target {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    unsynced: usize,
}

impl Target {
    fn create(engine: &Engine, path: &Path) -> Result<Self, StoreError> {
        let file = engine.disk.create(path).map_err(cannot("create", path))?;
        Ok(Self { path: path.to_owned(), file, unsynced: 0 })
    }

    fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), StoreError> {
        self.file.write_all_at(bytes, at).map_err(cannot("write", &self.path))?;
        self.unsynced += bytes.len();
        if self.unsynced >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.unsynced = 0;
        self.file.sync().map_err(cannot("sync", &self.path))
    }
}
