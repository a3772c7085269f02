//! Compacts the runs of a partition, so that the parts of a list are together and dropped items take no space.
//!
//! A compaction without enough space blocks nothing. It is retried with growing backoff, while other partitions
//! continue. Adds to a partition are refused only when it has the largest number of runs.

pub mod adopt;
pub mod census;
pub mod flush;
pub mod give_way;
pub mod output;
pub mod pace;
pub mod pick;
pub mod step;
pub mod surplus;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::disk::room;
use super::engine::Engine;
use super::error::WriteError;
use super::files::PARTITIONS;
use super::files::run::RUNS_MAX;
use super::files::run::Run;
use super::health::Subsystem;
use super::read::tables::{Files, RunSpan};
use census::Census;
use output::OutputError;
use pace::RateLimit;
use pick::{Weight, gives_back, pick};
use step::{CompactionJob, StepRoom, step};

/// The first delay after a failed compaction. It doubles with each attempt.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Runs that wait for a running compaction of their partition. With more, they are compacted first.
const NEWER_MAX: usize = RUNS_MAX / 4;
/// The interval between checks for expired items.
const EXPIRY_CHECK: Duration = Duration::from_secs(60);
/// While space is scarce, a partition is rewritten if that frees a thirty-second of it or, after `SCARCE_INTERVAL`,
/// anything at all.
const SCARCE_PART: u64 = 32;
const SCARCE_INTERVAL: Duration = Duration::from_secs(10);
/// The smallest step of a compaction that frees space, while this much is available. With less, a step must free at
/// least as much as it takes.
const STEP_BYTES_MIN: u64 = 256 << 10;

/// A partition whose compactions have failed.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    until: Instant,
    delay: Duration,
    /// The bytes that compacting all of it would have freed.
    given_back: u64,
}

/// The compaction thread.
struct Compactor<'a> {
    engine: &'a Engine,
    waiting: [Option<Waiting>; PARTITIONS],
    /// When each partition was last compacted.
    compacted_at: [Option<Instant>; PARTITIONS],
    census: Census,
}

/// The loop of the compaction thread until the store stops.
pub fn run(engine: &Arc<Engine>) {
    let mut compactor =
        Compactor { engine, waiting: [None; PARTITIONS], compacted_at: [None; PARTITIONS], census: Census::default() };
    while !engine.bell.is_stopping() {
        compactor.work();
    }
}

