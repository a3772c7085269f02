//! Sessions: operations from an arbiter, reads on blocking threads, writes to the committer.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::engine::{Change, Engine, Found, ReadError};
use super::keys::{Key, Prefix};
use crate::domain::{ItemKey, ListKey, NewItem, ValueDigest};
use crate::items::{ItemPage, ItemSession, Operation, Range, StoreError};

/// Reads that may wait for the disk at a time.
const READERS_MAX: usize = 16;
/// Writes that may wait for the committer at a time, and the memory that they may take.
const QUEUE_MAX: usize = 1_024;
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Items that a removal deletes in one commit.
const REMOVALS_MAX: usize = 2_000;

/// A write on its way to the committer.
pub(super) struct Write {
    pub changes: Vec<Change>,
    /// Past it, a write that has not been begun is left.
    pub deadline: Option<Instant>,
    pub done: oneshot::Sender<Result<(), StoreError>>,
    /// Its share of the queue's memory, given back when it is dropped.
    pub _room: OwnedSemaphorePermit,
}

pub(super) enum Command {
    Write(Write),
    Close(oneshot::Sender<()>),
}

/// What all sessions and the committer share.
pub(super) struct Shared {
    /// None after `close`, and while a failed engine could not be opened again.
    pub engine: RwLock<Option<Engine>>,
    read_only: ArcSwapOption<String>,
    readers: Arc<Semaphore>,
    room: Arc<Semaphore>,
    commands: mpsc::Sender<Command>,
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned(), outcome_unknown: false }
}

/// Waits no longer than until the deadline, if there is one.
async fn within<T>(
    deadline: Option<Instant>,
    outcome_unknown: bool,
    future: impl Future<Output = T>,
) -> Result<T, StoreError> {
    match deadline {
        None => Ok(future.await),
        Some(deadline) => timeout_at(deadline, future).await.map_err(|_| StoreError::Timeout { outcome_unknown }),
    }
}

impl Shared {
    pub fn new(engine: Engine) -> (Self, mpsc::Receiver<Command>) {
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        let shared = Self {
            engine: RwLock::new(Some(engine)),
            read_only: ArcSwapOption::empty(),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            commands,
        };
        (shared, queue)
    }

    pub fn read_only(&self) -> Option<String> {
        self.read_only.load().as_deref().cloned()
    }

    pub fn set_read_only(&self, reason: Option<&str>) {
        self.read_only.store(reason.map(|reason| Arc::new(reason.to_owned())));
    }

    /// Ends the committer after all writes before this. Safe to repeat.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(Command::Close(done)).await.is_ok() {
            // An error says that the committer has ended already.
            let _ended = closed.await;
        }
    }

    /// Reads on a blocking thread, of which all sessions together use a bounded number.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        deadline: Option<Instant>,
        read: impl FnOnce(&Engine) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = within(deadline, false, Arc::clone(&self.readers).acquire_owned()).await?;
        let shared = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            // Held until the read ends, even if its caller has left.
            let _reader = reader;
            let engine = shared.engine.read().unwrap_or_else(PoisonError::into_inner);
            let engine = engine.as_ref().ok_or_else(|| unavailable("the store is closed, or its disk has failed"))?;
            read(engine).map_err(|error| {
                tracing::error!(%error, "the item store cannot be read");
                StoreError::Internal { reason: "stored items cannot be read".to_owned(), outcome_unknown: false }
            })
        });
        let panicked = |_| StoreError::Internal { reason: "a read has panicked".to_owned(), outcome_unknown: false };
        within(deadline, false, task).await?.map_err(panicked)?
    }

    /// Hands changes to the committer and waits until they are as durable as the store promises.
    async fn write(&self, changes: Vec<Change>, deadline: Option<Instant>) -> Result<(), StoreError> {
        if let Some(reason) = self.read_only() {
            return Err(unavailable(&reason));
        }
        let closed = || unavailable("the store is closed");
        let bytes: usize = changes.iter().map(Change::bytes).sum();
        let share = u32::try_from(bytes.min(QUEUE_BYTES_MAX)).unwrap_or(u32::MAX);
        let (done, outcome) = oneshot::channel();
        let queued = async {
            let room = Arc::clone(&self.room).acquire_many_owned(share).await.map_err(|_| closed())?;
            let write = Write { changes, deadline, done, _room: room };
            self.commands.send(Command::Write(write)).await.map_err(|_| closed())
        };
        let lost = |_| StoreError::Internal { reason: "the committer has ended".to_owned(), outcome_unknown: true };
        within(deadline, false, queued).await??;
        within(deadline, true, outcome).await?.map_err(lost)?
    }

    /// Removes what `find` finds, part by part. Returns how many of it was visible.
    async fn remove(
        self: Arc<Self>,
        deadline: Instant,
        find: impl Fn(&Engine, Option<&Key>) -> Result<Found, ReadError> + Clone + Send + 'static,
    ) -> Result<u64, StoreError> {
        // Apart from the caller: one that leaves must not leave half a removal behind.
        let removal = tokio::spawn(async move {
            let (mut visible, mut after) = (0, None::<Key>);
            loop {
                let find = find.clone();
                let found = self.read(None, move |engine| find(engine, after.as_ref())).await?;
                visible += found.visible;
                if !found.removals.is_empty() {
                    self.write(found.removals, None).await?;
                }
                after = found.last;
                if after.is_none() {
                    return Ok(visible);
                }
            }
        });
        let panicked = |_| StoreError::Internal { reason: "a removal has panicked".to_owned(), outcome_unknown: true };
        within(Some(deadline), true, removal).await?.map_err(panicked)?
    }
}

/// One arbiter's way to the store.
pub(super) struct Session {
    shared: Arc<Shared>,
}

impl Session {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait(?Send)]
impl ItemSession for Session {
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        op.begin()?;
        let (op, list, range) = (*op, list.clone(), *range);
        self.shared.read(Some(op.deadline), move |engine| engine.page(&op, &list, &range)).await
    }

    async fn add(&self, op: &Operation, list: &ListKey, items: Vec<NewItem>) -> Result<(), StoreError> {
        op.begin()?;
        let prefix = Prefix::of(list);
        let put = |NewItem { timestamp, value, expires_at }| {
            let key = ItemKey::new(timestamp, ValueDigest::of(&value));
            Change::Put { row: prefix.row(&key), index_row: prefix.index_row(&key), expires_at, value }
        };
        self.shared.write(items.into_iter().map(put).collect(), Some(op.deadline)).await
    }

    async fn remove_value(&self, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
        op.begin()?;
        let (op, list, value) = (*op, list.clone(), Arc::<[u8]>::from(value));
        let find =
            move |engine: &Engine, after: Option<&Key>| engine.find_value(&op, &list, &value, after, REMOVALS_MAX);
        Arc::clone(&self.shared).remove(op.deadline, find).await
    }

    async fn remove_all(&self, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
        op.begin()?;
        let list = list.clone();
        let find = move |engine: &Engine, after: Option<&Key>| engine.find_all(&list, after, REMOVALS_MAX);
        Arc::clone(&self.shared).remove(op.deadline, find).await.map(|_| ())
    }
}
