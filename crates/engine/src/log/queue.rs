//! The queue of writes for the log's thread. Its memory is bounded, and any thread may fill it.
//!
//! A writer with a place queues at once, without any other wait. So the log's thread frees every place, and a write
//! waits at most for the writes that are queued before it.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use liststore_contract::domain::Invalid;
use liststore_storage::{Done, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout_at;

use super::change::Changes;

/// Bytes of memory per permit of the queue.
const UNIT_BYTES: usize = 256;
/// The estimated cost of each change of a waiting write, in addition to its row.
const WRITE_OVERHEAD: usize = 256;
/// A write must fit a segment, whose places are 32 bits.
const WRITE_BYTES_MAX: usize = 1 << 30;
/// The part for removals has at least this size, which fits a removal of 1,000 items.
const REMOVALS_BYTES_MIN: usize = 256 << 10;
/// The largest number of lists of one write, because readers of all of them wait while it is applied.
const WRITE_LISTS_MAX: usize = 4096;
/// A group of this many writes waits for no more.
pub const GROUP_WRITES: usize = 1024;
/// How long a group waits for more writes, if the previous group had several.
const LINGER: Duration = Duration::from_micros(300);

/// The share of the queue in which a write takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueShare {
    Adds,
    /// A quarter of the queue, which adds leave free.
    Removals,
}

/// Changes with their place in the queue, which drop frees.
pub struct Placed {
    pub share: QueueShare,
    pub changes: Changes,
    _place: OwnedSemaphorePermit,
}

/// An entry of the queue of the log's thread.
pub struct Write {
    /// `None` only waits until all earlier entries are completed.
    pub placed: Option<Placed>,
    pub deadline: Instant,
    pub reply: Reply,
}

impl Write {
    pub fn bytes(&self) -> usize {
        self.placed.as_ref().map_or(0, |placed| placed.changes.bytes())
    }

    pub fn is_add(&self) -> bool {
        self.placed.as_ref().is_some_and(|placed| placed.share == QueueShare::Adds)
    }
}

/// The receiver of a write's answer. If the thread ends without an answer, drop answers.
pub struct Reply(Option<Done>);

impl Reply {
    pub fn answer(mut self, result: Result<(), StoreError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            // The progress of the thread is unknown.
            done(Err(StoreError::Internal { reason: "the log thread ended".into(), outcome_unknown: true }));
        }
    }
}

#[derive(Default)]
struct Queued {
    writes: VecDeque<Write>,
    /// Whether the thread waits for a first write and must be woken.
    idle: bool,
    freeze_wanted: bool,
    /// Whether the log must continue in a fresh segment after that.
    fresh_log_wanted: bool,
    /// Whether the thread must run its checks without a write.
    poked: bool,
    closed: bool,
}

/// The queue of writes for the log's thread.
pub struct CommitQueue {
    queued: Mutex<Queued>,
    wake: Condvar,
    adds: Places,
    removals: Places,
    /// Writes that may still be queued although their callers have left.
    left_alone: Arc<AtomicUsize>,
}

/// Permits of `UNIT_BYTES` each.
struct Places {
    free: Arc<Semaphore>,
    max: usize,
}

impl Places {
    fn new(bytes: usize) -> Self {
        let max = (bytes / UNIT_BYTES).max(16);
        Self { free: Arc::new(Semaphore::new(max)), max }
    }
}

pub enum Taken {
    Writes(VecDeque<Write>),
    Nothing,
    Closed,
}

impl CommitQueue {
    pub fn new(bytes: usize) -> Self {
        let removals = bytes / 4;
        Self {
            queued: Mutex::default(),
            wake: Condvar::new(),
            adds: Places::new(bytes - removals),
            removals: Places::new(removals.max(REMOVALS_BYTES_MIN)),
            left_alone: Arc::default(),
        }
    }

    fn places(&self, share: QueueShare) -> &Places {
        match share {
            QueueShare::Adds => &self.adds,
            QueueShare::Removals => &self.removals,
        }
    }

