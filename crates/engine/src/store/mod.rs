//! The embedded store: how it opens, which threads it has, and how it closes.

mod abilities;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use liststore_contract::domain::Clock;
use liststore_storage::StoreError;
use prometheus::Registry;

use super::bell::Bell;
use super::commit::Committer;
use super::compaction::{self, flush};
use super::directory::Directory;
use super::disk::room::Room;
use super::disk::{Disk, LockGuard, RealDisk};
use super::engine::Engine;
use super::erasure;
use super::error::{OpenError, WriteError};
use super::expiry_clock::ExpiryClock;
use super::health::Health;
use super::log::change::Change;
use super::log::known::Known;
use super::log::queue::CommitQueue;
use super::log::replay;
use super::log::writer::{LogWriter, Progress};
use super::memory::heads::Heads;
use super::memory::memtable::Memtable;
use super::metrics::{self, Metrics};
use super::options::{EmbeddedOptions, Fsync};
use super::promises::Erasures;
use super::read::pool::Pool;
use super::read::tables::{Tables, View};

/// Lists in a directory of this machine.
pub struct EmbeddedStore {
    engine: Arc<Engine>,
    running: Mutex<Running>,
}

/// The parts that end with the store.
#[derive(Default)]
struct Running {
    committer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    lock: Option<LockGuard>,
}

