//! Group commit: writes wait in a bounded queue for one thread, which puts as many as wait into one
//! frame of the log, makes it as durable as the store promises, shows it to readers, and only then
//! acknowledges.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout_at;

use super::engine::Engine;
use super::error::WriteError;
use super::health::{Part, unavailable};
use super::list_id::ListId;
use super::log::frame::{FrameBuffer, Kind};
use super::log::writer::LogWriter;
use super::options::Fsync;
use super::pending::Change;
use crate::domain::Invalid;
use crate::items::{Done, StoreError};

/// Bytes of memory that one permit of the queue stands for.
const UNIT_BYTES: usize = 256;
/// What a waiting write costs beside its row: an estimate.
const WRITE_OVERHEAD: usize = 256;
/// A write must fit a segment, whose places are 32 bits.
const WRITE_BYTES_MAX: usize = 1 << 30;
/// A frame takes no more writes beyond this.
const GROUP_BYTES: usize = 1 << 20;
const GROUP_WRITES: usize = 1024;
/// How long a group waits for company in `interval` mode, once there has been some.
const LINGER: Duration = Duration::from_micros(300);
/// How often the thread looks for something to do when nobody writes, until there is nothing left.
const TICK: Duration = Duration::from_millis(50);
/// A log that could not be written is tried again after this.
const RETRY: Duration = Duration::from_millis(500);
/// Log segments that pending items may be spread over before they are frozen: bounds the log.
const SEGMENTS_MAX: u32 = 4;

/// A change with its place in the queue, which is given back when this is dropped.
pub struct Placed {
    list: ListId,
    change: Change,
    /// The oldest timestamp of the change's row.
    oldest: u64,
    _place: OwnedSemaphorePermit,
}

/// What waits for the log's thread.
struct Write {
    /// `None` only waits until all that was queued before it is through.
    placed: Option<Placed>,
    deadline: Instant,
    reply: Reply,
}

impl Write {
    fn bytes(&self) -> usize {
        self.placed.as_ref().map_or(0, |placed| placed.change.bytes())
    }
}

/// Whom a write answers. If the thread ends without an answer, that is one.
struct Reply(Option<Done>);

impl Reply {
    fn answer(mut self, result: Result<(), StoreError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            // Nobody knows how far the thread came.
            done(Err(StoreError::Internal { reason: "the log's thread ended".into(), outcome_unknown: true }));
        }
    }
}

#[derive(Default)]
struct Queued {
    writes: VecDeque<Write>,
    /// Whether the thread waits for a first write and must be woken.
    idle: bool,
    freeze_wanted: bool,
    /// Whether the thread is to look around although no write waits.
    poked: bool,
    closed: bool,
}

/// Where writes wait for the log's thread.
pub struct CommitQueue {
    queued: Mutex<Queued>,
    wake: Condvar,
    places: Arc<Semaphore>,
    places_max: usize,
}

enum Taken {
    Writes(VecDeque<Write>),
    Nothing,
    Closed,
}

impl CommitQueue {
    pub fn new(bytes: usize) -> Self {
        let places_max = (bytes / UNIT_BYTES).max(16);
        Self {
            queued: Mutex::default(),
            wake: Condvar::new(),
            places: Arc::new(Semaphore::new(places_max)),
            places_max,
        }
    }

