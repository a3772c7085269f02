//! The shared state of the engine's threads and sessions.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use liststore_contract::domain::Clock;
use liststore_storage::{BoundOf, IsUnreachable};

use super::bell::Bell;
use super::disk::room::Room;
use super::disk::{Disk, Space};
use super::error::WriteError;
use super::expiry_clock::ExpiryClock;
use super::files::run::RUNS_MAX;
use super::files::{PARTITIONS, partition_of};
use super::health::{Health, Subsystem};
use super::list_id::ListId;
use super::log::change::Change;
use super::log::known::Known;
use super::log::queue::CommitQueue;
use super::log::writer::Progress;
use super::memory::heads::Heads;
use super::memory::memtable::Memtable;
use super::metrics::{Memory, Metrics, Readings};
use super::options::EmbeddedOptions;
use super::promises::Erasures;
use super::read::pool::Pool;
use super::read::tables::{Files, Tables, View};

/// While space is scarce, the longest wait of removals for their flush.
const SCARCE_INTERVAL: Duration = Duration::from_secs(1);

/// The interval between attempts to prepare a segment.
const RETRY: Duration = Duration::from_secs(1);

pub struct Engine {
    pub options: EmbeddedOptions,
    pub disk: Arc<dyn Disk>,
    /// The directory of the engine's files.
    pub dir: PathBuf,
    pub clock: Arc<dyn Clock>,
    /// The clock that determines when expired items are dropped.
    pub expiry_clock: Arc<ExpiryClock>,
    pub erasures: Erasures,
    pub metrics: Metrics,
    pub health: Health,
    pub heads: Heads,
    pub tables: Tables,
    pub progress: Arc<Progress>,
    pub known: Known,
    pub queue: CommitQueue,
    pub pool: Pool,
    pub bell: Bell,
    pub room: Room,
    /// Returns which lists are unreachable, if set.
    pub unreachable: OnceLock<IsUnreachable>,
    /// Returns how many items lists show at most, if set.
    pub bound_of: OnceLock<BoundOf>,
    /// Whether a caller requested a compaction of all files.
    pub compact_all: AtomicBool,
    /// Whether the last requested compaction covered all files.
    pub compacted_all: AtomicBool,
    /// Whether compactions wait for space, so that partitions may have more runs than usual.
    pub lacks_room: AtomicBool,
}

impl Engine {
    /// Makes the log durable. Returns whether it is. If not, the store accepts no more writes.
    pub fn sync_log(&self) -> bool {
        let began = Instant::now();
        let synced = self.progress.sync();
        self.metrics.fsync_seconds.observe(began.elapsed().as_secs_f64());
        match &synced {
            Ok(()) => self.known.write_if_due(began, self.progress.durable()),
            Err(error) => {
                self.health.fail(format!("an fsync of the log failed: {error}; restart the server"));
                self.bell.ring();
            }
        }
        synced.is_ok()
    }

    /// Prepares the log's next segment on each request, until the store stops.
    pub fn prepare_log(&self) {
        let wanted = || self.progress.is_next_wanted() && self.health.refuses_all().is_none();
        while self.bell.wait_until(None, wanted) && !self.bell.is_stopping() {
            match self.progress.prepare(&*self.disk, self.options.log_segment_bytes) {
                Ok(()) => {}
                // The log's thread may have to prepare it itself, and then reports the error.
                Err(WriteError::NotWritten(_)) => {
                    self.bell.wait_until(Some(RETRY), || false);
                }
                Err(WriteError::Unknown(error)) => {
                    self.health.fail(format!("an fsync of the log failed: {error}; restart the server"));
                    self.bell.ring();
                }
            }
        }
    }

    /// Records the health of a background writer.
    pub fn note(&self, subsystem: Subsystem, written: Result<(), WriteError>) {
        match written {
            Ok(()) => self.health.clear(subsystem),
            Err(WriteError::NotWritten(error)) => {
                self.health.block(subsystem, format!("cannot write data files: {error}"))
            }
            Err(WriteError::Unknown(error)) => {
                self.health.fail(format!("an fsync of data files failed: {error}; restart the server"));
            }
        }
    }

    /// Memory in use.
    pub fn memory(&self) -> Memory {
        let view = self.tables.view();
        let frozen = view.frozen.as_ref().map_or(0, |frozen| frozen.bytes());
        let pending_bytes = (view.active.bytes() + frozen) as u64;
        Memory { pending_bytes, head_bytes: self.heads.weight(), index_bytes: view.files.index_bytes() }
    }

