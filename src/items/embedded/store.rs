//! The embedded store: opening, closing, and what sessions share.

use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use prometheus::Registry;

use super::bell::Bell;
use super::commit::Committer;
use super::directory::Directory;
use super::disk::{Disk, LockGuard, RealDisk};
use super::engine::Engine;
use super::error::{OpenError, WriteError};
use super::heads::Heads;
use super::health::Health;
use super::list_id::{BorrowedListId, ListId};
use super::log::replay;
use super::log::writer::{LogWriter, Progress};
use super::metrics::{self, Metrics};
use super::options::{EmbeddedOptions, Fsync};
use super::pending::Pending;
use super::pool::Pool;
use super::queue::CommitQueue;
use super::session::EmbeddedSession;
use super::tables::{Files, Tables, View};
use super::{backup, compaction, flush};
use crate::domain::{Clock, ListKey};
use crate::items::{
    ItemBackup, ItemSession, ItemStore, Operation, Peeked, Provenance, Range, RenderedPage, StoreError,
};

/// Lists in a directory of this machine.
pub struct EmbeddedStore {
    engine: Arc<Engine>,
    running: Mutex<Running>,
}

/// What ends with the store.
#[derive(Default)]
struct Running {
    committer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    lock: Option<LockGuard>,
}

impl EmbeddedStore {
    /// Opens a directory, or makes it one of ours if it is empty or not there.
    pub fn open(options: EmbeddedOptions, clock: Arc<dyn Clock>, registry: &Registry) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk), options, clock, registry)
    }

    /// The same on another disk: for tests that tear and stop its operations.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: EmbeddedOptions,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, OpenError> {
        let metrics = Metrics::register(registry)?;
        let dir = options.dir.join("items");
        let (lock, directory) = Directory::enter(&*disk, &dir)?;
        let files = directory.open_files(&*disk)?;
        let start = directory.manifest.log_start;
        let active = Pending::new(start);
        let (segments, used_up, spares) = directory.segments();
        let end = replay::read(&*disk, &dir, &segments, start, options.list_hash, |record| {
            active.apply(&record.list, &record.change, record.oldest);
        })?;
        // Nothing was changed up to here, so that a directory that is refused stays as it is.
        end.cut(&*disk, &dir, &segments)?;
        directory.remove_orphans(&*disk);
        let first = used_up.first().or(segments.first()).copied().unwrap_or(start.segment);
        // Durable as far as the end, and not a byte further: the next segment says so before the
        // last one is closed, and must not promise what a crash in between would leave out.
        let progress = Arc::new(Progress::new(dir.clone(), first, end.position(), spares));
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
        let active = if nothing_pending { Pending::new(log.position()) } else { active };
        let files = Arc::new(Files::new(files));
        let view = View { active: Arc::new(active), frozen: None, files };
        let tables = Tables::new(disk.clone(), dir.clone(), directory.manifest, view);
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
            metrics,
            health: Health::default(),
            tables,
            progress,
            pool: Pool::new(),
            bell: Bell::default(),
            compact_all: AtomicBool::new(false),
        });
        engine.files_changed();
        let measured = Arc::downgrade(&engine);
        metrics::register_memory(registry, move || Some(measured.upgrade()?.memory()))?;
        let store = Self { engine, running: Mutex::new(Running { lock: Some(lock), ..Running::default() }) };
        store.start(log)?;
        Ok(store)
    }

    fn start(&self, log: LogWriter) -> Result<(), OpenError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let committer = Committer::new(self.engine.clone(), log);
        running.committer = Some(spawn("items-log", move || committer.run())?);
        let engine = self.engine.clone();
        running.others.push(spawn("items-flush", move || flush::run(&engine))?);
        let engine = self.engine.clone();
        running.others.push(spawn("items-compact", move || compaction::run(&engine))?);
        for _ in 0..self.engine.options.read_threads.max(1) {
            let engine = self.engine.clone();
            running.others.push(spawn("items-read", move || engine.pool.work())?);
        }
        if let Fsync::Interval(interval) = self.engine.options.fsync {
            let engine = self.engine.clone();
            running.others.push(spawn("items-fsync", move || {
                while !engine.bell.is_stopping() {
                    engine.bell.wait_until(Some(interval), || false);
                    engine.prepare_log();
                    if !engine.progress.is_durable() && !engine.health.has_failed() {
                        engine.sync_log();
                    }
                }
            })?);
        }
        Ok(())
    }

    /// Writes what is pending to data files, and returns once that is done. Blocks.
    pub fn flush(&self) -> Result<(), StoreError> {
        let engine = &self.engine;
        let written = engine.progress.written();
        engine.queue.want_freeze();
        self.wait_for(|| {
            let view = engine.tables.view();
            view.frozen.is_none() && (view.active.is_empty() || view.active.start >= written)
        })
    }

    /// Merges all data files, and returns once that is done. Blocks.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.engine.compact_all.store(true, Ordering::Release);
        self.engine.bell.ring();
        self.wait_for(|| !self.engine.compact_all.load(Ordering::Acquire))
    }

    fn wait_for(&self, done: impl Fn() -> bool) -> Result<(), StoreError> {
        let engine = &self.engine;
        engine.bell.wait_until(None, || done() || engine.health.read_only().is_some());
        match engine.health.read_only() {
            _ if done() => Ok(()),
            Some(reason) => Err(super::health::unavailable(&reason)),
            None => Err(StoreError::Unavailable { reason: "the item store is closed".into(), outcome_unknown: false }),
        }
    }
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(|source| OpenError::Thread { name, source })
}

/// Commits what waits, makes all durable, and ends the threads.
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
    drop(running.lock);
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        stop(&self.engine, running);
    }
}

#[async_trait(?Send)]
impl ItemStore for EmbeddedStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Rc::new(EmbeddedSession::new(self.engine.clone())))
    }

    fn peek(&self, op: &Operation, list: &ListKey, range: &Range, reusable: bool) -> Option<Peeked> {
        let mut buffer = Vec::new();
        let list = BorrowedListId::of(list, self.engine.options.list_hash, &mut buffer);
        let peeked = self.engine.heads.peek(list, op, range, reusable)?;
        self.engine.metrics.head_hits.inc();
        Some(peeked)
    }

    fn keep(&self, op: &Operation, list: &ListKey, range: &Range, from: Provenance, rendered: &RenderedPage) {
        let list = ListId::of(list, self.engine.options.list_hash);
        self.engine.heads.keep(&list, op, range, from, rendered);
    }

    async fn close(&self) -> Result<(), StoreError> {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        let engine = self.engine.clone();
        let (done, stopped) = tokio::sync::oneshot::channel();
        // Waiting for the threads would hold up the arbiter.
        let stopper = spawn("items-close", move || {
            stop(&engine, running);
            let _nobody_waits = done.send(());
        });
        let internal = |reason: String| StoreError::Internal { reason, outcome_unknown: false };
        stopper.map_err(|error| internal(error.to_string()))?;
        stopped.await.map_err(|_| internal("closing broke off".into()))?;
        match self.engine.health.has_failed() {
            true => Err(super::health::unavailable(&self.engine.health.read_only().unwrap_or_default())),
            false => Ok(()),
        }
    }

    fn read_only(&self) -> Option<String> {
        self.engine.health.read_only()
    }

    fn backup(&self, to: &Path, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<ItemBackup, StoreError> {
        backup::write(&self.engine, to, cancelled)
    }
}