    fn queued(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for a change. `oldest` is the oldest timestamp of its row.
    pub async fn place(
        &self,
        list: ListId,
        change: Change,
        oldest: u64,
        deadline: tokio::time::Instant,
    ) -> Result<Placed, StoreError> {
        let units = self.units(&list, &change)?;
        let places = self.places.clone().acquire_many_owned(units);
        let overloaded = || StoreError::Overloaded { reason: "writes wait for the log".into() };
        let place = timeout_at(deadline, places).await.map_err(|_| overloaded())?.map_err(|_| closed())?;
        Ok(Placed { list, change, oldest, _place: place })
    }

    /// The same if there is a place at once.
    pub fn try_place(&self, list: &ListId, change: &Change, oldest: u64) -> Option<Placed> {
        let units = self.units(list, change).ok()?;
        let place = self.places.clone().try_acquire_many_owned(units).ok()?;
        Some(Placed { list: list.clone(), change: change.clone(), oldest, _place: place })
    }

    /// How much of the queue a change takes.
    fn units(&self, list: &ListId, change: &Change) -> Result<u32, StoreError> {
        let bytes = change.bytes();
        if bytes > WRITE_BYTES_MAX {
            let text = format!("a single write may have at most {WRITE_BYTES_MAX} bytes; this one has {bytes}");
            return Err(StoreError::Refused(Invalid::argument(text)));
        }
        let units = ((bytes + list.bytes().len() + WRITE_OVERHEAD) / UNIT_BYTES).clamp(1, self.places_max);
        Ok(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Queues a change. `done` is called once it is as durable as the store promises and visible, or
    /// has failed.
    pub fn push(&self, placed: Placed, deadline: tokio::time::Instant, done: Done) {
        self.push_write(Write { placed: Some(placed), deadline: deadline.into_std(), reply: Reply(Some(done)) });
    }

    /// The same, as a future. The change is queued when this returns, whether the future is polled
    /// or not.
    pub fn commit(
        &self,
        placed: Placed,
        deadline: tokio::time::Instant,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.follow(Some(placed), deadline)
    }

    /// Waits until all that was queued before is visible, or has failed.
    pub fn barrier(&self, deadline: tokio::time::Instant) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.follow(None, deadline)
    }

    fn follow(
        &self,
        placed: Option<Placed>,
        deadline: tokio::time::Instant,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        let (reply, replied) = oneshot::channel();
        let done: Done = Box::new(|result| {
            // The caller may have left: its write stands all the same.
            let _caller_left = reply.send(result);
        });
        self.push_write(Write { placed, deadline: deadline.into_std(), reply: Reply(Some(done)) });
        async move {
            match timeout_at(deadline, replied).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(closed())),
                Err(_) => Err(StoreError::Timeout { outcome_unknown: true }),
            }
        }
    }

    fn push_write(&self, write: Write) {
        let mut queued = self.queued();
        if queued.closed {
            drop(queued);
            return write.reply.answer(Err(closed()));
        }
        queued.writes.push_back(write);
        if queued.idle || queued.writes.len() == GROUP_WRITES {
            queued.idle = false;
            self.wake.notify_one();
        }
    }

    /// Asks for the pending items to be frozen as soon as the ones before them are in files.
    pub fn want_freeze(&self) {
        let mut queued = self.queued();
        (queued.freeze_wanted, queued.poked) = (true, true);
        drop(queued);
        self.wake.notify_one();
    }

    /// Takes no more writes. Those that wait are still committed.
    pub fn close(&self) {
        self.queued().closed = true;
        self.wake.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.queued().closed
    }

