//! Lists that nobody can read any more, since their feature or version was deleted: merges drop them. How
//! much there is of them is found by samples, since files do not say which features they hold.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::DataFile;
use super::file_id::FileId;
use super::run::Run;
use super::tables::Files;
use crate::items::IsUnreachable;

/// Places in a file that are looked at.
const SAMPLES: usize = 32;
/// How often it is asked what has become unreachable.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// The feature key in a list's bytes.
pub fn key_of(list: &[u8]) -> Option<&str> {
    str::from_utf8(list.split(|byte| *byte == 0).next()?).ok()
}

/// Asks for each feature once.
pub struct Asked {
    ask: Option<IsUnreachable>,
    answers: HashMap<Box<str>, bool>,
}

impl Asked {
    pub fn new(ask: Option<IsUnreachable>) -> Self {
        Self { ask, answers: HashMap::new() }
    }

    /// Whether a list is to be dropped.
    pub fn is_unreachable(&mut self, list: &[u8]) -> bool {
        let (Some(ask), Some(key)) = (&self.ask, key_of(list)) else { return false };
        match self.answers.get(key) {
            Some(answer) => *answer,
            None => *self.answers.entry(key.into()).or_insert_with(|| ask(key)),
        }
    }
}

/// What samples of the files tell.
#[derive(Default)]
pub struct Census {
    /// The lists that were met in each file.
    samples: HashMap<FileId, Vec<Arc<[u8]>>>,
    /// Bytes of each file that are of unreachable lists.
    unreachable: HashMap<FileId, u64>,
    taken_at: Option<Instant>,
}

impl Census {
    /// Takes it anew if that is due.
    pub fn renew(&mut self, files: &Files, ask: Option<IsUnreachable>) {
        if ask.is_none() || self.taken_at.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        let present: HashSet<_> = files.all().map(|file| file.id).collect();
        self.samples.retain(|id, _| present.contains(id));
        let mut asked = Asked::new(ask);
        let mut unreachable = HashMap::new();
        for file in files.all() {
            let samples = self.samples.entry(file.id).or_insert_with(|| samples_of(file));
            let met = samples.iter().filter(|list| asked.is_unreachable(list)).count() as u64;
            if met > 0 {
                unreachable.insert(file.id, file.bytes * met / samples.len() as u64);
            }
        }
        self.unreachable = unreachable;
        self.taken_at = Some(Instant::now());
    }

    /// Bytes of a run that are of unreachable lists: an estimate.
    pub fn unreachable(&self, run: &Run) -> u64 {
        run.data_files().filter_map(|file| self.unreachable.get(&file.id)).sum()
    }
}

/// A file that cannot be read is left to whoever reads it for more.
fn samples_of(file: &Arc<DataFile>) -> Vec<Arc<[u8]>> {
    let blocks = file.index.blocks();
    let count = blocks.min(SAMPLES);
    (0..count).filter_map(|i| file.first_list(i * blocks / count).ok()).collect()
}
