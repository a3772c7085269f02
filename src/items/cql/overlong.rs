//! Lists that were met with more items than they show, or may have come to: they are to be looked at.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::domain::{ListKey, MaxItems};
use crate::items::Operation;

/// A list is not looked at again before.
const INTERVAL: Duration = Duration::from_secs(1);
/// Lists that are remembered to have been looked at, and so the most that wait for it.
const REMEMBERED_MAX: usize = 1_024;
/// A list may be longer than is shown by such a part of it, so that not every add brings a tombstone.
const SLACK_PART: usize = 8;
/// Items that are added between two looks, about, where lists are short.
const LOOK_EVERY_MIN: usize = 16;

/// By how much a list may be longer.
pub fn slack(max_items: MaxItems) -> usize {
    max_items.get() / SLACK_PART
}

/// A list that is to be looked at.
#[derive(Debug, Clone)]
pub struct Met {
    pub list: ListKey,
    pub at: Instant,
}

/// The lists of one session.
#[derive(Debug, Default)]
pub struct Overlong {
    state: Mutex<State>,
    rung: Notify,
}

#[derive(Debug, Default)]
struct State {
    looked_at: HashMap<ListKey, Instant>,
    waiting: VecDeque<Met>,
}

impl Overlong {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a list looked at that was met with more items than it shows. One of very many is passed over:
    /// whoever meets it next has it looked at.
    pub fn met(&self, op: &Operation, list: &ListKey) {
        if op.max_items.is_none() {
            return;
        }
        let mut state = self.state();
        let now = Instant::now();
        if state.looked_at.get(list).is_some_and(|at| now - *at < INTERVAL) {
            return;
        }
        if state.looked_at.len() >= REMEMBERED_MAX {
            state.looked_at.retain(|_, at| now - *at < INTERVAL);
        }
        if state.looked_at.len() < REMEMBERED_MAX && state.waiting.len() < REMEMBERED_MAX {
            state.looked_at.insert(list.clone(), now);
            state.waiting.push_back(Met { list: list.clone(), at: now });
            self.rung.notify_one();
        }
    }

    /// Has a list looked at now and then to which items were added.
    pub fn added(&self, op: &Operation, list: &ListKey, items: usize) {
        let due = |max_items| fastrand::usize(..slack(max_items).max(LOOK_EVERY_MIN)) < items;
        if op.max_items.is_some_and(due) {
            self.met(op, list);
        }
    }

    /// The next one to be looked at: for one caller at a time.
    pub async fn next(&self) -> Met {
        loop {
            if let Some(next) = self.state().waiting.pop_front() {
                return next;
            }
            self.rung.notified().await;
        }
    }
}
