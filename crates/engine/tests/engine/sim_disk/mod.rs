//! A disk in memory that loses unsynced data, tears the rest, stops at any operation, fills up, fails to sync, and
//! fails in the middle of a write.
//!
//! It behaves like Linux at its worst. A failed sync drops its data: the data can still be read, but is never written,
//! later syncs succeed, and once the cache is dropped or the power is lost the old bytes return. A name (of a file or
//! of a directory, created, renamed or removed) is durable once its directory is synced, together with the path to it.
//! After a loss of power each directory has some of its changes, the first ones.

mod operations;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

pub use state::WriteFault;
use state::{Inode, Node, SECTOR, State, apply, write};

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

/// A small deterministic generator (splitmix64), determined by the seed.
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

impl SimDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn other(state: State) -> Self {
        let state = State {
            stop_at: None,
            syncs_left: None,
            failed_syncs: 0,
            syncs_fail_after: None,
            write_fault: None,
            writes_fail: false,
            data_files_held: false,
            data_reads_held: false,
            data_reads: 0,
            compactions_held: false,
            compactions_fail: false,
            syncs_held: false,
            locked: BTreeSet::new(),
            ..state
        };
        Self(Arc::new(Mutex::new(state)), Arc::default())
    }

    /// The state for the next process after this one was killed: all written data.
    pub fn killed(&self) -> Self {
        Self::other(self.state().clone())
    }

    /// The state after a loss of power: all synced data, any sectors of the other writes to files, and for each
    /// directory a number of its first changes of names.
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

    /// The same after a loss of power that loses all unsynced data.
    pub fn crashed_hard(&self) -> Self {
        let copy = Self::other(self.state().clone());
        let mut state = copy.state();
        state.inodes.values_mut().for_each(|inode| inode.unsynced.clear());
        state.unsynced_names.clear();
        drop(state);
        copy.crashed(&mut Rng(0))
    }

    /// Reads files from the disk from now on: data that a failed sync has dropped is gone.
    pub fn drop_caches(&self) {
        for inode in self.state().inodes.values_mut() {
            inode.present.clone_from(&inode.durable);
            for (offset, bytes) in &inode.unsynced {
                write(&mut inode.present, *offset, bytes);
            }
        }
    }

    /// Makes all operations after this many fail.
    pub fn stop_after(&self, operations: u64) {
        let mut state = self.state();
        state.stop_at = Some(state.operations + operations);
    }

    pub fn has_stopped(&self) -> bool {
        let state = self.state();
        state.stop_at.is_some_and(|stop_at| state.operations > stop_at)
    }

    /// Leaves this many bytes free, or removes the bound.
    pub fn leave_free(&self, bytes: Option<usize>) {
        let mut state = self.state();
        state.bytes_max = bytes.map(|bytes| state.used() + bytes);
    }

    pub fn fail_syncs(&self) {
        self.fail_syncs_after(0, 0);
    }

    /// Makes syncs after this many fail. The seed selects the bytes that reach the disk nevertheless; with 0 none do.
    pub fn fail_syncs_after(&self, syncs: u64, seed: u64) {
        self.state().fail_syncs_after(syncs, seed);
    }

    /// Lets syncs fail, as [`Self::fail_syncs`] does, once these bytes are written. The log's own writes before that
    /// are still synced.
    pub fn fail_syncs_once_written(&self, holding: &[u8]) {
        self.state().syncs_fail_after = Some(holding.to_vec());
    }

    /// Stops within this many operations, or fails syncs earlier.
    pub fn stop_or_fail_syncs(&self, rng: &mut Rng, (operations, syncs): (u64, u64)) {
        if rng.one_in(2) {
            self.stop_after(rng.below(operations));
        } else {
            self.fail_syncs_after(rng.below(syncs), rng.below(3));
        }
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

    /// Blocks the creation of data files until it is released: threads that try wait.
    pub fn hold_data_files(&self, held: bool) {
        self.state().data_files_held = held;
        self.1.notify_all();
    }

    /// Blocks reads of data files until it is released: threads that try wait.
    pub fn hold_data_reads(&self, held: bool) {
        self.state().data_reads_held = held;
        self.1.notify_all();
    }

    /// How often data files were read, except by compactions.
    pub fn data_reads(&self) -> u64 {
        self.state().data_reads
    }

    /// Blocks reads and creations of data files by compactions until it is released.
    pub fn hold_compactions(&self, held: bool) {
        self.state().compactions_held = held;
        self.1.notify_all();
    }

    /// Lets compactions find no room.
    pub fn fail_compactions(&self, fail: bool) {
        self.state().compactions_fail = fail;
    }

    /// Blocks syncs of files until the returned value is dropped.
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

    /// A separate disk with the same content.
    pub fn copy(&self) -> Self {
        self.killed()
    }
}
