//! A disk in memory that forgets what was not synced, tears what it keeps of it, stops at any
//! operation, fills up, fails to sync, and fails in the middle of a write.
//!
//! It does as Linux does where that is unkind. A sync that fails drops what was to be written: it can
//! still be read, nobody writes it any more, later syncs succeed, and once the cache is dropped or the
//! power is lost the old bytes are back. A name (of a file or of a directory, created, renamed or
//! removed) lasts once the directory that it stands in is synced, and with it those that lead there;
//! after a loss of power each directory has some of its changes, the first ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use liststore::items::embedded::{Disk, DiskFile, LockGuard, Space};

const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Inode {
    /// What is on the disk itself.
    durable: Vec<u8>,
    /// What is read.
    present: Vec<u8>,
    /// What the next sync writes. What a failed one was to write is neither here nor durable.
    unsynced: Vec<(usize, Vec<u8>)>,
}

/// A change in one directory.
#[derive(Clone)]
enum NameChange {
    Set(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    fn dir(&self) -> &Path {
        let (Self::Set(path, _) | Self::Rename(path, _) | Self::Remove(path)) = self;
        path.parent().unwrap()
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(u64),
    Dir,
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
    names: BTreeMap<PathBuf, Node>,
    durable_names: BTreeMap<PathBuf, Node>,
    unsynced_names: Vec<NameChange>,
    operations: u64,
    stop_at: Option<u64>,
    bytes_max: Option<usize>,
    /// How many syncs still succeed before some fail, if any do, and what decides over their bytes.
    syncs_left: Option<u64>,
    failed_syncs: u64,
    torn: u64,
    write_fault: Option<(Vec<u8>, WriteFault)>,
    writes_fail: bool,
    data_files_held: bool,
    data_reads_held: bool,
    /// Reads of data files, but for those of merges.
    data_reads: u64,
    merges_held: bool,
    merges_fail: bool,
    syncs_held: bool,
    links_fail: bool,
    locked: BTreeSet<PathBuf>,
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
        let files = self.names.values().filter_map(|node| match node {
            Node::File(inode) => self.inodes.get(inode),
            Node::Dir => None,
        });
        files.map(|inode| inode.present.len()).sum()
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found()),
        }
    }

    fn need_dir(&self, dir: &Path) -> io::Result<()> {
        let there = dir == Path::new("/") || self.names.get(dir) == Some(&Node::Dir);
        if there { Ok(()) } else { Err(not_found()) }
    }

    /// Whether this sync fails.
    fn sync_fails(&mut self) -> bool {
        match &mut self.syncs_left {
            Some(0) => {
                self.failed_syncs += 1;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, Node>, change: &NameChange) {
    match change {
        NameChange::Set(path, node) => {
            names.insert(path.clone(), *node);
        }
        NameChange::Rename(from, to) => {
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
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
            syncs_left: None,
            failed_syncs: 0,
            write_fault: None,
            writes_fail: false,
            data_files_held: false,
            data_reads_held: false,
            data_reads: 0,
            merges_held: false,
            merges_fail: false,
            syncs_held: false,
            locked: BTreeSet::new(),
            ..state
        };
        Self(Arc::new(Mutex::new(state)), Arc::default())
    }

    /// What the next process finds after this one was killed: all that was written.
    pub fn killed(&self) -> Self {
        Self::other(self.state().clone())
    }

    /// What is found after a loss of power: all that was synced, and of the rest any sectors of
    /// files, and of each directory the first so many changes of its names.
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
        let changes = std::mem::take(&mut state.unsynced_names);
        let dirs: BTreeSet<_> = changes.iter().map(|change| change.dir().to_owned()).collect();
        for dir in dirs {
            let changes: Vec<_> = changes.iter().filter(|change| change.dir() == dir).collect();
            let kept = rng.below(changes.len() as u64 + 1) as usize;
            changes.into_iter().take(kept).for_each(|change| apply(&mut state.durable_names, change));
        }
        let found = std::mem::take(&mut state.durable_names);
        let leads_there = |path: &Path| {
            let mut above = path.ancestors().skip(1).filter(|dir| *dir != Path::new("/"));
            above.all(|dir| found.get(dir) == Some(&Node::Dir))
        };
        let found: BTreeMap<_, _> = found.iter().filter(|(path, _)| leads_there(path)).collect();
        state.names = found.into_iter().map(|(path, node)| (path.clone(), *node)).collect();
        state.durable_names = state.names.clone();
        Self::other(state)
    }

    /// The same after a loss of power that keeps nothing of what was not synced.
    pub fn crashed_hard(&self) -> Self {
        let copy = Self::other(self.state().clone());
        let mut state = copy.state();
        state.inodes.values_mut().for_each(|inode| inode.unsynced.clear());
        state.unsynced_names.clear();
        drop(state);
        copy.crashed(&mut Rng(0))
    }

    /// Reads files from the disk from now on: what a failed sync has dropped is gone.
    pub fn drop_caches(&self) {
        for inode in self.state().inodes.values_mut() {
            inode.present.clone_from(&inode.durable);
            for (offset, bytes) in &inode.unsynced {
                write(&mut inode.present, *offset, bytes);
            }
        }
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
        self.fail_syncs_after(0, 0);
    }

    /// Lets syncs fail after so many more. The seed decides what of the bytes reaches the disk all the
    /// same; with 0 none does.
    pub fn fail_syncs_after(&self, syncs: u64, seed: u64) {
        let mut state = self.state();
        (state.syncs_left, state.failed_syncs, state.torn) = (Some(syncs), 0, seed);
    }

    pub fn has_failed_syncs(&self) -> bool {
        self.state().failed_syncs > 0
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

    /// Lets nothing be read from data files until it is told otherwise: whoever tries waits.
    pub fn hold_data_reads(&self, held: bool) {
        self.state().data_reads_held = held;
        self.1.notify_all();
    }

    /// How often data files were read, but for merges.
    pub fn data_reads(&self) -> u64 {
        self.state().data_reads
    }

    /// The same for those of merges alone.
    pub fn hold_merges(&self, held: bool) {
        self.state().merges_held = held;
        self.1.notify_all();
    }

    /// Lets merges find no room.
    pub fn fail_merges(&self, fail: bool) {
        self.state().merges_fail = fail;
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
        let state = self.state();
        let files = state.names.iter().filter(|(_, node)| matches!(node, Node::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// All files with their contents, as they were at one moment.
    pub fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = self.state();
        let content = |(path, node): (&PathBuf, &Node)| match node {
            Node::File(id) => Some((path.clone(), state.inodes[id].present.clone())),
            Node::Dir => None,
        };
        state.names.iter().filter_map(content).collect()
    }

    pub fn content(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        state.inodes[&state.file(path).unwrap()].present.clone()
    }

    /// Replaces the content of a file, durably, or makes one, and the directories that lead to it.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let id = state.file(path).unwrap_or_else(|_| {
            state.next_inode += 1;
            state.next_inode - 1
        });
        let dirs: Vec<_> = path.ancestors().skip(1).filter(|dir| *dir != Path::new("/")).collect();
        for (path, node) in dirs.into_iter().map(|dir| (dir, Node::Dir)).chain([(path, Node::File(id))]) {
            state.names.insert(path.to_owned(), node);
            state.durable_names.insert(path.to_owned(), node);
        }
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
    is_data_file: bool,
}

fn is_data_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "items")
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
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
        let merges = std::thread::current().name() == Some("items-compact");
        while (state.data_files_held || merges && state.merges_held) && is_data_file(path) {
            state = self.1.wait(state).unwrap();
        }
        state.need_dir(path.parent().unwrap())?;
        state.step()?;
        if state.bytes_max.is_some_and(|max| state.used() >= max) || merges && state.merges_fail {
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

    /// What a failed one was to keep is kept by the next one that succeeds: a file system with a
    /// journal has it in there, or takes no more writes at all.
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
        if self.is_data_file && std::thread::current().name() != Some("items-compact") {
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
