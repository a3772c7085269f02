//! The write clock: one a process, shared by all sessions of a store, so that it survives the
//! replacement of an actor. Its readings are the write timestamps of all statements.
//!
//! The database orders writes to one cell by these timestamps alone, and lets a deletion win a tie.
//! So each reading is larger than the one before, and than every write timestamp that was seen in
//! the database, wherever the wall clock steps. It must never run far ahead of the wall clock, or
//! one broken clock in the fleet would affect all servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::skew::SkewGauge;
use crate::domain::{Clock, Timestamp};

/// How far ahead of the wall clock write timestamps that were seen may push the write clock.
const AHEAD_MICROS_MAX: u64 = 5_000_000;

/// How far ahead of the wall clock the clocks of nodes may push it.
const BEHIND_MICROS_MAX: u64 = 300_000_000;

/// How far ahead of the wall clock a tombstone is searched for whose time no server has seen: ScyllaDB refuses write
/// timestamps beyond it.
///
/// ScyllaDB: `restrict_future_timestamp` (reference/configuration-parameters.html).
const TOMBSTONE_AHEAD_MICROS_MAX: u64 = 3 * 86_400 * 1_000_000;

/// Microseconds since the Unix epoch, as `USING TIMESTAMP` takes them.
#[derive(Clone)]
pub struct WriteClock {
    clock: Arc<dyn Clock>,
    last: Arc<AtomicU64>,
    /// The latest that the wall clock has shown.
    latest_wall: Arc<AtomicU64>,
    /// The largest write timestamp that was seen in the database, however far ahead.
    seen: Arc<AtomicU64>,
    /// How far behind the clocks of nodes the wall clock is at least, by more than may be.
    behind: Arc<AtomicU64>,
    skew: Arc<SkewGauge>,
    /// How far the wall clocks of two servers may be apart, in microseconds.
    apart_max: u64,
}

impl WriteClock {
    pub fn new(clock: Arc<dyn Clock>, skew: Arc<SkewGauge>, apart_max: Duration) -> Self {
        let apart_max = u64::try_from(apart_max.as_micros()).unwrap_or(u64::MAX).min(AHEAD_MICROS_MAX);
        Self {
            clock,
            last: Arc::default(),
            latest_wall: Arc::default(),
            seen: Arc::default(),
            behind: Arc::default(),
            skew,
            apart_max,
        }
    }

    fn now(&self) -> u64 {
        let now = self.clock.now().as_micros();
        // Most of the time it is later than ever, by the last reading of any thread.
        self.latest_wall.fetch_max(now, Ordering::Relaxed);
        now
    }

    /// The present, by the clock of operations.
    pub fn wall(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes note of how far the clocks of nodes are ahead of ours, in microseconds: readings are behind them by no
    /// more than a margin, unless that would be more than five minutes ahead of the wall clock.
    pub fn nodes_are_ahead_by(&self, micros: i64, margin: Duration) {
        let margin = u64::try_from(margin.as_micros()).unwrap_or(u64::MAX);
        let behind = u64::try_from(micros).unwrap_or(0).saturating_sub(margin).min(BEHIND_MICROS_MAX);
        self.behind.store(behind, Ordering::Relaxed);
    }

    /// The wall clock, pushed as the clocks of nodes have it.
    fn pushed(&self) -> u64 {
        self.now().saturating_add(self.behind.load(Ordering::Relaxed))
    }

    /// The next write timestamp: max(now, last + 1).
    pub fn next(&self) -> i64 {
        let now = self.pushed();
        let step = |last: u64| now.max(last + 1);
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(step(last)));
        as_writetime(step(last.unwrap_or_else(|last| last)))
    }

    /// A timestamp for the deletion of a whole list: it outranks all writes acknowledged before, by any server whose
    /// clock differs from ours by at most the allowed time. Concurrent writes of this server need not outrank it: they
    /// overlap with the deletion, which is acknowledged once it is waited out.
    pub fn next_for_all(&self) -> i64 {
        self.next().saturating_add_unsigned(self.apart_max)
    }

