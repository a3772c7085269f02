//! Synchronizes the engine's threads: one bell that rings at every change of state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct Bell {
    stopping: AtomicBool,
    lock: Mutex<()>,
    condvar: Condvar,
}

impl Bell {
    /// Call this after a change of state that another thread may wait for.
    pub fn ring(&self) {
        // A thread that checked the state before the change is waiting once the lock is free.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.condvar.notify_all();
    }

    /// Stops all threads.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.ring();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until `ready` returns true, the store stops, or the time is over. Returns whether it is ready.
    pub fn wait_until(&self, timeout: Option<Duration>, ready: impl Fn() -> bool) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if ready() {
                return true;
            }
            if self.is_stopping() {
                return false;
            }
            guard = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.condvar.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return false,
                Some(left) => self.condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}