    /// The values of the gauges at a scrape.
    pub fn readings(&self) -> Readings {
        Readings {
            memory: self.memory(),
            space: self.disk.space(&self.dir).ok(),
            is_read_only: self.read_only().is_some(),
        }
    }

    /// Looks how much room there is: `None` if the disk does not say.
    pub fn check_room(&self) -> Option<Space> {
        let view = self.tables.view();
        let frozen = view.frozen.as_ref().map_or(0, |frozen| frozen.bytes());
        let space = self.disk.space(&self.dir).ok();
        let pending = (view.active.bytes() + frozen) as u64;
        if self.room.note(space, self.largest_file_bytes(&view.files), pending) {
            match self.room.reason() {
                Some(reason) => self.health.block(Subsystem::Room, reason),
                None => self.health.clear(Subsystem::Room),
            }
            self.bell.ring();
        }
        space
    }

    /// Does the same, unless the last check was recent and few bytes were written since.
    pub fn check_room_if_due(&self, wrote: usize) {
        if self.room.is_due(wrote) {
            self.check_room();
        }
    }

    /// Why some writes are refused; `None` if all are accepted.
    pub fn read_only(&self) -> Option<String> {
        if self.room.is_low() {
            self.check_room_if_due(0);
        }
        self.health.read_only()
    }

    /// The size at which the largest data files end.
    pub fn largest_file_bytes(&self, files: &Files) -> u64 {
        (0..PARTITIONS).map(|partition| self.file_bytes(files, partition)).max().unwrap_or(0)
    }

    /// Records in the memtable, which has the removal, how much the removal hides in data files.
    pub fn note_removal(&self, pending: &Memtable, list: &ListId, change: &Change) {
        let partition = partition_of(list.hash());
        let hidden = match change {
            Change::Clear | Change::Replace(_) => self.tables.view().files.bytes_of(list),
            Change::Row(row) => row.len() as u64,
        };
        pending.note_hidden(partition, hidden.max(1));
    }

    /// Whether the removals in the memtable hide so much that a flush is worthwhile. Only a flush lets compactions free
    /// the hidden space.
    pub fn is_worth_a_flush(&self, view: &View) -> bool {
        let hidden = view.active.most_hidden();
        if hidden == 0 {
            return false;
        }
        let few = (self.options.pending_bytes() / 4) as u64;
        self.room.is_low() && (hidden >= few / 16 || view.active.age() >= SCARCE_INTERVAL)
            || hidden >= few
                && (0..PARTITIONS).any(|partition| {
                    let hidden = view.active.hidden(partition);
                    hidden >= few && 4 * hidden >= view.files.bytes_in(partition)
                })
    }

    /// The size at which new data files of a partition end.
    pub fn file_bytes(&self, files: &Files, partition: usize) -> u64 {
        self.options.file_bytes(files.bytes_in(partition))
    }

    /// Refuses adds if a partition has the largest number of runs, and compactions wait for space.
    fn judge_runs(&self, files: &Files) {
        if self.lacks_room.load(Ordering::Acquire) && files.most_in_a_partition() >= RUNS_MAX {
            self.health.block(Subsystem::Compaction, "not enough free disk space to compact data files".into());
        } else {
            self.health.clear(Subsystem::Compaction);
        }
    }

    /// Records whether compactions wait for space.
    pub fn note_room_for_compactions(&self, lacks_room: bool) {
        if self.lacks_room.swap(lacks_room, Ordering::AcqRel) != lacks_room {
            self.judge_runs(&self.tables.view().files);
        }
    }

    /// Whether a flush may add a run to each partition. While compactions wait for space, removals are flushed beyond
    /// the limit, because they may free space.
    pub fn has_place_for_runs(&self, files: &Files) -> bool {
        files.most_in_a_partition() < RUNS_MAX || self.health.refuses_adds().is_some()
    }

    /// Call this after a change of the set of files.
    pub fn files_changed(&self) {
        let files = self.tables.view().files.clone();
        self.heads.set_capacity(self.options.heads_bytes(files.index_bytes()));
        self.metrics.disk_bytes.set(i64::try_from(files.bytes()).unwrap_or(i64::MAX));
        self.metrics.data_files.set(i64::try_from(files.all().count()).unwrap_or(i64::MAX));
        self.judge_runs(&files);
        self.bell.ring();
    }
}
