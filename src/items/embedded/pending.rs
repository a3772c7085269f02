//! Items that are not in a file yet, by list, in memory. Only the log's thread adds to them, in the
//! order of the log; when they are many, they are frozen and written to files.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::list_id::ListId;
use super::log::Position;
use super::merge::merge_rows;
use super::row;

const SHARDS: usize = 64;
/// So many rows of one size are merged into one of the next, so that a list has few of them.
const FAN: usize = 4;
/// Rows are not merged beyond this: it would hold up the log's thread.
const MERGED_BYTES_MAX: usize = 1 << 20;
/// What a row, and what a list, costs in memory beside its bytes: an estimate.
const ROW_OVERHEAD: usize = 96;
const LIST_OVERHEAD: usize = 192;

/// One change to one list, as the log carries it.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds the items of a row, or deletes those that it marks as deleted.
    Row(Bytes),
    /// Removes all that is older than this.
    Clear,
}

impl Change {
    /// Bytes of the items that it carries.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Row(row) => row.len(),
            Self::Clear => 0,
        }
    }
}

#[derive(Debug, Clone)]
struct Run {
    row: Bytes,
    level: u8,
    /// Timestamp of the oldest item.
    oldest: u64,
}

/// What is pending of one list.
#[derive(Debug, Clone, Default)]
struct PendingList {
    /// Whether all older sources are hidden.
    cleared: bool,
    /// Oldest first.
    runs: Vec<Run>,
}

/// What a reader sees of one list.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub cleared: bool,
    /// Newest first.
    pub rows: Vec<Bytes>,
}

/// A map of pending lists. Every change appears in it whole.
#[derive(Debug)]
pub struct Pending {
    /// Where in the log its first change stands.
    pub start: Position,
    shards: Box<[Mutex<HashMap<ListId, PendingList>>]>,
    bytes: AtomicUsize,
}

impl Pending {
    pub fn new(start: Position) -> Self {
        Self { start, shards: (0..SHARDS).map(|_| Mutex::default()).collect(), bytes: AtomicUsize::new(0) }
    }

    fn shard(&self, list: &ListId) -> MutexGuard<'_, HashMap<ListId, PendingList>> {
        let i = (list.hash() as usize) % SHARDS;
        // No change leaves the map half changed, so a panic elsewhere does not spoil it.
        self.shards[i].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory, estimated.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Carries out a change. `oldest` is the oldest timestamp of its row.
    pub fn apply(&self, list: &ListId, change: &Change, oldest: u64) {
        let mut shard = self.shard(list);
        let (mut added, mut freed) = (0, 0);
        let pending = match shard.entry(list.clone()) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                added += LIST_OVERHEAD + list.bytes().len();
                slot.insert(PendingList::default())
            }
        };
        match change {
            Change::Clear => {
                freed += pending.runs.iter().map(Run::bytes).sum::<usize>();
                *pending = PendingList { cleared: true, runs: Vec::new() };
            }
            Change::Row(row) => {
                let run = Run { row: row.clone(), level: 0, oldest };
                added += run.bytes();
                pending.runs.push(run);
                let before: usize = pending.runs.iter().map(Run::bytes).sum();
                pending.fold();
                freed += before - pending.runs.iter().map(Run::bytes).sum::<usize>().min(before);
            }
        }
        drop(shard);
        // Only one thread changes the sum, so that it never passes below zero.
        self.bytes.fetch_add(added, Ordering::Relaxed);
        self.bytes.fetch_sub(freed, Ordering::Relaxed);
    }

    /// What is pending of a list, without rows that are wholly newer than `newest_wanted`.
    pub fn snapshot(&self, list: &ListId, newest_wanted: u64) -> Option<Snapshot> {
        let shard = self.shard(list);
        let pending = shard.get(list)?;
        let wanted = pending.runs.iter().rev().filter(|run| run.oldest <= newest_wanted);
        Some(Snapshot { cleared: pending.cleared, rows: wanted.map(|run| run.row.clone()).collect() })
    }

    /// All lists, in the order of files.
    pub fn sorted(&self) -> Vec<(ListId, Snapshot)> {
        let mut lists = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            lists.extend(shard.iter().map(|(list, pending)| {
                let rows = pending.runs.iter().rev().map(|run| run.row.clone()).collect();
                (list.clone(), Snapshot { cleared: pending.cleared, rows })
            }));
        }
        lists.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        lists
    }
}

/// The rows of some runs, oldest first, one after the other, if their times do not overlap.
fn join(runs: &[Run]) -> Option<Bytes> {
    let (oldest, newer) = runs.split_first()?;
    newer.iter().try_fold(oldest.row.clone(), |row, run| row::join(&run.row, run.oldest, &row, u64::MAX))
}

impl Run {
    fn bytes(&self) -> usize {
        self.row.len() + ROW_OVERHEAD
    }
}

impl PendingList {
    /// Merges the newest rows while there are `FAN` of one size.
    fn fold(&mut self) {
        while let Some(first) = self.runs.len().checked_sub(FAN) {
            let newest = &self.runs[first..];
            let level = newest[0].level;
            let bytes: usize = newest.iter().map(|run| run.row.len()).sum();
            if bytes > MERGED_BYTES_MAX || newest.iter().any(|run| run.level != level) {
                return;
            }
            let bottom = self.cleared && first == 0;
            let oldest = newest.iter().map(|run| run.oldest).min().unwrap_or(0);
            let row = match join(newest).filter(|_| !bottom) {
                Some(row) => row,
                None => match merge_rows(newest.iter().rev().map(|run| run.row.clone()), bottom) {
                    Ok(row) => row,
                    // Rows in memory are well formed; if one were not, it stays as it is, and reads say so.
                    Err(_) => return,
                },
            };
            self.runs.truncate(first);
            self.runs.push(Run { row, level: level.saturating_add(1), oldest });
        }
    }
}
