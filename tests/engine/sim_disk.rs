//! A disk in memory that forgets what was not synced, tears what it keeps of it, stops at any
//! operation, fills up, fails to sync, and fails in the middle of a write.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use liststore::items::embedded::{Disk, DiskFile, LockGuard};

const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    present: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone)]
enum NameChange {
    Set(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// What becomes of the next write that holds certain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// It fails when all but so many of its last bytes are written.
    Fails { lost: usize },
    /// The same, and so does every write after it.
    FailsForGood { lost: usize },
    /// Whoever writes panics.
    Panics,
}

#[derive(Clone, Default)]
struct State {
    inodes: HashMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    unsynced_names: Vec<NameChange>,
    operations: u64,
    stop_at: Option<u64>,
    bytes_max: Option<usize>,
    syncs_fail: bool,
    write_fault: Option<(Vec<u8>, WriteFault)>,
    writes_fail: bool,
    data_files_held: bool,
    syncs_held: bool,
    links_fail: bool,
    locked: bool,
}

/// Handles share the disk; [`SimDisk::crashed`] and [`SimDisk::killed`] make another one.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>, Arc<Condvar>);

/// Keeps syncs from returning. A test that fails must drop it before its store, which waits for them.
pub struct HeldSyncs(SimDisk);

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.0.state().syncs_held = false;
        self.0.1.notify_all();
    }
}

/// A small deterministic generator (splitmix64): the seed says all.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.stop_at {
            Some(stop_at) if self.operations > stop_at => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    fn change_name(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.unsynced_names.push(change);
    }

    fn used(&self) -> usize {
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(|inode| inode.present.len()).sum()
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
    match change {
        NameChange::Set(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        NameChange::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        NameChange::Remove(path) => {
            names.remove(path);
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

impl SimDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn other(state: State) -> Self {
        let state = State {
            stop_at: None,
            syncs_fail: false,
            write_fault: None,
            writes_fail: false,
            data_files_held: false,
            syncs_held: false,
            locked: false,
            ..state
        };
        Self(Arc::new(Mutex::new(state)), Arc::default())
    }

    /// What the next process finds after this one was killed: all that was written.
    pub fn killed(&self) -> Self {
        Self::other(self.state().clone())
    }

    /// What is found after a loss of power: all that was synced, and of the rest any sectors of
    /// files, and the first so many changes of names.
    pub fn crashed(&self, rng: &mut Rng) -> Self {
        let mut state = self.state().clone();
        let mut ids: Vec<_> = state.inodes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let inode = state.inodes.get_mut(&id).unwrap();
            for (offset, bytes) in std::mem::take(&mut inode.unsynced) {
                for (i, sector) in bytes.chunks(SECTOR).enumerate() {
                    if rng.one_in(2) {
                        write(&mut inode.durable, offset + i * SECTOR, sector);
                    }
                }
            }
            inode.present = inode.durable.clone();
        }
        let kept = rng.below(state.unsynced_names.len() as u64 + 1) as usize;
        for change in state.unsynced_names.drain(..).take(kept) {
            apply(&mut state.durable_names, &change);
        }
        state.names = state.durable_names.clone();
        Self::other(state)
    }

    /// Lets no operation succeed after so many more.
    pub fn stop_after(&self, operations: u64) {
        let mut state = self.state();
        state.stop_at = Some(state.operations + operations);
    }

    pub fn has_stopped(&self) -> bool {
        let state = self.state();
        state.stop_at.is_some_and(|stop_at| state.operations > stop_at)
    }

    /// Leaves so many bytes free, or takes the bound away.
    pub fn leave_free(&self, bytes: Option<usize>) {
        let mut state = self.state();
        state.bytes_max = bytes.map(|bytes| state.used() + bytes);
    }

    pub fn fail_syncs(&self) {
        self.state().syncs_fail = true;
    }

    /// Lets the next write that holds these bytes go wrong.
    pub fn fail_write_of(&self, holding: &[u8], fault: WriteFault) {
        self.state().write_fault = Some((holding.to_vec(), fault));
    }

    /// Lets writes succeed again.
    pub fn heal_writes(&self) {
        let mut state = self.state();
        (state.write_fault, state.writes_fail) = (None, false);
    }

    /// Lets no data file be created until it is told otherwise: whoever tries waits.
    pub fn hold_data_files(&self, held: bool) {
        self.state().data_files_held = held;
        self.1.notify_all();
    }

    /// Lets no sync of a file return until what this returns is dropped.
    pub fn hold_syncs(&self) -> HeldSyncs {
        self.state().syncs_held = true;
        HeldSyncs(self.clone())
    }

    /// Lets no hard link be made, as between two file systems.
    pub fn fail_links(&self, fail: bool) {
        self.state().links_fail = fail;
    }

    pub fn files(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    pub fn content(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        state.inodes[&state.names[path]].present.clone()
    }

    /// Replaces the content of a file, durably.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let id = state.names[path];
        state.inodes.insert(id, Inode { durable: bytes.clone(), present: bytes, unsynced: Vec::new() });
    }

    /// A disk of its own with the same content.
    pub fn copy(&self) -> Self {
        self.killed()
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Disk for SimDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let names = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        while state.data_files_held && path.extension().is_some_and(|extension| extension == "items") {
            state = self.1.wait(state).unwrap();
        }
        state.step()?;
        if state.bytes_max.is_some_and(|max| state.used() >= max) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        state.change_name(NameChange::Set(path.to_owned(), inode));
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inode = *self.state().names.get(path).ok_or_else(not_found)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn open_read_only(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if !state.names.contains_key(path) {
            return Err(not_found());
        }
        state.change_name(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if state.links_fail {
            return Err(io::Error::from(io::ErrorKind::CrossesDevices));
        }
        let inode = *state.names.get(from).ok_or_else(not_found)?;
        state.change_name(NameChange::Set(to.to_owned(), inode));
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if state.syncs_fail {
            return Err(io::Error::other("the sync failed"));
        }
        state.durable_names = state.names.clone();
        state.unsynced_names.clear();
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Option<LockGuard>> {
        struct Unlock(SimDisk);
        impl Drop for Unlock {
            fn drop(&mut self) {
                self.0.state().locked = false;
            }
        }
        let mut state = self.state();
        let free = !std::mem::replace(&mut state.locked, true);
        Ok(free.then(|| Box::new(Unlock(self.clone())) as LockGuard))
    }
}

impl DiskFile for SimFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.disk.state();
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
        // Whoever stops in the middle of a write has written some of it.
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
        if state.syncs_fail {
            return Err(io::Error::other("the sync failed"));
        }
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        for (offset, bytes) in std::mem::take(&mut inode.unsynced) {
            write(&mut inode.durable, offset, &bytes);
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[&self.inode].present.len() as u64)
    }
}
