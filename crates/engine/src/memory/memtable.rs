//! The memtable: items that no file contains yet, by list. Only the log's thread adds to it, in the order of the log.
//! When it is large, it is frozen and flushed to files.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::files::PARTITIONS;
use crate::list_id::ListId;
use crate::log::Position;
use crate::log::change::Change;
use crate::row;
use crate::row::merge::merge_rows;
use crate::row::reverse;
use crate::row::seek::{HeldRow, Spacing};

/// Lists whose hashes begin with the same byte share a shard. So the shards are in the order of files, and each belongs
/// to one partition.
const SHARDS: usize = 256;
/// This many rows of similar size are merged into one larger row, so that a list has few of them.
const FAN: usize = 4;
/// Rows are not merged beyond this size, because that would delay the log's thread.
const MERGED_BYTES_MAX: usize = 256 << 10;
/// The level of rows that are no longer merged.
const SETTLED: u8 = u8::MAX;
/// The estimated memory of a row, and of a list, in addition to its bytes.
const ROW_OVERHEAD: usize = 96;
const LIST_OVERHEAD: usize = 320;

#[derive(Debug, Clone)]
struct Run {
    row: HeldRow,
    level: u8,
    /// Timestamp of the oldest item.
    oldest: u64,
}

/// The content of the memtable for one list.
#[derive(Debug, Clone, Default)]
struct MemtableList {
    /// Whether all older sources are hidden.
    cleared: bool,
    /// Oldest first.
    runs: Vec<Run>,
}

/// A reader's view of one list.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub cleared: bool,
    /// Newest first.
    pub rows: Vec<HeldRow>,
}

/// A map of lists. Every change appears in it completely.
#[derive(Debug)]
pub struct Memtable {
    /// The place of its first change in the log.
    pub start: Position,
    began: Instant,
    shards: Box<[Mutex<HashMap<ListId, MemtableList>>]>,
    bytes: AtomicUsize,
    /// Estimated bytes of data files that its removals hide, by partition.
    hidden: [AtomicU64; PARTITIONS],
    most_hidden: AtomicU64,
}

impl Memtable {
    pub fn new(start: Position) -> Self {
        Self {
            start,
            began: Instant::now(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            bytes: AtomicUsize::new(0),
            hidden: Default::default(),
            most_hidden: AtomicU64::new(0),
        }
    }

    /// Its age.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Adds to the bytes of a partition's data files that the memtable hides.
    pub fn note_hidden(&self, partition: usize, bytes: u64) {
        let hidden = self.hidden[partition].fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most_hidden.fetch_max(hidden, Ordering::Relaxed);
    }

    /// The estimated bytes of a partition's data files that the memtable hides.
    pub fn hidden(&self, partition: usize) -> u64 {
        self.hidden[partition].load(Ordering::Relaxed)
    }

    /// The largest of these estimates over all partitions.
    pub fn most_hidden(&self) -> u64 {
        self.most_hidden.load(Ordering::Relaxed)
    }

    fn shard(&self, list: &ListId) -> MutexGuard<'_, HashMap<ListId, MemtableList>> {
        let i = shard_of(list.hash());
        // No change leaves the map half changed, so a panic elsewhere does not corrupt it.
        self.shards[i].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory, estimated.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Applies a change. `oldest` is the oldest timestamp of its row.
    pub fn apply(&self, list: &ListId, change: &Change, oldest: u64) {
        let spacing = if reverse::is_reverse(list.bytes()) { Spacing::Places } else { Spacing::Pages };
        let (clears, row) = match change {
            Change::Row(row) => (false, Some(row)),
            Change::Clear => (true, None),
            Change::Replace(row) => (true, Some(row)),
        };
        let row = row.map(|row| HeldRow::new(row.clone(), spacing));
        let mut shard = self.shard(list);
        let (mut added, mut freed) = (0, 0);
        let pending = match shard.entry(list.clone()) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                added += LIST_OVERHEAD + list.bytes().len();
                slot.insert(MemtableList::default())
            }
        };
        if clears {
            freed += pending.runs.iter().map(Run::bytes).sum::<usize>();
            *pending = MemtableList { cleared: true, runs: Vec::new() };
        }
        if let Some(row) = row {
            let run = Run { row, level: 0, oldest };
            added += run.bytes();
            pending.runs.push(run);
            let (before, after) = pending.fold(spacing);
            added += after;
            freed += before;
        }
        drop(shard);
        // Only one thread changes the sum, so it never drops below zero.
        self.bytes.fetch_add(added, Ordering::Relaxed);
        self.bytes.fetch_sub(freed, Ordering::Relaxed);
    }

    /// The content for a list, without rows that are entirely newer than `newest_wanted`.
    pub fn snapshot(&self, list: &ListId, newest_wanted: u64) -> Option<Snapshot> {
        let shard = self.shard(list);
        let pending = shard.get(list)?;
        let wanted = pending.runs.iter().rev().filter(|run| run.oldest <= newest_wanted);
        Some(Snapshot { cleared: pending.cleared, rows: wanted.map(|run| run.row.clone()).collect() })
    }

    /// The number of parts in which [`Memtable::visit`] shows the lists.
    pub const PARTS: usize = SHARDS;

    /// Shows the lists of one part, in no order. `visit` must be quick, because changes to the lists wait.
    pub fn visit(&self, part: usize, visit: impl FnMut(&ListId)) {
        if let Some(shard) = self.shards.get(part) {
            shard.lock().unwrap_or_else(PoisonError::into_inner).keys().for_each(visit);
        }
    }

    /// The lists whose older sources are all hidden.
    pub fn cleared(&self) -> Vec<ListId> {
        let of_shard = |shard: &Mutex<HashMap<ListId, MemtableList>>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let cleared = shard.iter().filter(|(_, pending)| pending.cleared);
            cleared.map(|(list, _)| list.clone()).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// The lists of a partition, in the order of files. It looks them up a few at a time.
    pub fn sorted(&self, partition: usize) -> impl Iterator<Item = (ListId, Snapshot)> {
        let of_partition = self.shards.chunks(SHARDS / PARTITIONS).nth(partition).unwrap_or_default();
        of_partition.iter().flat_map(|shard| {
            let held = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let snapshot = |(list, pending): (&ListId, &MemtableList)| {
                let rows = pending.runs.iter().rev().map(|run| run.row.clone()).collect();
                (list.clone(), Snapshot { cleared: pending.cleared, rows })
            };
            let mut lists: Vec<_> = held.iter().map(snapshot).collect();
            drop(held);
            lists.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            lists
        })
    }

    /// Frees its memory list by list, and calls `worked` after each.
    pub fn free(self, mut worked: impl FnMut()) {
        for shard in self.shards {
            let lists = shard.into_inner().unwrap_or_else(PoisonError::into_inner);
            for list in lists {
                drop(list);
                worked();
            }
        }
    }
}

