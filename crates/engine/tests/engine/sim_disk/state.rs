//! The data on the disk, the data that is read, and the data that would be lost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

pub(super) const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(super) struct Inode {
    /// The data on the disk.
    pub(super) durable: Vec<u8>,
    /// The data that is read.
    pub(super) present: Vec<u8>,
    /// The data that the next sync writes. Data of a failed sync is neither here nor durable.
    pub(super) unsynced: Vec<(usize, Vec<u8>)>,
}

/// A change in one directory.
#[derive(Clone)]
pub(super) enum NameChange {
    Set(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    pub(super) fn dir(&self) -> &Path {
        let (Self::Set(path, _) | Self::Rename(path, _) | Self::Remove(path)) = self;
        path.parent().unwrap()
    }
}

/// The target of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Dir,
}

/// The fate of the next write that contains certain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// It fails after all but its last bytes are written.
    Fails { lost: usize },
    /// The same, and so does every write after it.
    FailsForGood { lost: usize },
    /// Writers panic.
    Panics,
}

#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) inodes: HashMap<u64, Inode>,
    pub(super) next_inode: u64,
    pub(super) names: BTreeMap<PathBuf, Node>,
    pub(super) durable_names: BTreeMap<PathBuf, Node>,
    pub(super) unsynced_names: Vec<NameChange>,
    pub(super) operations: u64,
    pub(super) stop_at: Option<u64>,
    pub(super) bytes_max: Option<usize>,
    /// The number of successful syncs before failing ones, if any, and the seed for their bytes.
    pub(super) syncs_left: Option<u64>,
    pub(super) failed_syncs: u64,
    pub(super) torn: u64,
    /// The bytes after which they fail.
    pub(super) syncs_fail_after: Option<Vec<u8>>,
    pub(super) write_fault: Option<(Vec<u8>, WriteFault)>,
    pub(super) writes_fail: bool,
    pub(super) data_files_held: bool,
    pub(super) data_reads_held: bool,
    /// Reads of data files, except by compactions.
    pub(super) data_reads: u64,
    pub(super) compactions_held: bool,
    pub(super) compactions_fail: bool,
    pub(super) syncs_held: bool,
    pub(super) links_fail: bool,
    pub(super) locked: BTreeSet<PathBuf>,
}

impl State {
    pub(super) fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.stop_at {
            Some(stop_at) if self.operations > stop_at => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    pub(super) fn change_name(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.unsynced_names.push(change);
    }

    pub(super) fn used(&self) -> usize {
        let files = self.names.values().filter_map(|node| match node {
            Node::File(inode) => self.inodes.get(inode),
            Node::Dir => None,
        });
        files.map(|inode| inode.present.len()).sum()
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found()),
        }
    }

    pub(super) fn need_dir(&self, dir: &Path) -> io::Result<()> {
        let there = dir == Path::new("/") || self.names.get(dir) == Some(&Node::Dir);
        if there { Ok(()) } else { Err(not_found()) }
    }

    pub(super) fn fail_syncs_after(&mut self, syncs: u64, seed: u64) {
        (self.syncs_left, self.failed_syncs, self.torn) = (Some(syncs), 0, seed);
    }

    /// Whether this sync fails.
    pub(super) fn sync_fails(&mut self) -> bool {
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

pub(super) fn apply(names: &mut BTreeMap<PathBuf, Node>, change: &NameChange) {
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

pub(super) fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}
