//! Promises about erased bytes: the date from which no file holds them.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use liststore_contract::domain::Clock;

/// The unfulfilled promises.
pub struct Erasures {
    /// Held during a run: a run erases only items that were removed before its start.
    pub run: Mutex<()>,
    promised: Mutex<Promised>,
    /// Whether there is a new promise for the thread.
    pub is_news: AtomicBool,
}

#[derive(Default)]
pub struct Promised {
    /// For a run that has not begun.
    pub waiting: Option<Promise>,
    /// Whether a run for earlier promises is in progress. The manifest has the earliest of those.
    pub is_running: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Promise {
    /// Nanoseconds since the Unix epoch.
    pub by: u64,
    pub begin_at: Instant,
}

impl Erasures {
    /// Continues with the date in the manifest.
    pub fn new(clock: &dyn Clock, within: Duration, stored: Option<u64>) -> Self {
        let promise = |by: u64| {
            let left = Duration::from_nanos(by.saturating_sub(clock.now().as_nanos()));
            Promise { by, begin_at: Instant::now() + left.min(within) / 2 }
        };
        let promised = Promised { waiting: stored.map(promise), is_running: false };
        Self { run: Mutex::default(), promised: Mutex::new(promised), is_news: AtomicBool::new(false) }
    }

    pub fn promised(&self) -> MutexGuard<'_, Promised> {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin_at(&self) -> Option<Instant> {
        self.promised().waiting.map(|promise| promise.begin_at)
    }
}
