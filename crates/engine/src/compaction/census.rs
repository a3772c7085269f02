//! Estimates how much of each file its next compaction would drop, beyond the counts in the file: unreachable lists,
//! and items beyond the newest ones that lists show. It takes samples once for each file, a few files at a time,
//! because compactions and the stop of the store wait for it.
//!
//! It looks for items beyond the bound only in lists whose bound has changed since the file was written. The compaction
//! that wrote the file has already dropped other such items.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore_contract::domain::{MaxItems, Timestamp, Ttl};
use liststore_storage::{BoundOf, IsUnreachable, is_visible};

use crate::disk::file_id::FileId;
use crate::error::ReadError;
use crate::files::run::Run;
use crate::files::{DataFile, PARTITIONS, Sample};
use crate::read::tables::Files;
use crate::row::Entry;
use crate::row::reverse;
use crate::unreachable::{Asked, key_of};

/// The number of sampled places in a file.
const SAMPLES: usize = 32;
/// The interval between queries for unreachable lists and for the bounds of lists.
const INTERVAL: Duration = Duration::from_secs(5);
/// After this time of reading, further files wait for the next turn, which follows the pause.
const TURN: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(1);

type Bound = Option<(Ttl, MaxItems)>;
/// The earlier bounds of the lists of feature keys.
type Shown = HashMap<Box<str>, Option<MaxItems>>;

/// Estimates from samples of the files.
#[derive(Default)]
pub struct Census {
    files: HashMap<FileId, Sampled>,
    /// The bounds at the last query.
    shown: Arc<Shown>,
    taken_at: Option<Instant>,
    /// Whether unread files are left.
    is_behind: bool,
}

struct Sampled {
    /// The bounds when the file was first seen; `None` once it has been read.
    unread: Option<Arc<Shown>>,
    /// The sampled lists, and the bytes of the blocks that begin with them.
    lists: Vec<(Arc<[u8]>, u64)>,
    /// The bounds of the lists of their feature keys at the last sampling, or, for a newer file, before the compaction
    /// that wrote it began.
    shown: Shown,
    found: Droppable,
}

/// Estimated bytes of a run that a compaction would drop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Droppable {
    /// In lists without a definition.
    pub unreachable: u64,
    /// In items beyond the bounds of their lists.
    pub beyond: u64,
}

impl Census {
    /// The time from one turn to the next.
    pub fn interval(&self) -> Duration {
        if self.is_behind { PAUSE } else { INTERVAL }
    }

    /// Renews the estimates, within the time of a turn, if that is due. Never runs during a compaction.
    pub fn renew(
        &mut self,
        files: &Files,
        ask: Option<IsUnreachable>,
        bound_of: Option<&BoundOf>,
        now: Timestamp,
        is_stopping: &dyn Fn() -> bool,
    ) {
        let is_reported = ask.is_some() || bound_of.is_some();
        if !is_reported || self.taken_at.is_some_and(|at| at.elapsed() < self.interval()) {
            return;
        }
        let present: HashSet<_> = files.all().map(|file| file.id).collect();
        self.files.retain(|id, _| present.contains(id));
        for id in present {
            self.files.entry(id).or_insert_with(|| Sampled::unread(&self.shown));
        }
        let mut asked = Asked::new(ask);
        let mut bounds: HashMap<Box<str>, Bound> = HashMap::new();
        let mut turn = Turn { left: TURN, is_stopping };
        self.is_behind = false;
        for run in (0..PARTITIONS).flat_map(|partition| files.partition(partition)) {
            let of_run: Vec<_> = run.data_files().collect();
            for (number, file) in of_run.iter().enumerate() {
                let Some(sampled) = self.files.get_mut(&file.id) else { continue };
                if sampled.unread.is_some() && turn.take(|turn| sampled.read(file, turn)).is_none() {
                    self.is_behind = true;
                    continue;
                }
                sampled.ask(file, &mut asked);
                for key in sampled.shown.keys() {
                    if !bounds.contains_key(key) {
                        bounds.insert(key.clone(), bound_of.and_then(|bound_of| bound_of(key)));
                    }
                }
                let is_sampled = !sampled.shows_other(&bounds)
                    || turn.take(|turn| sampled.sample_beyond(&of_run[..=number], &bounds, now, turn)).is_some();
                self.is_behind |= !is_sampled;
            }
        }
        self.shown = Arc::new(bounds.into_iter().map(|(key, bound)| (key, shown_by(bound))).collect());
        self.taken_at = Some(Instant::now());
    }