impl EmbeddedStore {
    /// Opens a directory, or initializes it if it is empty or missing.
    pub fn open(options: EmbeddedOptions, clock: Arc<dyn Clock>, registry: &Registry) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk), options, clock, registry)
    }

    /// Does the same on another disk, for tests that tear and stop its operations.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: EmbeddedOptions,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, OpenError> {
        let metrics = Metrics::register(registry)?;
        let dir = options.dir.join("items");
        let (lock, mut directory) = Directory::enter(&*disk, &dir, options.belonging)?;
        let files = Arc::new(directory.open_runs(&*disk, options.list_hash)?);
        let start = directory.manifest.log_start;
        let active = Memtable::new(start);
        let (segments, used_up, spares) = directory.segments();
        let end = replay::read(&*disk, &dir, &segments, directory.log(&*disk), options.list_hash, |record| {
            active.apply(&record.list, &record.change, record.oldest);
        })?;
        // Nothing was changed up to here, so a refused directory stays unchanged.
        end.settle(&*disk, &dir, &segments)?;
        directory.remove_orphans(&*disk);
        let belonged = directory.manifest.store_id();
        directory.join(&*disk, options.belonging.once_open(belonged), end.next_segment())?;
        let store = directory.manifest.store_id();
        let known = Known::open(&*disk, &dir, store);
        let first = used_up.first().or(segments.first()).copied().unwrap_or(start.segment);
        // Durable exactly up to the end: the next segment states it before the last one is closed, and must not promise
        // more than a crash in between would leave.
        let progress = Arc::new(Progress::new(dir.clone(), store, first, end.position(), spares));
        let cannot_begin = |path: &Path| {
            let path = path.to_owned();
            move |error| match error {
                WriteError::NotWritten(source) | WriteError::Unknown(source) => {
                    OpenError::Io { what: "begin the log in", path, source }
                }
            }
        };
        let log = LogWriter::begin(disk.clone(), end.next_segment(), options.log_segment_bytes, progress.clone())
            .map_err(cannot_begin(&dir))?;
        end.close(&*disk, &dir)?;
        let nothing_pending = active.is_empty();
        let active = if nothing_pending { Memtable::new(log.position()) } else { active };
        let view = View { active: Arc::new(active), frozen: None, files };
        let erasures = Erasures::new(&*clock, options.erase_within, directory.manifest.erase_by);
        let expiry_clock = Arc::new(ExpiryClock::new(clock.clone(), directory.manifest.time));
        let tables = Tables::new(disk.clone(), dir.clone(), expiry_clock.clone(), directory.manifest, view);
        if nothing_pending {
            tables.install_log_start(log.position()).map_err(cannot_begin(&dir))?;
            progress.recycle_before(&*disk, log.position().segment);
        } else {
            progress.recycle_before(&*disk, start.segment);
        }
        let engine = Arc::new(Engine {
            heads: Heads::new(options.heads_bytes(0)),
            queue: CommitQueue::new(options.queue_bytes()),
            options,
            disk,
            dir,
            clock,
            expiry_clock,
            erasures,
            metrics,
            health: Health::default(),
            tables,
            progress,
            known,
            pool: Pool::new(),
            bell: Bell::default(),
            room: Room::default(),
            unreachable: OnceLock::new(),
            bound_of: OnceLock::new(),
            compact_all: AtomicBool::new(false),
            compacted_all: AtomicBool::new(true),
            lacks_room: AtomicBool::new(false),
        });
        let active = engine.tables.view().active.clone();
        for list in active.cleared() {
            engine.note_removal(&active, &list, &Change::Clear);
        }
        engine.files_changed();
        let measured = Arc::downgrade(&engine);
        metrics::register_gauges(registry, move || Some(measured.upgrade()?.readings()))?;
        let store = Self { engine, running: Mutex::new(Running { lock: Some(lock), ..Running::default() }) };
        store.start(log)?;
        Ok(store)
    }

    fn start(&self, log: LogWriter) -> Result<(), OpenError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let committer = Committer::new(self.engine.clone(), log);
        running.committer = Some(spawn("items-log", move || committer.run())?);
        running.others.push(self.spawn_writer("items-ahead", |engine| engine.prepare_log())?);
        running.others.push(self.spawn_writer("items-flush", flush::run)?);
        running.others.push(self.spawn_writer("items-compact", compaction::run)?);
        running.others.push(self.spawn_writer("items-erase", erasure::run)?);
        for _ in 0..self.engine.options.read_threads.max(1) {
            let engine = self.engine.clone();
            running.others.push(spawn("items-read", move || engine.pool.work())?);
        }
        if let Fsync::Interval(interval) = self.engine.options.fsync {
            running.others.push(self.spawn_writer("items-fsync", move |engine| {
                while !engine.bell.is_stopping() {
                    engine.bell.wait_until(Some(interval), || false);
                    if !engine.progress.is_durable() && !engine.health.has_failed() {
                        engine.sync_log();
                    }
                }
            })?);
        }
        Ok(())
    }

    /// Spawns a thread that writes in the background. If it panics, no thread continues its unfinished work, so the
    /// store accepts no more writes.
    fn spawn_writer(
        &self,
        name: &'static str,
        work: impl FnOnce(&Arc<Engine>) + Send + 'static,
    ) -> Result<JoinHandle<()>, OpenError> {
        let engine = self.engine.clone();
        spawn(name, move || {
            let guarded = scopeguard::guard(engine, |engine| {
                if std::thread::panicking() {
                    engine.health.fail(format!("the thread {name} panicked; restart the server"));
                    engine.bell.ring();
                }
            });
            work(&guarded);
        })
    }

    /// Flushes the memtables to data files, and returns once that is done. Blocks.
    pub fn flush(&self) -> Result<(), StoreError> {
        let engine = &self.engine;
        let written = engine.progress.written();
        engine.queue.want_freeze();
        erasure::wait_for(engine, || {
            let view = engine.tables.view();
            view.frozen.is_none() && (view.active.is_empty() || view.active.start >= written)
        })
    }

    /// Compacts all data files, and returns once that is done. Blocks.
    pub fn compact(&self) -> Result<(), StoreError> {
        erasure::compact(&self.engine)
    }
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(|source| OpenError::Thread { name, source })
}

/// Commits queued writes, makes everything durable, and ends the threads.
fn stop(engine: &Engine, running: Running) {
    engine.queue.close();
    let join = |thread: JoinHandle<()>| {
        if thread.join().is_err() {
            tracing::error!("a thread of the item store panicked");
        }
    };
    running.committer.into_iter().for_each(join);
    engine.bell.stop();
    engine.pool.stop();
    running.others.into_iter().for_each(join);
    // The second call has nothing to close.
    if running.lock.is_some() && !engine.health.has_failed() {
        // An older time only delays the drop of expired items.
        let _older_one_stays = engine.tables.install_time();
        engine.known.write_last(engine.progress.durable());
    }
    drop(running.lock);
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        stop(&self.engine, running);
    }
}