    /// A timestamp that all later writes of any server outrank, if clocks differ by at most the allowed time.
    pub fn before_all_that_follows(&self) -> i64 {
        as_writetime(self.now().saturating_sub(self.apart_max).saturating_sub(1))
    }

    /// A timestamp that lies this long ago by any server's clock, if clocks differ by at most the allowed time.
    pub fn settled(&self, after: Duration) -> i64 {
        self.settled_at(as_writetime(self.now()), after)
    }

    /// The same by another clock, which shows this.
    pub fn settled_at(&self, now: i64, after: Duration) -> i64 {
        let now = u64::try_from(now).unwrap_or(0);
        let after = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        as_writetime(now.saturating_sub(after).saturating_sub(self.apart_max).saturating_sub(1))
    }

    /// How long it takes until [`Self::before_all_that_follows`] is past all writes acknowledged by now.
    pub fn until_settled(&self) -> Duration {
        if self.apart_max == 0 { Duration::ZERO } else { Duration::from_micros(2 * self.apart_max + 2) }
    }

    /// How long an acknowledgement of a deletion with this timestamp has to wait, so that all later writes of any
    /// server outrank it: until our clock is past it by the time that another clock may be behind. It never waits for
    /// clocks that are further apart than allowed.
    pub fn to_wait_out(&self, timestamp: i64) -> Duration {
        if self.apart_max == 0 {
            return Duration::ZERO;
        }
        let settled = u64::try_from(timestamp).unwrap_or(0).saturating_add(self.apart_max).saturating_add(1);
        Duration::from_micros(settled.saturating_sub(self.now()).min(2 * self.apart_max + 1))
    }

    /// Takes note of a write timestamp that was found in the database: later readings are larger,
    /// unless it lies more than five seconds ahead of the wall clock.
    ///
    /// Another server's clock is blamed for what lies beyond anything that our own clock has shown: what
    /// does not may be our own, from before the clock was set back.
    pub fn observe(&self, writetime: i64) {
        let (pushed, writetime) = (self.pushed(), u64::try_from(writetime).unwrap_or(0));
        self.skew.saw(writetime.saturating_sub(self.latest_wall.load(Ordering::Relaxed)));
        self.seen.fetch_max(writetime, Ordering::Relaxed);
        self.last.fetch_max(writetime.min(pushed + AHEAD_MICROS_MAX), Ordering::Relaxed);
    }

    /// Whether a write with this timestamp may be hidden by the deletion of a write that was seen.
    pub fn is_outranked(&self, writetime: i64) -> bool {
        self.seen.load(Ordering::Relaxed) >= u64::try_from(writetime).unwrap_or(0)
    }

    /// Timestamps for a row that a tombstone hides, whose time no query returns: ascending, to be tried until one
    /// outranks it. The distance from the present doubles, so that a row gets little further ahead than it must; the
    /// largest timestamp that was seen is among them, since a deletion has the timestamp of its item.
    pub fn outranking(&self) -> Vec<i64> {
        let next = u64::try_from(self.next()).unwrap_or(0);
        let doubled = std::iter::successors(Some(AHEAD_MICROS_MAX), |ahead| ahead.checked_mul(2));
        let ahead = doubled.take_while(|ahead| *ahead < TOMBSTONE_AHEAD_MICROS_MAX).map(|ahead| next + ahead);
        let seen = self.seen.load(Ordering::Relaxed).saturating_add(1);
        let mut all: Vec<_> = [next, seen.max(next)].into_iter().chain(ahead).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(as_writetime).collect()
    }

    /// How far the clock is behind its own latest reading: it was set back.
    pub fn set_back_by(&self) -> Duration {
        let now = self.now();
        Duration::from_micros(self.latest_wall.load(Ordering::Relaxed).saturating_sub(now))
    }
}