    pub fn of(&self, run: &Run) -> Droppable {
        let found = run.data_files().filter_map(|file| self.files.get(&file.id)).map(|sampled| sampled.found);
        found.fold(Droppable::default(), |sum, found| Droppable {
            unreachable: sum.unreachable + found.unreachable,
            beyond: sum.beyond + found.beyond,
        })
    }
}

fn shown_by(bound: Bound) -> Option<MaxItems> {
    bound.map(|(_, items)| items)
}

/// The time left for reading.
struct Turn<'a> {
    left: Duration,
    is_stopping: &'a dyn Fn() -> bool,
}

impl Turn<'_> {
    /// Reads one file completely, if there is time left and the store does not stop.
    fn take<T>(&mut self, read: impl FnOnce(&Self) -> T) -> Option<T> {
        if self.left.is_zero() || (self.is_stopping)() {
            return None;
        }
        let began = Instant::now();
        let done = read(self);
        self.left = self.left.saturating_sub(began.elapsed());
        Some(done)
    }
}

impl Sampled {
    fn unread(shown: &Arc<Shown>) -> Self {
        let (lists, shown, unread) = (Vec::new(), Shown::new(), Some(Arc::clone(shown)));
        Self { unread, lists, shown, found: Droppable::default() }
    }

    /// An unreadable file is reported by the reader that needs its content.
    fn read(&mut self, file: &Arc<DataFile>, turn: &Turn<'_>) {
        let before = self.unread.take().unwrap_or_default();
        let places = places(file).take_while(|_| !(turn.is_stopping)());
        let list = |block| Some((file.first_list(block).ok()?, bytes_of(file, block)));
        self.lists = places.filter_map(list).collect();
        let keys = self.lists.iter().filter_map(|(list, _)| key_of(list));
        self.shown = keys.map(|key| (key.into(), before.get(key).copied().flatten())).collect();
    }

    fn ask(&mut self, file: &DataFile, asked: &mut Asked) {
        let (mut all, mut met) = (0, 0);
        for (list, bytes) in &self.lists {
            all += bytes;
            met += if asked.is_unreachable(list) { *bytes } else { 0 };
        }
        self.found.unreachable = part_of(file.bytes, met, all);
    }

    /// Whether the bounds of lists have changed since the last sampling.
    fn shows_other(&self, bounds: &HashMap<Box<str>, Bound>) -> bool {
        self.shown.iter().any(|(key, shown)| *shown != shown_by(bounds.get(key).copied().flatten()))
    }

    /// Samples the last of these files of a run. If they are unreadable now, another turn retries.
    fn sample_beyond(
        &mut self,
        files: &[&Arc<DataFile>],
        bounds: &HashMap<Box<str>, Bound>,
        now: Timestamp,
        turn: &Turn<'_>,
    ) {
        let Ok(beyond) = beyond(files, bounds, now, turn) else { return };
        self.found.beyond = beyond;
        for (key, shown) in &mut self.shown {
            *shown = shown_by(bounds.get(key).copied().flatten());
        }
    }
}

fn bytes_of(file: &DataFile, block: usize) -> u64 {
    file.index.block(block).map_or(0, |(start, end)| end - start)
}

