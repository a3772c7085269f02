//! The one thread that writes: it commits what waits in groups, acknowledges it, and brings a
//! failed engine back.
//!
//! fjall refuses every write after an I/O error until it is opened again (its `Poisoned`). So the
//! store then takes no writes, goes on with reads, and opens the engine anew as soon as the disk
//! has room.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::{Instant, sleep, timeout_at};

use super::Fsync;
use super::directory::Directory;
use super::engine::{self, Change, Engine};
use super::metrics::Metrics;
use super::session::{Command, Shared, Write};
use crate::items::StoreError;

/// Writes, and bytes of them, that are committed together at most.
const GROUP_MAX: usize = 512;
const GROUP_BYTES_MAX: usize = 8 << 20;
/// How often the size is measured, and how often a failed engine is tried again.
const TICK: Duration = Duration::from_secs(1);
/// How long a clean stop waits for the engine to write its memory to files. What is not written by
/// then is replayed from the journal.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);
const FLUSH_LOOK_INTERVAL: Duration = Duration::from_millis(2);

const FAILED: &str = "the disk is full or failing";

pub(super) struct Committer {
    pub shared: Arc<Shared>,
    pub writes: Receiver<Command>,
    pub directory: Directory,
    pub engine_options: engine::Options,
    pub fsync: Fsync,
    pub metrics: Metrics,
}

/// What woke the committer.
enum Woken {
    By(Command),
    Tick,
    Ended,
}

impl Committer {
    pub fn start(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        // It ends with the last session, or by `close`, which waits for it.
        std::thread::Builder::new().name("items-commit".to_owned()).spawn(move || runtime.block_on(self.run()))?;
        Ok(())
    }

    async fn run(mut self) {
        let mut next_tick = Instant::now();
        let mut next_sync = None;
        let closed = loop {
            let wake_at = next_sync.map_or(next_tick, |sync: Instant| sync.min(next_tick));
            match self.woken(wake_at).await {
                Woken::By(Command::Write(first)) => {
                    let close = self.commit(first);
                    if let Fsync::Interval(interval) = self.fsync {
                        next_sync = next_sync.or_else(|| Some(Instant::now() + interval));
                    }
                    if close.is_some() {
                        break close;
                    }
                }
                Woken::By(Command::Close(done)) => break Some(done),
                Woken::Tick => {}
                Woken::Ended => break None,
            }
            let now = Instant::now();
            if next_sync.is_some_and(|at| at <= now) {
                self.sync();
                next_sync = None;
            }
            if next_tick <= now {
                self.tick();
                next_tick = Instant::now() + TICK;
            }
        };
        self.shut_down().await;
        if let Some(closed) = closed {
            // Whoever closed the store may have left.
            let _left = closed.send(());
        }
    }

    async fn woken(&mut self, wake_at: Instant) -> Woken {
        match timeout_at(wake_at, self.writes.recv()).await {
            Ok(Some(command)) => Woken::By(command),
            Ok(None) => Woken::Ended,
            Err(_) => Woken::Tick,
        }
    }

    /// Commits a write and those that wait behind it. A close that is met among them ends the
    /// group, and is returned.
    fn commit(&mut self, first: Write) -> Option<tokio::sync::oneshot::Sender<()>> {
        let mut bytes = bytes_of(&first);
        let mut group = vec![first];
        let mut close = None;
        while group.len() < GROUP_MAX && bytes < GROUP_BYTES_MAX {
            match self.writes.try_recv() {
                Ok(Command::Write(write)) => {
                    bytes += bytes_of(&write);
                    group.push(write);
                }
                Ok(Command::Close(done)) => {
                    close = Some(done);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        let now = Instant::now();
        let (late, group): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|write| write.deadline.is_some_and(|deadline| deadline <= now));
        acknowledge(late, &Err(StoreError::Timeout { outcome_unknown: false }));
        if !group.is_empty() {
            let outcome = self.commit_group(&group);
            acknowledge(group, &outcome);
        }
        close
    }

    fn commit_group(&self, group: &[Write]) -> Result<(), StoreError> {
        let unavailable = |outcome_unknown| StoreError::Unavailable { reason: FAILED.to_owned(), outcome_unknown };
        if self.shared.read_only().is_some() {
            return Err(unavailable(false));
        }
        let sync = self.fsync == Fsync::Group;
        let begun = Instant::now();
        let changes = group.iter().flat_map(|write| &write.changes);
        let outcome = self.with_engine(|engine| engine.commit(changes, sync));
        match outcome {
            Some(Ok(())) => {
                self.metrics.groups.inc();
                self.metrics.group_size.observe(group.len() as f64);
                if sync {
                    self.metrics.fsync_seconds.observe(begun.elapsed().as_secs_f64());
                }
                Ok(())
            }
            Some(Err(error)) => {
                self.fail(&error);
                // A poisoned engine refuses before it writes anything.
                Err(unavailable(!matches!(error, fjall::Error::Poisoned)))
            }
            None => Err(unavailable(false)),
        }
    }

    fn with_engine<T>(&self, act: impl FnOnce(&Engine) -> T) -> Option<T> {
        self.shared.engine.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(act)
    }

    fn fail(&self, error: &fjall::Error) {
        tracing::error!(%error, "the item store takes no writes until its disk has room again");
        self.shared.set_read_only(Some(FAILED));
    }

    fn sync(&self) {
        if self.shared.read_only().is_some() {
            return;
        }
        let begun = Instant::now();
        match self.with_engine(Engine::sync) {
            Some(Ok(())) => self.metrics.fsync_seconds.observe(begun.elapsed().as_secs_f64()),
            Some(Err(error)) => self.fail(&error),
            None => {}
        }
    }

    fn tick(&self) {
        if self.shared.read_only().is_some() && self.directory.has_room() {
            self.reopen();
        }
        if let Some(Ok(bytes)) = self.with_engine(Engine::disk_bytes) {
            self.metrics.disk_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// Opens the engine anew. Reads wait meanwhile, and fail where it cannot be opened.
    fn reopen(&self) {
        let mut engine = self.shared.engine.write().unwrap_or_else(PoisonError::into_inner);
        // The failed one has to let go of its files first.
        engine.take();
        match Engine::open(&self.engine_options) {
            Ok(opened) => {
                *engine = Some(opened);
                self.shared.set_read_only(None);
                tracing::info!("the item store takes writes again");
            }
            Err(error) => tracing::error!(%error, "the item store cannot be opened again yet"),
        }
    }

    async fn shut_down(mut self) {
        self.writes.close();
        while let Ok(command) = self.writes.try_recv() {
            match command {
                Command::Write(write) => {
                    self.commit(write);
                }
                Command::Close(done) => drop(done),
            }
        }
        self.sync();
        if let Some(Ok(())) = self.with_engine(Engine::begin_flush) {
            let give_up = Instant::now() + FLUSH_TIMEOUT;
            while self.with_engine(Engine::is_flushed) == Some(false) && Instant::now() < give_up {
                sleep(FLUSH_LOOK_INTERVAL).await;
            }
        }
        self.shared.engine.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn bytes_of(write: &Write) -> usize {
    write.changes.iter().map(Change::bytes).sum()
}

fn acknowledge(writes: Vec<Write>, outcome: &Result<(), StoreError>) {
    for write in writes {
        // A caller that has left does not need its answer.
        let _left = write.done.send(outcome.clone());
    }
}
