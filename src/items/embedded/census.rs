//! How much of each file its next merge would leave out, as far as files do not say it themselves: lists that
//! nobody can read any more, and what lies beyond the newest items that lists show. Samples tell, which are taken
//! once for a file.
//!
//! What lies beyond is looked for only where lists show another number of items than when the file was
//! written: a merge has left out then what it could, and would do no better now.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::ReadError;
use super::file::{DataFile, PARTITIONS, Sample};
use super::file_id::FileId;
use super::reverse;
use super::row::Entry;
use super::run::Run;
use super::tables::Files;
use super::unreachable::{Asked, key_of};
use crate::domain::{MaxItems, Timestamp, Ttl};
use crate::items::{BoundOf, IsUnreachable};

/// Places in a file that are looked at.
const SAMPLES: usize = 32;
/// How often it is asked what has become unreachable, and what lists show.
pub const INTERVAL: Duration = Duration::from_secs(5);

type Bound = Option<(Ttl, MaxItems)>;

/// What samples of the files tell.
#[derive(Default)]
pub struct Census {
    files: HashMap<FileId, Sampled>,
    /// What the lists of each feature key showed when it was last asked.
    shown: HashMap<Box<str>, Option<MaxItems>>,
    taken_at: Option<Instant>,
}

struct Sampled {
    /// The lists that were met.
    lists: Vec<Arc<[u8]>>,
    /// What the lists of their feature keys showed when it was last looked for what lies beyond; or, of a file that
    /// was written since, before the merge that wrote it began.
    shown: HashMap<Box<str>, Option<MaxItems>>,
    found: Found,
}

/// Bytes of a run that a merge would leave out: estimates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Of lists that no definition leads to any more.
    pub unreachable: u64,
    /// Of items that lie beyond those that their lists show.
    pub beyond: u64,
}

impl Census {
    /// Takes it anew if that is due. Never while a merge is under way.
    pub fn renew(&mut self, files: &Files, ask: Option<IsUnreachable>, bound_of: Option<&BoundOf>, now: Timestamp) {
        let is_told = ask.is_some() || bound_of.is_some();
        if !is_told || self.taken_at.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        let present: HashSet<_> = files.all().map(|file| file.id).collect();
        self.files.retain(|id, _| present.contains(id));
        let mut asked = Asked::new(ask);
        let mut bounds: HashMap<Box<str>, Bound> = HashMap::new();
        for run in (0..PARTITIONS).flat_map(|partition| files.partition(partition)) {
            let of_run: Vec<_> = run.data_files().collect();
            for (number, file) in of_run.iter().enumerate() {
                let sampled = self.files.entry(file.id).or_insert_with(|| Sampled::of(file, &self.shown));
                let met = sampled.lists.iter().filter(|list| asked.is_unreachable(list)).count() as u64;
                sampled.found.unreachable = file.bytes * met / sampled.lists.len().max(1) as u64;
                for key in sampled.shown.keys() {
                    if !bounds.contains_key(key) {
                        bounds.insert(key.clone(), bound_of.and_then(|bound_of| bound_of(key)));
                    }
                }
                sampled.look_beyond(&of_run[..=number], &bounds, now);
            }
        }
        self.shown = bounds.into_iter().map(|(key, bound)| (key, bound.map(|(_, items)| items))).collect();
        self.taken_at = Some(Instant::now());
    }

    pub fn of(&self, run: &Run) -> Found {
        let found = run.data_files().filter_map(|file| self.files.get(&file.id)).map(|sampled| sampled.found);
        found.fold(Found::default(), |sum, found| Found {
            unreachable: sum.unreachable + found.unreachable,
            beyond: sum.beyond + found.beyond,
        })
    }
}

impl Sampled {
    /// A file that cannot be read is left to whoever reads it for more.
    fn of(file: &Arc<DataFile>, shown: &HashMap<Box<str>, Option<MaxItems>>) -> Self {
        let lists: Vec<_> = places(file).filter_map(|block| file.first_list(block).ok()).collect();
        let keys = lists.iter().filter_map(|list| key_of(list));
        let shown = keys.map(|key| (key.into(), shown.get(key).copied().flatten())).collect();
        Self { lists, shown, found: Found::default() }
    }

    /// In the last of these files of a run.
    fn look_beyond(&mut self, files: &[&Arc<DataFile>], bounds: &HashMap<Box<str>, Bound>, now: Timestamp) {
        let mut is_other = false;
        for (key, shown) in &mut self.shown {
            let at_present = bounds.get(key).copied().flatten().map(|(_, items)| items);
            is_other |= *shown != at_present;
            *shown = at_present;
        }
        if is_other {
            self.found.beyond = beyond(files, bounds, now).unwrap_or(0);
        }
    }
}

fn places(file: &DataFile) -> impl Iterator<Item = usize> + use<> {
    let blocks = file.index.blocks();
    let count = blocks.min(SAMPLES);
    (0..count).map(move |i| i * blocks / count)
}

/// How many blocks at the end of these files begin with a list.
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

/// Bytes of items in the last of these files of which their run has as many newer ones as their list shows. What newer
/// runs hold may push out more: that is left to later merges, and so are the reverse entries of sets.
fn beyond(files: &[&Arc<DataFile>], bounds: &HashMap<Box<str>, Bound>, now: Timestamp) -> Result<u64, ReadError> {
    let Some((file, earlier)) = files.split_last() else { return Ok(0) };
    let (mut all, mut beyond) = (0, 0);
    for block in places(file) {
        for (number, Sample { list, mut blocks_before, entries }) in file.sample(block)?.into_iter().enumerate() {
            all += entries.len() as u64;
            // The list that the file begins with may go on from the file before.
            if let Some(hash) = file.index.hash(block).filter(|_| number == 0 && blocks_before == block) {
                blocks_before += blocks_at_the_end(earlier, hash);
            }
            let bound = key_of(&list).and_then(|key| bounds.get(key).copied().flatten());
            let Some((ttl, max_items)) = bound.filter(|_| !reverse::is_reverse(&list)) else { continue };
            let oldest = ttl.visible_from(now).as_nanos();
            let is_shown =
                |entry: &&Entry| !entry.deleted && entry.timestamp >= oldest && entry.expires_at > now.as_nanos();
            let visible = entries.iter().filter(is_shown).count() as u64;
            let newer = visible * blocks_before as u64;
            beyond += visible - max_items.as_u64().saturating_sub(newer).min(visible);
        }
    }
    Ok(u64::try_from(u128::from(file.bytes) * u128::from(beyond) / u128::from(all.max(1))).unwrap_or(u64::MAX))
}
