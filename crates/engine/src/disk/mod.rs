//! The few file operations that the engine uses, so that tests can stop, tear and reorder them. It never maps files
//! into memory, because that would hide waits and errors.

pub mod file_id;
pub mod owner;
pub mod room;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::Advice;

use super::error::WriteError;

/// Storage of files. Written data survives a crash of the process. It survives a loss of power only once the file is
/// synced, and its name only once the directory is synced.
pub trait Disk: Send + Sync + 'static {
    /// Creates one directory. Fails with `AlreadyExists` if it exists, and with `NotFound` if its parent is missing.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates an empty file, or empties the existing one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file for reading only, because the directory may be read-only.
    fn open_read_only(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Replaces `to` atomically, if it exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a directory survive a loss of power.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The space on the file system of a directory.
    fn space(&self, dir: &Path) -> io::Result<Space>;
    /// Locks a file, creating it if necessary, until the guard is dropped or the process ends. `None` if another
    /// process holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>>;
}

/// The space on a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The space available to this process.
    pub free: u64,
    pub total: u64,
}

/// Holds a lock until drop.
pub type LockGuard = Box<dyn Send + Sync>;

/// An open file. Reads and writes state their place, so that threads can share it.
pub trait DiskFile: Send + Sync {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the content survive a loss of power. After an error the state of all data written since the last success
    /// is unknown.
    fn sync(&self) -> io::Result<()>;
    /// Starts writing a part of the file to the disk, without waiting and without a promise. The next sync is then
    /// short.
    fn begin_sync(&self, _offset: u64, _len: u64) {}
    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;
}

/// Reads a whole file.
pub fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.size()?).map_err(|_| io::Error::other("the file is too large"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Creates a directory and its missing parents. Their names survive a loss of power.
pub fn create_dirs(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let created = match disk.create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.parent().is_some() => {
            create_dirs(disk, parent_of(dir))?;
            disk.create_dir(dir)
        }
        created => created,
    };
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.and_then(|()| disk.sync_dir(parent_of(dir))),
    }
}

/// Makes the names of the parents of a directory survive a loss of power, in case their creator was killed before its
/// sync. The owners of other directories are responsible for those.
pub fn sync_above(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    for above in dir.ancestors().skip(1) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match disk.sync_dir(above) {
            Err(error)
                if !matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported) =>
            {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The directory of a path's name.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces a small file atomically. The result survives a loss of power.
pub fn replace(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
    let temporary = dir.join(format!("{name}.tmp"));
    let file = disk.create(&temporary).map_err(WriteError::NotWritten)?;
    if let Err(error) = file.write_all_at(bytes, 0) {
        let _left_for_the_next_start = disk.remove(&temporary);
        return Err(WriteError::NotWritten(error));
    }
    let renamed = file.sync().and_then(|()| disk.rename(&temporary, &dir.join(name)));
    renamed.and_then(|()| disk.sync_dir(dir)).map_err(WriteError::Unknown)
}

/// Only the server's user may read its files.
const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// The machine's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().mode(PRIVATE_DIR).create(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn open_read_only(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(File::open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let found = rustix::fs::statvfs(dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(LockedFile(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Unlocks its file on drop. Closing is not enough: a program that another thread starts has a duplicate of each open
/// file until it is executed. A lock lasts until the last of them is closed (flock(2)).
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If that fails, closing unlocks it.
        let _ = self.0.unlock();
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn begin_sync(&self, offset: u64, len: u64) {
        // Linux starts to write pages that this advice covers. It drops only clean pages, and freshly changed ones are
        // dirty.
        let _only_an_advice = rustix::fs::fadvise(&self.0, offset, NonZeroU64::new(len), Advice::DontNeed);
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like the duplicate of a program that another thread is about to start.
    #[test]
    fn a_lock_ends_with_its_guard_despite_duplicates_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let file = File::create(&path).unwrap();
        file.try_lock().unwrap();
        let duplicate = file.try_clone().unwrap();
        let guard = LockedFile(file);
        assert!(RealDisk.lock(&path).unwrap().is_none());
        drop(guard);
        assert!(RealDisk.lock(&path).unwrap().is_some());
        drop(duplicate);
    }
}
