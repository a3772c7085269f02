//! The disk as the engine uses it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use liststore::items::embedded::{Disk, DiskFile, LockGuard, Space};

use super::state::{Inode, NameChange, Node, SECTOR, WriteFault, apply, write};
use super::{Rng, SimDisk};

struct SimFile {
    disk: SimDisk,
    inode: u64,
    is_data_file: bool,
}

fn is_data_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "items")
}

impl Disk for SimDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        match state.names.get(dir) {
            Some(Node::Dir) => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => {}
        }
        state.need_dir(dir.parent().unwrap())?;
        state.step()?;
        state.change_name(NameChange::Set(dir.to_owned(), Node::Dir));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        state.need_dir(dir)?;
        let names = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        let is_compaction = std::thread::current().name() == Some("items-compact");
        while (state.data_files_held || is_compaction && state.compactions_held) && is_data_file(path) {
            state = self.1.wait(state).unwrap();
        }
        state.need_dir(path.parent().unwrap())?;
        state.step()?;
        if state.bytes_max.is_some_and(|max| state.used() >= max) || is_compaction && state.compactions_fail {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        state.change_name(NameChange::Set(path.to_owned(), Node::File(inode)));
        Ok(Arc::new(SimFile { disk: self.clone(), inode, is_data_file: is_data_file(path) }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.state().file(path)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode, is_data_file: is_data_file(path) }))
    }

    fn open_read_only(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        assert_eq!(from.parent(), to.parent(), "a change is one of a single directory here");
        state.file(from)?;
        state.step()?;
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.file(path)?;
        state.change_name(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if state.links_fail {
            return Err(io::Error::from(io::ErrorKind::CrossesDevices));
        }
        let inode = state.file(from)?;
        state.need_dir(to.parent().unwrap())?;
        state.change_name(NameChange::Set(to.to_owned(), Node::File(inode)));
        Ok(())
    }

    /// The next successful sync also stores the changes of a failed one: a file system with a journal contains them
    /// there, or accepts no more writes at all.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.need_dir(dir)?;
        state.step()?;
        if state.sync_fails() {
            return Err(io::Error::other("the sync failed"));
        }
        let changes = std::mem::take(&mut state.unsynced_names);
        let (synced, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| change.dir() == dir);
        synced.iter().for_each(|change| apply(&mut state.durable_names, change));
        state.unsynced_names = others;
        Ok(())
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let state = self.state();
        let Some(total) = state.bytes_max else { return Ok(Space { free: u64::MAX, total: u64::MAX }) };
        Ok(Space { free: total.saturating_sub(state.used()) as u64, total: total as u64 })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>> {
        struct Unlock(SimDisk, PathBuf);
        impl Drop for Unlock {
            fn drop(&mut self) {
                self.0.state().locked.remove(&self.1);
            }
        }
        let free = self.state().locked.insert(path.to_owned());
        Ok(free.then(|| Box::new(Unlock(self.clone(), path.to_owned())) as LockGuard))
    }
}

impl DiskFile for SimFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let is_compaction = std::thread::current().name() == Some("items-compact");
        while self.is_data_file && is_compaction && state.compactions_held {
            state = self.disk.1.wait(state).unwrap();
        }
        if self.is_data_file && !is_compaction {
            while state.data_reads_held {
                state = self.disk.1.wait(state).unwrap();
            }
            state.data_reads += 1;
        }
        let offset = usize::try_from(offset).unwrap();
        let bytes = state.inodes[&self.inode].present.get(offset..offset + buffer.len());
        buffer.copy_from_slice(bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let offset = usize::try_from(offset).unwrap();
        if state.writes_fail {
            return Err(io::Error::other("the write failed"));
        }
        let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        if state.syncs_fail_after.take_if(|part| holds(part)).is_some() {
            state.fail_syncs_after(0, 0);
        }
        if let Some((_, fault)) = state.write_fault.take_if(|(part, _)| holds(part)) {
            let lost = match fault {
                WriteFault::Fails { lost } | WriteFault::FailsForGood { lost } => lost,
                WriteFault::Panics => {
                    drop(state);
                    panic!("a panic that is wanted");
                }
            };
            state.writes_fail = matches!(fault, WriteFault::FailsForGood { .. });
            let written = &bytes[..bytes.len() - lost];
            let inode = state.inodes.get_mut(&self.inode).unwrap();
            write(&mut inode.present, offset, written);
            inode.unsynced.push((offset, written.to_vec()));
            return Err(io::Error::other("the write failed"));
        }
        let stopped = state.step();
        let grows_by = (offset + bytes.len()).saturating_sub(state.inodes[&self.inode].present.len());
        let full = grows_by > 0 && state.bytes_max.is_some_and(|max| state.used() + grows_by > max);
        // A write that is interrupted has written a part.
        let just_now = state.stop_at.is_some_and(|stop_at| state.operations == stop_at + 1);
        let written = match (stopped.is_err(), full) {
            (false, false) => bytes,
            (true, _) if !just_now => &[],
            _ => &bytes[..bytes.len() / 3],
        };
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        write(&mut inode.present, offset, written);
        inode.unsynced.push((offset, written.to_vec()));
        stopped?;
        if full { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        while state.syncs_held {
            state = self.disk.1.wait(state).unwrap();
        }
        state.step()?;
        let failed = state.sync_fails();
        let mut rng = Rng(state.torn + state.failed_syncs);
        let none_is_kept = state.torn == 0;
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        for (offset, bytes) in std::mem::take(&mut inode.unsynced) {
            for (i, sector) in bytes.chunks(SECTOR).enumerate() {
                if !failed || (!none_is_kept && rng.one_in(2)) {
                    write(&mut inode.durable, offset + i * SECTOR, sector);
                }
            }
        }
        if failed { Err(io::Error::other("the sync failed")) } else { Ok(()) }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[&self.inode].present.len() as u64)
    }
}
