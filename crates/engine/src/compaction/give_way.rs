//! Makes background threads yield to threads that callers wait for.
//!
//! A write passes from thread to thread. On few cores it may wait each time until a background thread has used its time
//! slice of some milliseconds. Then all later writes wait too.

use std::thread;
use std::time::{Duration, Instant};

use prometheus::IntCounter;

/// How long a background thread occupies a core: about as long as the work that it delays.
const TURN: Duration = Duration::from_micros(100);
/// The clock is read once in this many calls.
const CALLS: u32 = 8;
/// If regaining the core takes this long, another thread was waiting for it.
const WAITED_FOR: Duration = Duration::from_micros(10);
/// The pause after that, in addition to the time that the other threads used at once. Threads that wait for another
/// core may then use this one.
const PAUSE: Duration = Duration::from_micros(200);
/// The largest ratio of delay to work, so that it finishes on a permanently busy machine. Without yielding it would get
/// about the same share there.
const HELD_UP_MAX: u32 = 4;
/// The largest unused delay that it saves for later.
const SAVED_MAX: Duration = Duration::from_millis(10);

/// Measures the turns of a background thread.
#[derive(Debug)]
pub struct GiveWay {
    began: Instant,
    calls: u32,
    /// The remaining delay that it may have, and the excess of past delays.
    saved: Duration,
    owed: Duration,
    /// The number of times that it offered the core.
    gave_way: IntCounter,
}

impl GiveWay {
    pub fn new(gave_way: IntCounter) -> Self {
        Self { began: Instant::now(), calls: 0, saved: Duration::ZERO, owed: Duration::ZERO, gave_way }
    }

    /// Call this after each small piece of work. At the end of a turn without hurry, it offers the core to waiting
    /// threads (sched_yield(2)). If one used it, it pauses before it continues.
    #[expect(clippy::disallowed_methods, reason = "only threads that wait for a core may yield")]
    pub fn worked(&mut self, hurry: impl Fn() -> bool) {
        self.calls += 1;
        if self.calls < CALLS {
            return;
        }
        self.calls = 0;
        let now = Instant::now();
        let worked = now.duration_since(self.began);
        if worked < TURN {
            return;
        }
        self.account(worked, Duration::ZERO);
        if self.owed.is_zero() && !hurry() {
            self.gave_way.inc();
            thread::yield_now();
            if now.elapsed() >= WAITED_FOR {
                thread::sleep(PAUSE);
            }
            self.account(Duration::ZERO, now.elapsed());
        }
        self.began = Instant::now();
    }

    /// Counts the time of work and of delay.
    fn account(&mut self, worked: Duration, held_up: Duration) {
        let saved = self.saved + HELD_UP_MAX * worked;
        let owed = self.owed + held_up;
        (self.saved, self.owed) = (saved.saturating_sub(owed).min(SAVED_MAX), owed.saturating_sub(saved));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn give_way() -> GiveWay {
        GiveWay::new(IntCounter::new("gave_way", "Times.").unwrap())
    }

    #[test]
    fn a_turn_ends_after_its_time_not_after_each_step() {
        let (asked, mut calls) = (Cell::new(0), 0_u64);
        let mut give_way = give_way();
        let began = Instant::now();
        while asked.get() < 10 {
            calls += 1;
            give_way.worked(|| {
                asked.set(asked.get() + 1);
                true
            });
        }
        assert!(began.elapsed() >= 10 * TURN);
        assert!(calls >= 10 * u64::from(CALLS));
    }

    /// If each turn costs a time slice of another thread.
    #[test]
    fn pauses_are_bounded_by_a_multiple_of_the_work() {
        let ms = Duration::from_millis;
        let mut give_way = give_way();
        let (mut worked, mut held_up) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..10_000 {
            give_way.account(TURN, Duration::ZERO);
            worked += TURN;
            if give_way.owed.is_zero() {
                give_way.account(Duration::ZERO, ms(4));
                held_up += ms(4);
            }
        }
        assert!(held_up > 3 * worked && held_up <= HELD_UP_MAX * worked + ms(4), "{held_up:?} of {worked:?}");
    }

    #[test]
    fn idle_time_is_not_credited() {
        let mut give_way = give_way();
        give_way.account(Duration::from_secs(600), Duration::ZERO);
        give_way.account(Duration::ZERO, 2 * SAVED_MAX);
        assert_eq!(give_way.owed, SAVED_MAX);
    }
}