    fn queued(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The largest accepted removal, in bytes.
    pub fn removal_bytes_max(&self) -> usize {
        self.removals.max * UNIT_BYTES
    }

    /// Waits for a place for changes.
    pub async fn place(
        &self,
        share: QueueShare,
        changes: Changes,
        deadline: tokio::time::Instant,
    ) -> Result<Placed, StoreError> {
        let units = self.units(share, &changes)?;
        let places = self.places(share).free.clone().acquire_many_owned(units);
        let overloaded = || StoreError::Overloaded { reason: "too many writes are waiting for the log".into() };
        let place = timeout_at(deadline, places).await.map_err(|_| overloaded())?.map_err(|_| closed())?;
        Ok(Placed { share, changes, _place: place })
    }

    /// Takes a place if one is free. Otherwise returns the changes.
    pub fn try_place(&self, share: QueueShare, changes: Changes) -> Result<Placed, Changes> {
        let Ok(units) = self.units(share, &changes) else { return Err(changes) };
        match self.places(share).free.clone().try_acquire_many_owned(units) {
            Ok(place) => Ok(Placed { share, changes, _place: place }),
            Err(_) => Err(changes),
        }
    }

    /// The units of its part that a write takes. A larger add takes all of the part, because the body of a request
    /// bounds it. A larger removal is refused, because removals come in parts.
    fn units(&self, share: QueueShare, changes: &Changes) -> Result<u32, StoreError> {
        let (bytes, lists) = (changes.bytes(), changes.as_slice().len());
        let refused = |text: String| Err(StoreError::Refused(Invalid::argument(text)));
        if bytes > WRITE_BYTES_MAX {
            return refused(format!("a write must have at most {WRITE_BYTES_MAX} bytes; this one has {bytes}"));
        }
        if lists > WRITE_LISTS_MAX {
            return refused(format!("a write must change at most {WRITE_LISTS_MAX} lists; this one changes {lists}"));
        }
        let overhead = |list_bytes: usize| list_bytes + WRITE_OVERHEAD;
        let overhead: usize = changes.as_slice().iter().map(|one| overhead(one.list.bytes().len())).sum();
        // A removal of items comes in parts, each of a list and its reverse entries. The removal of a bag with its
        // entries is one write.
        let comes_in_parts = share == QueueShare::Removals && lists <= 2;
        if comes_in_parts && bytes + overhead > self.removal_bytes_max() {
            let most = self.removal_bytes_max();
            return refused(format!("a removal must have at most {most} bytes; this one has {}", bytes + overhead));
        }
        let units = ((bytes + overhead) / UNIT_BYTES).clamp(1, self.places(share).max);
        Ok(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Queues a write. `done` is called once the write is as durable as the store promises and visible, or has failed.
    pub fn push(&self, placed: Placed, deadline: tokio::time::Instant, done: Done) {
        self.push_write(Write { placed: Some(placed), deadline: deadline.into_std(), reply: Reply(Some(done)) });
    }

    /// Queues a write and returns its result as a future. The write is queued when this returns, even if the future is
    /// never polled.
    pub fn commit(
        &self,
        placed: Placed,
        deadline: tokio::time::Instant,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.follow(Some(placed), deadline)
    }

    /// Waits until all earlier writes are visible, or have failed.
    pub fn barrier(&self, deadline: tokio::time::Instant) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.follow(None, deadline)
    }

    /// Does the same with a callback.
    pub fn push_barrier(&self, deadline: tokio::time::Instant, done: Done) {
        self.push_write(Write { placed: None, deadline: deadline.into_std(), reply: Reply(Some(done)) });
    }

    /// Whether a write may still be queued whose caller no longer waits for it ([`Self::commit`]), or whose session has
    /// ended ([`Self::leave`]). Usually there is none.
    pub fn has_write_left_alone(&self) -> bool {
        self.left_alone.load(Ordering::Acquire) > 0
    }

    /// Waits until every such write is visible, or has failed. For a caller that has a list exclusively, where every
    /// queued write is such a write.
    pub async fn no_write_left_alone(&self, deadline: tokio::time::Instant) -> Result<(), StoreError> {
        if self.has_write_left_alone() { self.barrier(deadline).await } else { Ok(()) }
    }

    /// Marks all queued writes as left alone. A session calls this at its end, which also ends the turns of its writes.
    pub fn leave(&self) {
        self.left_alone.fetch_add(1, Ordering::AcqRel);
        let left_alone = Arc::clone(&self.left_alone);
        let done: Done = Box::new(move |_| {
            left_alone.fetch_sub(1, Ordering::AcqRel);
        });
        let whenever = Instant::now() + Duration::from_secs(u32::MAX.into());
        self.push_write(Write { placed: None, deadline: whenever, reply: Reply(Some(done)) });
    }

    fn follow(
        &self,
        placed: Option<Placed>,
        deadline: tokio::time::Instant,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        let (reply, replied) = oneshot::channel();
        let left_alone = Arc::clone(&self.left_alone);
        let mut followed = Followed { replied, left_alone: Arc::clone(&left_alone), is_answered: false };
        let done: Done = Box::new(move |result| {
            // The caller may have left, but its write remains.
            if reply.send(result).is_err() {
                left_alone.fetch_sub(1, Ordering::AcqRel);
            }
        });
        self.push_write(Write { placed, deadline: deadline.into_std(), reply: Reply(Some(done)) });
        async move {
            match timeout_at(deadline, followed.answer()).await {
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

    /// Requests to freeze the memtable as soon as the earlier ones are in files.
    pub fn want_freeze(&self) {
        let mut queued = self.queued();
        (queued.freeze_wanted, queued.poked) = (true, true);
        drop(queued);
        self.wake.notify_one();
    }

    /// Does the same, and continues the log in a fresh segment, so that no earlier one is needed afterwards.
    pub fn want_fresh_log(&self) {
        self.queued().fresh_log_wanted = true;
        self.want_freeze();
    }

    pub fn fresh_log_is_wanted(&self) -> bool {
        self.queued().fresh_log_wanted
    }

    /// Whether a caller waits for a freeze.
    pub fn freeze_is_wanted(&self) -> bool {
        self.queued().freeze_wanted
    }

    /// Records a freeze, with a fresh log or without. A fresh log that was requested in between is still wanted.
    pub fn freeze_granted(&self, fresh_log: bool) {
        let mut queued = self.queued();
        queued.fresh_log_wanted &= !fresh_log;
        queued.freeze_wanted = queued.fresh_log_wanted;
    }

    /// Refuses further writes. Queued writes are still committed.
    pub fn close(&self) {
        self.queued().closed = true;
        self.wake.notify_one();
    }

    pub fn is_closed(&self) -> bool {
        self.queued().closed
    }

    /// Refuses further writes, and drops the queued ones.
    pub fn abandon(&self) {
        let mut queued = self.queued();
        queued.closed = true;
        let unanswered = mem::take(&mut queued.writes);
        drop(queued);
        // Dropping a write answers it, which needs the queue to be unlocked.
        drop(unanswered);
    }

    /// Takes the queued writes. Waits for a first one, and then, on request, a little for more.
    pub fn take(&self, timeout: Option<Duration>, linger: bool) -> Taken {
        let mut queued = self.queued();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        while queued.writes.is_empty() {
            if queued.closed {
                return Taken::Closed;
            }
            if mem::take(&mut queued.poked) {
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
        Taken::Writes(mem::take(&mut queued.writes))
    }
}

/// The answer to a write, while its caller waits for it.
struct Followed {
    replied: oneshot::Receiver<Result<(), StoreError>>,
    left_alone: Arc<AtomicUsize>,
    is_answered: bool,
}

impl Followed {
    async fn answer(&mut self) -> Result<Result<(), StoreError>, oneshot::error::RecvError> {
        let answer = (&mut self.replied).await;
        self.is_answered = true;
        answer
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        // Never too few: the answering thread subtracts it once no caller takes the answer, which is possible from
        // `close` on.
        self.left_alone.fetch_add(1, Ordering::AcqRel);
        self.replied.close();
        if !matches!(self.replied.try_recv(), Err(oneshot::error::TryRecvError::Closed)) {
            self.left_alone.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

pub fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the item store is closed".into(), outcome_unknown: false }
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::*;
    use crate::list_id::ListId;
    use crate::options::ListHash;

    fn list(name: &[u8]) -> ListId {
        ListId::from_bytes(name, ListHash::Of(|bytes| bytes.len() as u64))
    }

    #[test]
    fn adds_and_removals_leave_room_for_each_other() {
        let change = |bytes: usize| Changes::of(list(b"a"), Change::Row(vec![0; bytes].into()), 0);
        for (filled, other) in [(QueueShare::Adds, QueueShare::Removals), (QueueShare::Removals, QueueShare::Adds)] {
            let queue = CommitQueue::new(64 << 10);
            let fill = || queue.try_place(filled, change(100)).ok();
            let placed: Vec<Placed> = std::iter::from_fn(fill).collect();
            assert!(placed.len() >= 16);
            // An add that is larger than its part takes all of it. A removal is refused.
            let all = queue.try_place(other, change(1 << 20)).ok();
            assert_eq!(all.is_some(), other == QueueShare::Adds);
            assert_eq!(queue.try_place(other, change(100)).is_ok(), other == QueueShare::Removals);
            drop(all);
            let largest = queue.removal_bytes_max() - 1 - WRITE_OVERHEAD;
            assert!(queue.try_place(other, change(largest)).is_ok());
            assert!(queue.try_place(other, change(100)).is_ok());
        }
    }

    #[test]
    fn a_write_takes_room_for_all_its_lists_within_a_bound_of_changes() {
        let changing = |lists: usize| {
            let lists = (0..lists).map(|i| (list(format!("list {i}").as_bytes()), Change::Clear, 0));
            Changes::of_each(lists).unwrap()
        };
        let queue = CommitQueue::new(64 << 20);
        let units = |lists: usize| queue.units(QueueShare::Adds, &changing(lists)).ok();
        assert_eq!((units(1), units(100)), (Some(1), Some(102)));
        assert_eq!(units(WRITE_LISTS_MAX + 1), None);
        assert!(units(WRITE_LISTS_MAX).is_some());
    }

    /// The next writer to a list must see the left writes of the previous one.
    #[tokio::test]
    async fn writes_without_a_waiting_caller_are_left_until_complete() {
        let queue = CommitQueue::new(64 << 10);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(600);
        let commit = || {
            let changes = Changes::of(list(b"a"), Change::Clear, 0);
            queue.commit(queue.try_place(QueueShare::Adds, changes).ok().unwrap(), deadline)
        };
        let answer_all = || {
            let Taken::Writes(writes) = queue.take(None, false) else { panic!("nothing is queued") };
            writes.into_iter().for_each(|write| write.reply.answer(Ok(())));
        };
        let alone = || queue.left_alone.load(Ordering::Acquire);
        let (waited_for, answered_unseen, left) = (commit(), commit(), commit());
        assert_eq!(alone(), 0);
        drop(left);
        assert_eq!(alone(), 1);
        let mut behind_it = std::pin::pin!(queue.no_write_left_alone(deadline));
        assert!(futures_util::poll!(behind_it.as_mut()).is_pending());
        answer_all();
        assert_eq!(alone(), 0);
        behind_it.await.unwrap();
        waited_for.await.unwrap();
        drop(answered_unseen);
        assert_eq!(alone(), 0);
        queue.no_write_left_alone(deadline).await.unwrap();
    }
}