/// Timestamps of the domain end in 2286, far below the largest that a 64-bit signed number holds.
fn as_writetime(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ManualClock;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1_000).unwrap()
    }

    fn clock(micros: u64) -> (Arc<ManualClock>, WriteClock) {
        let wall = Arc::new(ManualClock::at(at(micros)));
        let skew = Arc::new(SkewGauge::default());
        (Arc::clone(&wall), WriteClock::new(wall, skew, Duration::from_micros(10)))
    }

    #[test]
    fn clock_readings_only_grow() {
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
    fn a_new_timestamp_exceeds_seen_ones_up_to_five_seconds_ahead() {
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
    fn a_slow_clock_follows_the_nodes_up_to_five_minutes() {
        let (wall, clock) = clock(1_000_000);
        let margin = Duration::from_secs(3);
        for (ahead, next) in [(-9, 1_000_000), (3_000_000, 1_000_001), (23_000_000, 21_000_000)] {
            clock.nodes_are_ahead_by(ahead, margin);
            assert_eq!(clock.next(), next, "{ahead}");
        }
        // Observed writes push it too, and settled timestamps follow the wall clock.
        clock.observe(25_000_000);
        assert_eq!((clock.next(), clock.settled(Duration::ZERO)), (25_000_001, 999_989));
        clock.nodes_are_ahead_by(i64::MAX, margin);
        assert_eq!(clock.next(), 301_000_000);
        // A clock that was corrected leads itself again.
        clock.nodes_are_ahead_by(0, margin);
        wall.set(at(400_000_000));
        assert_eq!(clock.next(), 400_000_000);
    }

    #[test]
    fn a_hidden_row_is_tried_with_ever_later_timestamps() {
        let (_, clock) = clock(1_000_000);
        let three_days = 3 * 86_400 * 1_000_000;
        let unknown = clock.outranking();
        assert_eq!(unknown[..4], [1_000_000, 6_000_000, 11_000_000, 21_000_000]);
        let last = *unknown.last().unwrap();
        assert!((three_days / 2..=three_days).contains(&(last - 1_000_000)), "{last}");
        assert!(!clock.is_outranked(1_000_000));
        // A timestamp that was seen is tried in its place, also beyond all that are guessed.
        clock.observe(60_000_000);
        assert!(clock.is_outranked(60_000_000) && !clock.is_outranked(60_000_001));
        let seen = clock.outranking();
        assert!(seen.contains(&60_000_001) && seen.is_sorted(), "{seen:?}");
        clock.observe(2 * three_days);
        assert_eq!(clock.outranking().last(), Some(&(2 * three_days + 1)));
        clock.observe(i64::MAX);
        assert_eq!(clock.outranking().last(), Some(&i64::MAX), "nothing overflows");
    }

    #[test]
    fn a_local_step_back_is_not_attributed_to_another_clock() {
        let (wall, clock) = clock(60_000_000);
        let own = clock.next();
        wall.set(at(20_000_000));
        clock.observe(own);
        assert_eq!((clock.skew.ahead(), clock.set_back_by()), (Duration::ZERO, Duration::from_secs(40)));
        clock.observe(61_000_000);
        assert_eq!(clock.skew.ahead(), Duration::from_secs(1), "our clock never showed that");
        wall.set(at(70_000_000));
        assert_eq!(clock.set_back_by(), Duration::ZERO);
    }

    #[test]
    fn a_deletion_waits_until_no_clock_can_be_behind_it() {
        let (wall, clock) = clock(1_000);
        let removed = clock.next();
        assert_eq!(clock.to_wait_out(removed), Duration::from_micros(11));
        wall.set(at(1_006));
        assert_eq!(clock.to_wait_out(removed), Duration::from_micros(5));
        wall.set(at(1_011));
        assert_eq!(clock.to_wait_out(removed), Duration::ZERO);
        assert_eq!(clock.before_all_that_follows(), 1_000, "another clock may show 1,001 yet");
        assert_eq!(clock.until_settled(), Duration::from_micros(22), "ours may be behind that other one");
        let settled = [clock.settled(Duration::from_micros(300)), clock.settled_at(5_000, Duration::from_micros(300))];
        assert_eq!(settled, [700, 4_689]);
        // For a list: 10 ahead of our clock, and another 10 for clocks that are behind it.
        let all = clock.next_for_all();
        assert_eq!((all, clock.next()), (1_021, 1_012), "writes in between do not follow it");
        assert_eq!(clock.to_wait_out(all), Duration::from_micros(21));
        assert_eq!(clock.to_wait_out(9_000_000), Duration::from_micros(21), "no clock may be so far ahead");
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
