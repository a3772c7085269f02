//! Changes of definitions that wait for the metadata actor, in the order of arrival.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::domain::Author;
use crate::metadata::{Applied, Change, MetadataError};

/// How long a change waits for others, if others joined last time: a small part of an fsync.
const LINGER: Duration = Duration::from_millis(1);

pub(super) type ChangeOutcome = Result<Applied, MetadataError>;

/// A change that has not begun.
pub(super) struct WaitingChange {
    number: u64,
    pub change: Change,
    pub by: Author,
    /// A change that cannot begin by then is not made.
    pub deadline: Instant,
    pub answer: oneshot::Sender<ChangeOutcome>,
}

/// The queue of the metadata actor. The actor's permits bound it.
#[derive(Default)]
pub(super) struct WaitingChanges {
    queue: RefCell<VecDeque<WaitingChange>>,
    pushed: Cell<u64>,
    arrived: Notify,
}

/// A waiting change, for its caller.
pub(super) struct AskedChange {
    pub number: u64,
    pub deadline: Instant,
    pub answered: oneshot::Receiver<ChangeOutcome>,
}

impl WaitingChanges {
    pub fn push(&self, change: Change, by: Author, deadline: Instant) -> AskedChange {
        let (answer, answered) = oneshot::channel();
        let number = self.pushed.get();
        self.pushed.set(number + 1);
        self.queue.borrow_mut().push_back(WaitingChange { number, change, by, deadline, answer });
        self.arrived.notify_one();
        AskedChange { number, deadline, answered }
    }

    /// Withdraws a change. Returns whether it had not begun.
    pub fn withdraw(&self, number: u64) -> bool {
        let mut queue = self.queue.borrow_mut();
        let before = queue.len();
        queue.retain(|waiting| waiting.number != number);
        queue.len() < before
    }

    pub async fn until(&self, count: usize) {
        while self.queue.borrow().len() < count {
            self.arrived.notified().await;
        }
    }

    /// Waits for a change, and then a short time for as many changes as the last round had.
    pub async fn gather(&self, company: usize) {
        self.until(1).await;
        // Changes that arrived while this thread was busy are still in the actor's mailbox.
        yield_now().await;
        if company > 1 {
            let _fewer_will_do = timeout(LINGER, self.until(company)).await;
        }
    }

    pub fn take(&self, most: usize) -> Vec<WaitingChange> {
        let mut queue = self.queue.borrow_mut();
        let count = queue.len().min(most);
        queue.drain(..count).collect()
    }
}
