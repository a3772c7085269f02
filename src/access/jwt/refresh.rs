//! When to read an issuer's keys again. A token with an unknown key causes a reading in between, but at a limited
//! rate.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// The interval between readings that tokens cause.
const ASKED_INTERVAL: Duration = Duration::from_secs(10);
/// How long a request waits for the keys.
const WAIT_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Asked {
    /// A reading is in progress, and further callers wait for it.
    pending: bool,
    at: Option<Instant>,
}

/// The shared state of callers that need an issuer's keys, and the task that reads them.
#[derive(Debug)]
pub(super) struct Refresh {
    asked: Mutex<Asked>,
    wake: Notify,
    /// How many readings have ended.
    ended: watch::Sender<u64>,
}

impl Default for Refresh {
    fn default() -> Self {
        Self { asked: Mutex::default(), wake: Notify::new(), ended: watch::Sender::new(0) }
    }
}

impl Refresh {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the keys have been read, if a reading is permitted now. Returns whether it was.
    pub async fn look_up(&self) -> bool {
        let mut ended = self.ended.subscribe();
        if !self.request(Instant::now()) {
            return false;
        }
        timeout(WAIT_MAX, ended.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    fn request(&self, now: Instant) -> bool {
        let mut asked = self.lock();
        if asked.pending {
            return true;
        }
        if asked.at.is_some_and(|at| now < at + ASKED_INTERVAL) {
            return false;
        }
        *asked = Asked { pending: true, at: Some(now) };
        self.wake.notify_one();
        true
    }

    /// For the reading task: returns once a caller has requested a reading.
    pub async fn wait_for_request(&self) {
        self.wake.notified().await;
    }

    /// Call it at the end of each reading, successful or not.
    pub fn note_end(&self) {
        self.lock().pending = false;
        self.ended.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keys_are_requested_at_a_bounded_rate() {
        let refresh = Refresh::default();
        let began = Instant::now();
        assert!(refresh.request(began));
        // A caller during the reading waits for the same one.
        assert!(refresh.request(began));
        refresh.wait_for_request().await;
        refresh.note_end();
        assert!(!refresh.request(began + ASKED_INTERVAL - Duration::from_millis(1)));
        assert!(!refresh.look_up().await);
        assert!(refresh.request(began + ASKED_INTERVAL));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_callers_are_notified_of_the_end_or_leave() {
        let refresh = Refresh::default();
        let answered = async {
            refresh.wait_for_request().await;
            refresh.note_end();
        };
        assert!(tokio::join!(refresh.look_up(), answered).0);
        let slow = Refresh::default();
        assert!(!slow.look_up().await);
    }
}