fn shard_of(hash: u64) -> usize {
    const { assert!(SHARDS == 256 && SHARDS.is_multiple_of(PARTITIONS)) };
    (hash >> 56) as usize
}

/// The rows of some runs, oldest first, one after the other, if their times do not overlap.
fn join(runs: &[Run]) -> Option<Bytes> {
    let (oldest, newer) = runs.split_first()?;
    newer.iter().try_fold(oldest.row.row.clone(), |row, run| row::join(&run.row.row, run.oldest, &row, u64::MAX))
}

impl Run {
    fn bytes(&self) -> usize {
        self.row.row.len() + self.row.bookmark_bytes() + ROW_OVERHEAD
    }
}

impl MemtableList {
    /// Merges the newest rows while there are `FAN` of similar size. The cost of one change is bounded, because the
    /// read rows and the merged row are. An item is merged at most once per level. Returns the bytes of the merged
    /// rows, and of the result.
    fn fold(&mut self, spacing: Spacing) -> (usize, usize) {
        let (mut before, mut after) = (0, 0);
        while let Some(first) = self.runs.len().checked_sub(FAN) {
            let newest = &mut self.runs[first..];
            let level = newest[0].level;
            if level == SETTLED || newest.iter().any(|run| run.level != level) {
                break;
            }
            let bytes: usize = newest.iter().map(|run| run.row.row.len()).sum();
            let bottom = self.cleared && first == 0;
            let oldest = newest.iter().map(|run| run.oldest).min().unwrap_or(0);
            let merged = if bytes > MERGED_BYTES_MAX { None } else { merged(newest, bottom) };
            let Some(row) = merged else {
                newest.iter_mut().for_each(|run| run.level = SETTLED);
                break;
            };
            before += newest.iter().map(Run::bytes).sum::<usize>();
            self.runs.truncate(first);
            let merged = Run { row: HeldRow::new(row, spacing), level: level + 1, oldest };
            after += merged.bytes();
            self.runs.push(merged);
        }
        (before, after)
    }
}

