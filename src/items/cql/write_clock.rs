//! The write clock: one a process, shared by all sessions of a store, so that it survives the
//! replacement of an actor. Its readings are the write timestamps of all statements.
//!
//! The database orders writes to one cell by these timestamps alone, and lets a deletion win a tie.
//! So each reading is larger than the one before, and than every write timestamp that was seen in
//! the database, wherever the wall clock steps. It must never run far ahead of the wall clock, or
//! one broken clock in the fleet would become everybody's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::skew::SkewGauge;
use crate::domain::Clock;

/// How far ahead of the wall clock write timestamps that were seen may push the write clock.
const AHEAD_MICROS_MAX: u64 = 5_000_000;

/// Microseconds since the Unix epoch, as `USING TIMESTAMP` takes them.
#[derive(Clone)]
pub struct WriteClock {
    clock: Arc<dyn Clock>,
    last: Arc<AtomicU64>,
    skew: Arc<SkewGauge>,
}

impl WriteClock {
    pub fn new(clock: Arc<dyn Clock>, skew: Arc<SkewGauge>) -> Self {
        Self { clock, last: Arc::default(), skew }
    }

    /// The next write timestamp: max(now, last + 1).
    pub fn next(&self) -> i64 {
        let now = self.clock.now().as_micros();
        let step = |last: u64| now.max(last + 1);
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(step(last)));
        as_writetime(step(last.unwrap_or_else(|last| last)))
    }

    /// Takes note of a write timestamp that was found in the database: later readings are larger,
    /// unless it lies more than five seconds ahead of the wall clock.
    pub fn observe(&self, writetime: i64) {
        let (now, writetime) = (self.clock.now().as_micros(), u64::try_from(writetime).unwrap_or(0));
        self.skew.saw(writetime.saturating_sub(now));
        self.last.fetch_max(writetime.min(now + AHEAD_MICROS_MAX), Ordering::Relaxed);
    }
}

/// Timestamps of the domain end in 2286, far below the largest that a 64-bit signed number holds.
fn as_writetime(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ManualClock, Timestamp};

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1_000).unwrap()
    }

    fn clock(micros: u64) -> (Arc<ManualClock>, WriteClock) {
        let wall = Arc::new(ManualClock::at(at(micros)));
        (Arc::clone(&wall), WriteClock::new(wall, Arc::default()))
    }

    #[test]
    fn readings_only_grow() {
        let (wall, clock) = clock(1_000_000);
        assert_eq!([clock.next(), clock.next()], [1_000_000, 1_000_001]);
        wall.set(at(2_000_000));
        assert_eq!(clock.next(), 2_000_000);
        wall.set(at(500_000));
        assert_eq!([clock.next(), clock.next()], [2_000_001, 2_000_002]);
    }

    #[test]
    fn clones_share_one_reading() {
        let (_, clock) = clock(7);
        let other = clock.clone();
        assert_eq!([clock.next(), other.next(), clock.next()], [7, 8, 9]);
    }

    #[test]
    fn what_was_seen_is_outranked_up_to_five_seconds_ahead() {
        let (_, clock) = clock(1_000_000);
        clock.observe(3_000_000);
        assert_eq!(clock.next(), 3_000_001);
        clock.observe(2_000_000);
        assert_eq!(clock.next(), 3_000_002);
        clock.observe(60_000_000);
        assert_eq!(clock.next(), 6_000_001);
        clock.observe(-1);
        assert_eq!(clock.next(), 6_000_002);
    }

    #[test]
    fn threads_never_share_a_timestamp() {
        let (_, clock) = clock(1);
        let mut all: Vec<i64> = std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..1_000).map(|_| clock.next()).collect::<Vec<_>>())).collect();
            readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (1..=4_000).collect::<Vec<_>>());
    }
}
