//! What the engine's threads and sessions share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::bell::Bell;
use super::disk::Disk;
use super::error::WriteError;
use super::heads::Heads;
use super::health::{Health, Part};
use super::log::known::Known;
use super::log::writer::Progress;
use super::metrics::{Memory, Metrics};
use super::options::EmbeddedOptions;
use super::pool::Pool;
use super::queue::CommitQueue;
use super::tables::Tables;
use crate::domain::Clock;

/// A segment that could not be made ready is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

pub struct Engine {
    pub options: EmbeddedOptions,
    pub disk: Arc<dyn Disk>,
    /// Where the engine's files lie.
    pub dir: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub health: Health,
    pub heads: Heads,
    pub tables: Tables,
    pub progress: Arc<Progress>,
    pub known: Known,
    pub queue: CommitQueue,
    pub pool: Pool,
    pub bell: Bell,
    /// Whether somebody asked for all files to be merged.
    pub compact_all: AtomicBool,
}

impl Engine {
    /// Makes the log durable. Tells whether it is; if not, the store takes no more writes.
    pub fn sync_log(&self) -> bool {
        let began = Instant::now();
        let synced = self.progress.sync();
        self.metrics.fsync_seconds.observe(began.elapsed().as_secs_f64());
        match &synced {
            Ok(()) => self.known.tell(began, self.progress.durable()),
            Err(error) => {
                self.health.fail(format!("an fsync of the log failed: {error}; start the server again"));
                self.bell.ring();
            }
        }
        synced.is_ok()
    }

    /// Makes the log's next segment ready whenever it is asked for, until the store stops.
    pub fn prepare_log(&self) {
        let wanted = || self.progress.is_next_wanted() && self.health.read_only().is_none();
        while self.bell.wait_until(None, wanted) && !self.bell.is_stopping() {
            match self.progress.prepare(&*self.disk, self.options.log_segment_bytes) {
                Ok(()) => {}
                // The log's thread may have to do it by itself, and then tells of the error.
                Err(WriteError::NotWritten(_)) => {
                    self.bell.wait_until(Some(RETRY), || false);
                }
                Err(WriteError::Unknown(error)) => {
                    self.health.fail(format!("an fsync of the log failed: {error}; start the server again"));
                    self.bell.ring();
                }
            }
        }
    }

    /// Keeps the health of a background writer.
    pub fn note(&self, part: Part, written: Result<(), WriteError>) {
        match written {
            Ok(()) => self.health.clear(part),
            Err(WriteError::NotWritten(error)) => self.health.block(part, format!("cannot write data files: {error}")),
            Err(WriteError::Unknown(error)) => {
                self.health.fail(format!("an fsync of data files failed: {error}; start the server again"));
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

    /// To be called when the set of files has changed.
    pub fn files_changed(&self) {
        let files = self.tables.view().files.clone();
        self.heads.set_capacity(self.options.heads_bytes(files.index_bytes()));
        self.metrics.disk_bytes.set(i64::try_from(files.bytes()).unwrap_or(i64::MAX));
        self.metrics.data_files.set(i64::try_from(files.all().count()).unwrap_or(i64::MAX));
        self.bell.ring();
    }
}