/// The share of `bytes` that `part` is of `whole`.
fn part_of(bytes: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(part) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

fn places(file: &DataFile) -> impl Iterator<Item = usize> + use<> {
    let blocks = file.index.blocks();
    let count = blocks.min(SAMPLES);
    (0..count).map(move |i| i * blocks / count)
}

/// The number of blocks at the end of these files that begin with a list.
fn blocks_at_the_end(files: &[&Arc<DataFile>], hash: u64) -> usize {
    let mut found = 0;
    for file in files.iter().rev() {
        let blocks = file.index.blocks();
        if blocks == 0 || file.index.hash(blocks - 1) != Some(hash) {
            break;
        }
        let first = file.index.first_of(hash);
        found += blocks - first;
        if first > 0 {
            break;
        }
    }
    found
}

/// The block `steps` before one of the last of these files.
fn block_before<'a>(files: &[&'a Arc<DataFile>], block: usize, steps: usize) -> Option<(&'a Arc<DataFile>, usize)> {
    let (mut at, mut steps) = (block, steps);
    for (place, file) in files.iter().enumerate().rev() {
        if steps <= at {
            return Some((file, at - steps));
        }
        steps -= at;
        at = place.checked_sub(1).and_then(|before| files.get(before))?.index.blocks();
    }
    None
}

/// The search in samples.
struct SurplusSearch<'a> {
    /// Files of a run up to the sampled one.
    files: &'a [&'a Arc<DataFile>],
    bounds: &'a HashMap<Box<str>, Bound>,
    now: Timestamp,
}

impl SurplusSearch<'_> {
    /// The bytes of the items of a sample that its list may show.
    fn visible(&self, sample: &Sample, ttl: Ttl) -> Vec<u64> {
        let is_shown = |entry: &Entry| !entry.deleted && is_visible(ttl, self.now, entry.timestamp, entry.expires_at);
        sample.entries.iter().filter(|(entry, _)| is_shown(entry)).map(|(_, bytes)| *bytes).collect()
    }

    /// The number of items before a sample of a block with `items` items. Blocks with longer values have fewer, so two
    /// of the earlier blocks are read too.
    fn newer(&self, block: usize, sample: &Sample, items: usize, ttl: Ttl) -> Result<u64, ReadError> {
        let before = sample.blocks_before;
        let (mut found, mut blocks) = (items, 1);
        for steps in [before, before / 2] {
            let place = if steps > 0 { block_before(self.files, block, steps) } else { None };
            let Some((file, number)) = place else { continue };
            let first = file.sample(number)?.into_iter().next();
            if let Some(other) = first.filter(|other| other.list == sample.list) {
                (found, blocks) = (found + self.visible(&other, ttl).len(), blocks + 1);
            }
        }
        Ok((found as u64).saturating_mul(before as u64) / blocks)
    }

    /// Bytes of items of a sample beyond the bound of their list.
    fn beyond(&self, block: usize, sample: &Sample) -> Result<u64, ReadError> {
        let bound = key_of(&sample.list).and_then(|key| self.bounds.get(key).copied().flatten());
        let Some((ttl, max_items)) = bound.filter(|_| !reverse::is_reverse(&sample.list)) else { return Ok(0) };
        let visible = self.visible(sample, ttl);
        let newer = self.newer(block, sample, visible.len(), ttl)?;
        let shown = usize::try_from(max_items.as_u64().saturating_sub(newer)).unwrap_or(usize::MAX);
        Ok(visible.iter().skip(shown).sum())
    }
}

/// Bytes of items in the last of these files beyond the bound, counting only their own run. Items in newer runs may
/// push out more. Later compactions handle those, and the reverse entries of sets.
fn beyond(
    files: &[&Arc<DataFile>],
    bounds: &HashMap<Box<str>, Bound>,
    now: Timestamp,
    turn: &Turn<'_>,
) -> Result<u64, ReadError> {
    let Some((file, earlier)) = files.split_last() else { return Ok(0) };
    let search = SurplusSearch { files, bounds, now };
    let (mut all, mut beyond) = (0, 0);
    for block in places(file).take_while(|_| !(turn.is_stopping)()) {
        for (number, mut sample) in file.sample(block)?.into_iter().enumerate() {
            // The first list of the file may begin in the previous file.
            if let Some(hash) = file.index.hash(block).filter(|_| number == 0 && sample.blocks_before == block) {
                sample.blocks_before += blocks_at_the_end(earlier, hash);
            }
            all += sample.entries.iter().map(|(_, bytes)| bytes).sum::<u64>();
            beyond += search.beyond(block, &sample)?;
        }
    }
    Ok(part_of(file.bytes, beyond, all))
}
