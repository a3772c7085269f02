//! The wall clock, passed in wherever time matters. This file alone reads the system's clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::Timestamp;

/// A source of the current time. It may step back and forth, as system clocks do.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
    /// The time that has passed since some moment. It never steps, and a new process begins again.
    fn uptime(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 counts as 1970, the best available value.
        let since_epoch = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::saturating_from_nanos(since_epoch.as_nanos())
    }

    fn uptime(&self) -> Duration {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        BEGUN.get_or_init(Instant::now).elapsed()
    }
}

/// A clock that stops until it is set: for tests of expiry and of stepping clocks.
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
    uptime: AtomicU64,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self { nanos: AtomicU64::new(now.as_nanos()), uptime: AtomicU64::new(0) }
    }

    /// Lets time pass until then. To an earlier moment the clock steps back.
    pub fn set(&self, now: Timestamp) {
        let before = self.nanos.swap(now.as_nanos(), Ordering::SeqCst);
        self.uptime.fetch_add(now.as_nanos().saturating_sub(before), Ordering::SeqCst);
    }

    /// Steps to a moment, without any time passing.
    pub fn step(&self, now: Timestamp) {
        self.nanos.store(now.as_nanos(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating_from_nanos(u128::from(self.nanos.load(Ordering::SeqCst)))
    }

    fn uptime(&self) -> Duration {
        Duration::from_nanos(self.uptime.load(Ordering::SeqCst))
    }
}