    /// The writes that wait. Waits for a first one, and then, if asked to, a little for others.
    fn take(&self, timeout: Option<Duration>, linger: bool) -> Taken {
        let mut queued = self.queued();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        while queued.writes.is_empty() {
            if queued.closed {
                return Taken::Closed;
            }
            if std::mem::take(&mut queued.poked) {
                return Taken::Nothing;
            }
            queued.idle = true;
            queued = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.wake.wait(queued).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Taken::Nothing,
                Some(left) => self.wake.wait_timeout(queued, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        queued.idle = false;
        let deadline = Instant::now() + LINGER;
        while linger && queued.writes.len() < GROUP_WRITES && !queued.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queued = self.wake.wait_timeout(queued, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Taken::Writes(std::mem::take(&mut queued.writes))
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the item store is closed".into(), outcome_unknown: false }
}

/// The thread that writes the log.
pub struct Committer {
    engine: Arc<Engine>,
    log: LogWriter,
    frame: FrameBuffer,
    sync_each_group: bool,
    /// Whether the last thing in the log says that all before it is durable.
    sealed: bool,
    linger: bool,
    /// When a log that could not be written is tried again.
    retry_at: Option<Instant>,
}

impl Committer {
    pub fn new(engine: Arc<Engine>, log: LogWriter) -> Self {
        let sync_each_group = engine.options.fsync == Fsync::Group;
        Self {
            engine,
            log,
            frame: FrameBuffer::default(),
            sync_each_group,
            sealed: true,
            linger: false,
            retry_at: None,
        }
    }

    /// Commits until the queue is closed and empty; then makes all durable.
    pub fn run(mut self) {
        let _guard = Unattended(self.engine.clone());
        self.freeze_if_full();
        loop {
            let something_left = !self.sealed || self.retry_at.is_some() || self.engine.queue.queued().freeze_wanted;
            match self.engine.queue.take(something_left.then_some(TICK), self.linger) {
                Taken::Closed => break,
                Taken::Nothing => self.tick(),
                Taken::Writes(writes) => self.commit_all(writes),
            }
        }
        if !self.engine.health.has_failed() {
            self.seal();
            self.sync();
        }
    }

    fn commit_all(&mut self, mut writes: VecDeque<Write>) {
        self.linger = !self.sync_each_group && writes.len() > 1;
        while !writes.is_empty() {
            let mut bytes = 0;
            let fits = |write: &&Write| {
                bytes += write.bytes();
                bytes <= GROUP_BYTES
            };
            let count = writes.iter().take(GROUP_WRITES).take_while(fits).count().max(1);
            self.commit(writes.drain(..count).collect());
        }
    }

    fn commit(&mut self, mut group: Vec<Write>) {
        if let Err(error) = self.wait_for_room() {
            return reply_all(group, &error);
        }
        let now = Instant::now();
        for late in group.extract_if(.., |write| write.deadline <= now) {
            late.reply.answer(Err(StoreError::Timeout { outcome_unknown: false }));
        }
        let changes = group.iter().filter(|write| write.placed.is_some()).count();
        if changes > 0 {
            if let Err(error) = self.write(&group) {
                return reply_all(group, &error);
            }
            self.engine.metrics.commit_groups.inc();
            self.engine.metrics.commit_group_size.observe(changes as f64);
            let active = self.engine.tables.view().active.clone();
            for Placed { list, change, oldest, .. } in group.iter().filter_map(|write| write.placed.as_ref()) {
                self.engine.heads.change(list, change, || active.apply(list, change, *oldest));
            }
        }
        for write in group {
            write.reply.answer(Ok(()));
        }
        self.freeze_if_full();
    }

    /// Puts a group into the log, as durably as the store promises.
    fn write(&mut self, group: &[Write]) -> Result<(), StoreError> {
        if let Some(reason) = self.engine.health.read_only()
            && self.retry_at.is_some_and(|retry_at| Instant::now() < retry_at)
        {
            return Err(unavailable(&reason));
        }
        self.frame.clear();
        for Placed { list, change, .. } in group.iter().filter_map(|write| write.placed.as_ref()) {
            self.frame.push(list, change);
        }
        self.sealed = false;
        let appended = self.log.append(&mut self.frame);
        self.note(appended)?;
        if self.sync_each_group && !self.sync() {
            let reason = self.engine.health.read_only().unwrap_or_default();
            return Err(StoreError::Unavailable { reason: format!("read-only: {reason}"), outcome_unknown: true });
        }
        Ok(())
    }

    /// Keeps the health of the log.
    fn note(&mut self, appended: Result<(), WriteError>) -> Result<(), StoreError> {
        let noted = self.judge(appended);
        if noted.is_err() {
            self.engine.bell.ring();
        }
        noted
    }

    fn judge(&mut self, appended: Result<(), WriteError>) -> Result<(), StoreError> {
        match appended {
            Ok(()) => {
                if self.retry_at.take().is_some() {
                    self.engine.health.clear(Part::Log);
                }
                Ok(())
            }
            Err(WriteError::NotWritten(error)) => {
                let reason = cannot_write(&error);
                self.engine.health.block(Part::Log, reason.clone());
                self.retry_at = Some(Instant::now() + RETRY);
                Err(unavailable(&reason))
            }
            Err(WriteError::Unknown(error)) => {
                let reason = format!("{}; start the server again", cannot_write(&error));
                self.engine.health.fail(reason.clone());
                Err(StoreError::Unavailable { reason: format!("read-only: {reason}"), outcome_unknown: true })
            }
        }
    }

    fn sync(&self) -> bool {
        self.engine.sync_log()
    }

    /// Says in the log that all before is durable, so that damage to it is never taken for a torn
    /// tail.
    fn seal(&mut self) {
        if self.sealed || !self.log.has_room_for_seal() {
            self.sealed = true;
            return;
        }
        if !self.engine.progress.is_durable() {
            return;
        }
        let sealed = self.log.append(&mut FrameBuffer::of(Kind::Seal));
        if self.note(sealed).is_ok() {
            self.sealed = true;
            if self.sync_each_group {
                self.sync();
            }
        }
    }

    /// What there is to do while nobody writes.
    fn tick(&mut self) {
        self.freeze_if_full();
        if self.engine.health.has_failed() {
            (self.sealed, self.retry_at) = (true, None);
        } else if let Some(retry_at) = self.retry_at {
            if Instant::now() >= retry_at {
                let tried = self.log.append(&mut FrameBuffer::of(Kind::Seal));
                if self.note(tried).is_ok() && self.sync_each_group {
                    self.sync();
                }
            }
        } else {
            self.seal();
        }
    }

    /// Freezes the pending items if they are many, or spread over much log, or somebody asks.
    fn freeze_if_full(&mut self) {
        let engine = &self.engine;
        let view = engine.tables.view();
        let mut queued = engine.queue.queued();
        let much_log = self.log.position().segment - view.active.start.segment >= SEGMENTS_MAX;
        if !(queued.freeze_wanted || much_log || view.active.bytes() >= engine.options.pending_bytes()) {
            return;
        }
        if view.active.is_empty() && view.frozen.is_none() {
            queued.freeze_wanted = false;
        } else if view.frozen.is_none() {
            queued.freeze_wanted = false;
            drop(queued);
            engine.tables.freeze(self.log.position());
            engine.bell.ring();
        }
    }

    /// Waits while too much is pending: the flusher lags.
    fn wait_for_room(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let has_room = || engine.tables.view().active.bytes() < 2 * engine.options.pending_bytes();
        loop {
            if let Some(error) = engine.health.refuses_beside_log() {
                return Err(error);
            }
            if !has_room() {
                // Only this thread freezes, and only then is there something to flush.
                self.freeze_if_full();
            }
            if has_room() {
                return Ok(());
            }
            if engine.queue.is_closed() {
                return Err(closed());
            }
            let changed = || engine.tables.view().frozen.is_none() || engine.health.read_only().is_some();
            engine.bell.wait_until(Some(TICK), changed);
        }
    }
}

fn cannot_write(error: &io::Error) -> String {
    format!("cannot write the log: {error}")
}

fn reply_all(group: Vec<Write>, error: &StoreError) {
    for write in group {
        write.reply.answer(Err(error.clone()));
    }
}

/// Leaves the store in order if the log's thread should panic.
struct Unattended(Arc<Engine>);

impl Drop for Unattended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.health.fail("the log's thread panicked; start the server again".into());
        }
        let mut queued = self.0.queue.queued();
        queued.closed = true;
        let unanswered = std::mem::take(&mut queued.writes);
        drop(queued);
        drop(unanswered);
    }
}