/// Some runs, oldest first, as one row; `None` if it would be too long.
fn merged(runs: &[Run], bottom: bool) -> Option<Bytes> {
    if let Some(row) = join(runs).filter(|_| !bottom) {
        return Some(row);
    }
    // Rows in memory are well-formed. A malformed one would stay unchanged, and reads would report it.
    merge_rows(runs.iter().rev().map(|run| run.row.row.clone()), bottom, MERGED_BYTES_MAX).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::partition_of;
    use crate::options::ListHash;
    use crate::row::merge::{MemorySource, Merge, Source};
    use crate::row::{RowBuilder, pack, work};
    use liststore_contract::domain::{NewItem, Timestamp};

    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);

    fn list() -> ListId {
        ListId::from_bytes(b"list", HASH)
    }

    fn added(pending: &Memtable, items: Vec<(u64, Vec<u8>)>) {
        let item = |(time, value): (u64, Vec<u8>)| NewItem {
            timestamp: Timestamp::from_nanos(time).unwrap(),
            value: value.into(),
            expires_at: u64::MAX,
        };
        let oldest = items.iter().map(|(time, _)| *time).min().unwrap_or(0);
        pending.apply(&list(), &Change::Row(pack(items.into_iter().map(item).collect())), oldest);
    }

    #[test]
    fn each_partition_shows_its_lists_in_the_order_of_files() {
        let pending = Memtable::new(Position::start_of(1));
        let list = |n: u64| ListId::from_bytes(&n.to_le_bytes(), ListHash::Token);
        (0..2_000).for_each(|n| pending.apply(&list(n), &Change::Clear, 0));
        let shown = |partition| pending.sorted(partition).map(|(list, _)| list).collect::<Vec<_>>();
        for partition in 0..PARTITIONS {
            let lists = shown(partition);
            assert!(!lists.is_empty() && lists.iter().all(|list| partition_of(list.hash()) == partition));
        }
        let mut all: Vec<_> = (0..2_000).map(list).collect();
        all.sort_unstable();
        assert_eq!((0..PARTITIONS).flat_map(shown).collect::<Vec<_>>(), all);
    }

    fn items_of(pending: &Memtable) -> u64 {
        let rows = pending.snapshot(&list(), u64::MAX).unwrap().rows;
        let source = |held: HeldRow| Box::new(MemorySource::new(held.row).unwrap()) as Box<dyn Source>;
        let mut merge = Merge::new(rows.into_iter().map(source).collect());
        let mut count = 0;
        while merge.current().is_some() {
            count += 1;
            merge.advance().unwrap();
        }
        count
    }

    /// This runs on the log's thread, for which every other list's writes wait. With a digest for each comparison these
    /// adds once took 20 s.
    #[test]
    fn an_add_to_a_list_of_ties_digests_only_merged_items() {
        let pending = Memtable::new(Position::start_of(1));
        let (mut digested_most, mut digests_all) = (0, 0);
        for add in 0..64_u64 {
            let items = match add % 4 {
                0 => vec![(7, [vec![b'x'; 63_000], add.to_le_bytes().to_vec()].concat())],
                _ => (0..1_000).map(|n| (7, format!("{add}-{n}").into_bytes())).collect(),
            };
            let ((), digests, bytes) = work::digests_of(|| added(&pending, items));
            (digested_most, digests_all) = (digested_most.max(bytes), digests_all + digests);
        }
        assert!(digested_most <= 2 * MERGED_BYTES_MAX as u64, "{digested_most}");
        let levels = 4;
        assert!(digests_all <= levels * items_of(&pending), "{digests_all}");
        assert_eq!(items_of(&pending), 16 + 48 * 1_000);
    }

    /// A value that a thousand items share is stored once in their row. Between the items of another row it would be
    /// stored a thousand times.
    #[test]
    fn merging_does_not_repeat_values_that_items_share() {
        let pending = Memtable::new(Position::start_of(1));
        for add in 0..16_u8 {
            added(&pending, (0..1_000).map(|time| (time, vec![add; 1_000])).collect());
        }
        assert!(pending.bytes() < 16 * 16_000, "{}", pending.bytes());
        assert_eq!(items_of(&pending), 16_000);
    }

    #[test]
    fn a_list_of_many_adds_has_few_rows() {
        let pending = Memtable::new(Position::start_of(1));
        for add in 0..10_000 {
            added(&pending, vec![(add * 7_919 % 10_000, b"value".to_vec())]);
        }
        let rows = pending.snapshot(&list(), u64::MAX).unwrap().rows.len();
        assert!(rows <= 24, "{rows}");
        assert_eq!(items_of(&pending), 10_000);
    }

    #[test]
    fn a_malformed_row_is_left_unchanged() {
        let pending = Memtable::new(Position::start_of(1));
        let mut row = RowBuilder::default();
        (0..300).for_each(|n| row.push(1_000 - n, 0, true, b"value"));
        let row = row.finish();
        for _ in 0..FAN {
            pending.apply(&list(), &Change::Row(row.slice(..row.len() - 1)), 0);
        }
        let rows = pending.snapshot(&list(), u64::MAX).unwrap().rows;
        assert!(rows.len() == FAN && rows.iter().all(|held| held.row.len() == row.len() - 1));
    }
}
