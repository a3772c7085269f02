//! Things that operations have found and that a task must check: stored within bounds, and returned one after the
//! other.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The least time between two checks of the same thing.
const INTERVAL: Duration = Duration::from_secs(1);
/// How much is remembered to have been looked at, and so the most that waits for it.
const REMEMBERED_MAX: usize = 1_024;

/// Something that must be checked.
#[derive(Debug, Clone)]
pub struct ToCheck<K> {
    pub what: K,
    pub at: Instant,
}

/// The things that operations of one session have noted.
#[derive(Debug)]
pub struct Noted<K> {
    state: Mutex<State<K>>,
    rung: Notify,
}

#[derive(Debug)]
struct State<K> {
    queued_at: HashMap<K, Instant>,
    waiting: VecDeque<ToCheck<K>>,
}

impl<K> Default for Noted<K> {
    fn default() -> Self {
        let state = Mutex::new(State { queued_at: HashMap::new(), waiting: VecDeque::new() });
        Self { state, rung: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash> Noted<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something to check. If there are too many it is dropped: the next operation that finds it notes it again.
    pub fn note(&self, what: K) {
        let mut state = self.state();
        let now = Instant::now();
        if state.queued_at.get(&what).is_some_and(|at| now - *at < INTERVAL) {
            return;
        }
        if state.queued_at.len() >= REMEMBERED_MAX {
            state.queued_at.retain(|_, at| now - *at < INTERVAL);
        }
        if state.queued_at.len() < REMEMBERED_MAX && state.waiting.len() < REMEMBERED_MAX {
            state.queued_at.insert(what.clone(), now);
            state.waiting.push_back(ToCheck { what, at: now });
            self.rung.notify_one();
        }
    }

    /// The next one to be looked at: for one caller at a time.
    pub async fn next(&self) -> ToCheck<K> {
        loop {
            if let Some(next) = self.state().waiting.pop_front() {
                return next;
            }
            self.rung.notified().await;
        }
    }
}
