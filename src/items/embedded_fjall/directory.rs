//! The store's directory: its lock, and the mark that says whose and which format it is.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::OpenError;

/// The version of the rows and index rows in [`keys`](super::keys).
pub(super) const FORMAT: u32 = 1;
const FORMAT_PREFIX: &str = "liststore items, fjall, format ";

const FORMAT_FILE: &str = "FORMAT";
/// The mark of a directory whose engine is still being made: without it or [`FORMAT_FILE`], a
/// directory that holds anything is not ours.
const UNFINISHED_FILE: &str = "FORMAT.unfinished";
const LOCK_FILE: &str = "LOCK";
const PROBE_FILE: &str = "PROBE";
const ENGINE_DIR: &str = "fjall";
/// What has to fit on the disk before a store that ran out of room tries again.
const PROBE_BYTES: usize = 1 << 20;

/// A directory that this process holds for as long as this value lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks `<dir>/items` and checks that it is ours to open. What an unfinished first start has
    /// left is cleared away: nothing was acknowledged from it.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join("items");
        let io_error = |source| OpenError::Io { path: path.clone(), source };
        fs::create_dir_all(&path).map_err(io_error)?;
        let lock = File::create(path.join(LOCK_FILE)).map_err(io_error)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::Locked { path: path.clone() },
            TryLockError::Error(source) => io_error(source),
        })?;
        match fs::read_to_string(path.join(FORMAT_FILE)) {
            Ok(mark) => check_mark(&path, &mark)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => begin(&path)?,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(OpenError::Foreign { path }),
            Err(error) => return Err(io_error(error)),
        }
        Ok(Self { path, _lock: lock })
    }

    /// Says that the engine has been made: from now on the directory is what its mark says.
    pub fn finish(&self) -> Result<(), OpenError> {
        let unfinished = self.path.join(UNFINISHED_FILE);
        if unfinished.exists() {
            fs::rename(unfinished, self.path.join(FORMAT_FILE))
                .and_then(|()| File::open(&self.path)?.sync_all())
                .map_err(|source| OpenError::Io { path: self.path.clone(), source })?;
        }
        Ok(())
    }

    pub fn engine_path(&self) -> PathBuf {
        self.path.join(ENGINE_DIR)
    }

    /// Whether the disk takes writes: tried by a file of some size, since an engine that is opened
    /// on a full disk would only fail again.
    pub fn has_room(&self) -> bool {
        let path = self.path.join(PROBE_FILE);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&[0x5a; PROBE_BYTES])?;
            file.sync_all()
        });
        let removed = fs::remove_file(path);
        written.and(removed).is_ok()
    }
}

fn check_mark(path: &Path, mark: &str) -> Result<(), OpenError> {
    let format = mark.trim_end().strip_prefix(FORMAT_PREFIX).and_then(|number| number.parse().ok());
    match format {
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => Err(OpenError::Newer { path: path.to_owned(), found }),
        _ => Err(OpenError::Foreign { path: path.to_owned() }),
    }
}

fn begin(path: &Path) -> Result<(), OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    let unfinished = path.join(UNFINISHED_FILE);
    if unfinished.exists() {
        match fs::remove_dir_all(path.join(ENGINE_DIR)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
            _ => {}
        }
    } else if holds_anything(path).map_err(io_error)? {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    File::create(unfinished)
        .and_then(|mut file| {
            writeln!(file, "{FORMAT_PREFIX}{FORMAT}")?;
            file.sync_all()
        })
        .and_then(|()| File::open(path)?.sync_all())
        .map_err(io_error)
}

fn holds_anything(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK_FILE && name != PROBE_FILE {
            return Ok(true);
        }
    }
    Ok(false)
}