impl Compactor<'_> {
    /// Waits for work, and does it.
    fn work(&mut self) {
        let engine = self.engine;
        self.estimate_reclaimable_space();
        let next = || (!engine.health.has_failed()).then(|| self.choose()).flatten();
        let now = Instant::now();
        let retries = self.waiting.iter().flatten().map(|waiting| waiting.until.saturating_duration_since(now));
        let retry = retries.filter(|left| !left.is_zero()).min();
        let is_reported = || engine.unreachable.get().is_some() || engine.bound_of.get().is_some();
        let was_reported = is_reported();
        let interval = match was_reported {
            true => self.census.interval(),
            false if engine.room.is_low() => SCARCE_INTERVAL,
            false => EXPIRY_CHECK,
        };
        let timeout = retry.map_or(interval, |retry| retry.min(interval));
        // The bounds of lists arrive after the store is open.
        engine.bell.wait_until(Some(timeout), || next().is_some() || wanted(engine) || is_reported() != was_reported);
        if engine.bell.is_stopping() {
            return;
        }
        match next() {
            Some(job) => {
                let compacted = self.compact(job);
                self.note(job.place.partition, compacted);
            }
            None if wanted(engine) => self.compact_all(),
            None => {}
        }
        engine.bell.ring();
    }

    /// Determines how much space can be freed.
    fn estimate_reclaimable_space(&mut self) {
        if !self.engine.health.has_failed()
            && let Err(error @ WriteError::Unknown(_)) = self.engine.tables.install_time_if_old()
        {
            self.engine.note(Subsystem::Compaction, Err(error));
        }
        let files = self.engine.tables.view().files.clone();
        let Engine { unreachable, bound_of, clock, bell, .. } = self.engine;
        let is_stopping = || bell.is_stopping();
        self.census.renew(&files, unreachable.get().cloned(), bound_of.get(), clock.now(), &is_stopping);
        let hidden = (0..PARTITIONS).filter_map(|partition| gives_back(&self.weigh(files.partition(partition))));
        self.engine.metrics.hidden_bytes.set(i64::try_from(hidden.sum::<u64>()).unwrap_or(i64::MAX));
    }

    fn compact_all(&mut self) {
        let mut all_done = true;
        for partition in 0..PARTITIONS {
            let compacted = self.compact_partition(partition);
            all_done &= compacted.is_ok();
            self.note(partition, compacted);
        }
        self.engine.compacted_all.store(all_done, Ordering::Release);
        self.engine.compact_all.store(false, Ordering::Release);
    }

    fn compact_partition(&self, partition: usize) -> Result<(), OutputError> {
        let begun = || begun(self.engine.tables.view().files.partition(partition));
        // No compaction is overtaken in between.
        while let Some((from_oldest, count)) = begun() {
            self.compact(CompactionJob { place: RunSpan { partition, from_oldest, count }, begun: true })?;
        }
        match self.engine.tables.view().files.partition(partition).len() {
            0 => Ok(()),
            count => {
                self.compact(CompactionJob { place: RunSpan { partition, from_oldest: count, count }, begun: false })
            }
        }
    }

    /// Records the outcome of a compaction.
    fn note(&mut self, partition: usize, compacted: Result<(), OutputError>) {
        let engine = self.engine;
        match compacted {
            Ok(()) => {
                (self.waiting[partition], self.compacted_at[partition]) = (None, Some(Instant::now()));
            }
            Err(OutputError::Stopped) => {}
            Err(OutputError::Read(error)) => {
                engine.health.fail(format!("{error}; restore the directory from a backup"));
            }
            Err(OutputError::Write(WriteError::Unknown(error))) => {
                engine.note(Subsystem::Compaction, Err(WriteError::Unknown(error)));
            }
            Err(OutputError::Write(WriteError::NotWritten(error))) => {
                let delay = self.waiting[partition].map_or(RETRY_MIN, |before| (2 * before.delay).min(RETRY_MAX));
                if self.waiting[partition].is_none() {
                    tracing::warn!(partition, %error, "cannot compact data files: retrying");
                }
                let weights = self.weigh(engine.tables.view().files.partition(partition));
                let given_back = gives_back(&weights).unwrap_or(0);
                self.waiting[partition] = Some(Waiting { until: Instant::now() + delay, delay, given_back });
            }
        }
        engine.note_room_for_compactions(self.waiting.iter().any(Option::is_some));
    }

    /// The most urgent compaction. Partitions with many runs come first.
    fn choose(&self) -> Option<CompactionJob> {
        let (now, files) = (Instant::now(), self.engine.tables.view().files.clone());
        let jobs = (0..PARTITIONS).filter_map(|partition| {
            let runs = files.partition(partition);
            let weights = self.weigh(runs);
            let waiting = self.waiting[partition];
            let more =
                |waiting: Waiting| gives_back(&weights).is_some_and(|bytes| bytes > waiting.given_back + bytes / 8);
            if waiting.is_some_and(|waiting| waiting.until > now && !more(waiting)) {
                return None;
            }
            let picked = pick(&weights, self.engine.room.is_low() && self.is_worth_it(partition, &weights));
            let place =
                |range: Range<usize>| RunSpan { partition, from_oldest: runs.len() - range.start, count: range.len() };
            match begun(runs) {
                // Newer runs may hide everything that it lacked space for.
                Some((_, count)) if waiting.is_some() && count < runs.len() && picked == Some(0..runs.len()) => {
                    Some(CompactionJob { place: place(0..runs.len()), begun: false })
                }
                // Adds would have to wait for a long compaction.
                Some((from_oldest, _)) if waiting.is_none() && runs.len() - from_oldest > NEWER_MAX => {
                    Some(CompactionJob { place: place(0..runs.len() - from_oldest), begun: false })
                }
                Some((from_oldest, count)) => {
                    Some(CompactionJob { place: RunSpan { partition, from_oldest, count }, begun: true })
                }
                None => Some(CompactionJob { place: place(picked?), begun: false }),
            }
        });
        jobs.max_by_key(|job| (piled_up(files.partition(job.place.partition)), job.place.count))
    }

    /// Whether a running compaction must wait for another one.
    fn is_overtaken(&self, job: CompactionJob) -> bool {
        let piles_up =
            |job: &CompactionJob| piled_up(self.engine.tables.view().files.partition(job.place.partition)).is_some();
        !wanted(self.engine) && self.choose().filter(piles_up).is_some_and(|chosen| chosen != job)
    }

    /// Whether rewriting a partition frees enough, if space is scarce.
    fn is_worth_it(&self, partition: usize, runs: &[Weight]) -> bool {
        let bytes = runs.iter().map(|run| run.bytes).sum::<u64>();
        gives_back(runs).is_some_and(|given_back| given_back.saturating_mul(SCARCE_PART) >= bytes)
            || self.compacted_at[partition].is_none_or(|at| at.elapsed() >= SCARCE_INTERVAL)
    }

    fn weigh(&self, runs: &[Run]) -> Vec<Weight> {
        let now = self.engine.expiry_clock.now().as_nanos();
        runs.iter().map(|run| Weight::of(run, self.census.of(run), now)).collect()
    }

    /// Compacts to the end, or until another compaction must come first.
    fn compact(&self, job: CompactionJob) -> Result<(), OutputError> {
        let engine = self.engine;
        let hurry = || engine.tables.view().files.most_in_a_partition() > RUNS_MAX / 2 || engine.bell.is_stopping();
        let mut pace = RateLimit::new(engine, hurry).giving_way(&engine.metrics.compaction_gave_way);
        let mut next = Some(job);
        while let Some(job) = next {
            let view = engine.tables.view();
            let (job, room) = self.room_for(&view.files, job)?;
            let stepped = step(engine, &view, job, room, &mut pace)?;
            engine.metrics.compaction_bytes.inc_by(stepped.bytes);
            engine.metrics.adopted_bytes.inc_by(stepped.adopted_bytes);
            engine.files_changed();
            next = stepped.next;
            if next.is_some_and(|next| self.is_overtaken(next)) {
                return Ok(());
            }
        }
        engine.metrics.compactions.inc();
        Ok(())
    }

    /// The space that the next step of a compaction may take. A compaction that only combines runs leaves the reserve
    /// untouched, and takes fewer runs if there is too little space for all.
    fn room_for(&self, files: &Files, mut job: CompactionJob) -> Result<(CompactionJob, StepRoom), OutputError> {
        let engine = self.engine;
        let file_bytes = engine.file_bytes(files, job.place.partition);
        let plenty = StepRoom { file_bytes, must_gain: false };
        let Some(space) = engine.check_room() else { return Ok((job, plenty)) };
        let reserve = room::reserve(space, engine.largest_file_bytes(files));
        // The memtables come first: their flush frees the log.
        let free = space.free.saturating_sub(engine.memory().pending_bytes);
        let runs = files.partition(job.place.partition);
        let range = job.place.range(runs);
        let bottom = range.end == runs.len();
        let weights = self.weigh(&runs[range.clone()]);
        let given_back = gives_back(&weights).filter(|_| bottom);
        let all = || weights.iter().map(|weight| weight.bytes).sum::<u64>();
        let mut needed: Vec<u64> = runs[range.clone()].iter().map(largest_file).collect();
        let fits = |needed: &[u64]| free >= reserve + file_bytes + needed.iter().sum::<u64>();
        if fits(&needed) || free >= reserve + all().saturating_sub(given_back.unwrap_or(0)) {
            return Ok((job, plenty));
        }
        // Even if the compaction that frees it comes later and needs fewer runs.
        if gives_back(&self.weigh(runs)).is_some() {
            // The last quarter is for the log.
            let spare = free.saturating_sub(reserve / 4);
            let least = STEP_BYTES_MIN.min(file_bytes);
            // Two by two, if space allows no more. In the end that covers all of them.
            let can_be_fewer = !job.begun && runs[range].iter().all(|run| run.inputs_left == 0);
            for count in (2..=needed.len()).rev().filter(|_| can_be_fewer) {
                let taken = needed[..count].iter().sum::<u64>();
                if taken + least <= spare {
                    job.place.count = count;
                    return Ok((job, StepRoom { file_bytes: file_bytes.min(spare - taken), must_gain: false }));
                }
            }
            let must_gain = spare / 2 < least;
            let most = if must_gain { (space.free / 2).max(least / 4) } else { spare / 2 };
            return Ok((job, StepRoom { file_bytes: file_bytes.min(most), must_gain }));
        }
        while !job.begun && needed.len() > 2 {
            needed.pop();
            job.place.count -= 1;
            if fits(&needed) {
                return Ok((job, plenty));
            }
        }
        Err(WriteError::NotWritten(io::ErrorKind::StorageFull.into()).into())
    }
}

/// Whether a caller waits until all files are compacted.
fn wanted(engine: &Engine) -> bool {
    engine.compact_all.load(Ordering::Acquire) && !engine.health.has_failed()
}

/// The number of runs of a partition, if adds may soon have to wait for it.
fn piled_up(runs: &[Run]) -> Option<usize> {
    Some(runs.iter().filter(|run| run.inputs_left == 0).count()).filter(|count| *count > RUNS_MAX / 2)
}

/// The runs of a running compaction: the place of the first, counted from the oldest, and their number.
fn begun(runs: &[Run]) -> Option<(usize, usize)> {
    let first = runs.iter().position(|run| run.inputs_left > 0)?;
    Some((runs.len() - first, 1 + runs[first].inputs_left))
}

/// Bytes of a run's largest file, which may exist twice during its compaction.
fn largest_file(run: &Run) -> u64 {
    run.data_files().map(|file| file.bytes).max().unwrap_or(0)
}
