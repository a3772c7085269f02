//! Lets threads that work in the background give way to those that callers wait for.
//!
//! A write passes from thread to thread. Where cores are few, and it waits each time until a background thread has had
//! its time slice of some milliseconds, so does all that comes behind it.

use std::thread;
use std::time::{Duration, Instant};

use prometheus::IntCounter;

/// How long a background thread keeps a core: about as long as what it holds up takes by itself.
const TURN: Duration = Duration::from_micros(100);
/// The clock is read once in so many calls.
const CALLS: u32 = 8;
/// If it takes so long to get the core back, somebody has waited for it.
const WAITED_FOR: Duration = Duration::from_micros(10);
/// What is left to others then, beside what they took at once: those who wait for another core may come to this one.
const PAUSE: Duration = Duration::from_micros(200);
/// How many times as long as it works it is held up at most, so that it comes to its end on a machine that is busy all
/// the time: there it would have about as much without giving way.
const HELD_UP_MAX: u32 = 4;
/// What may be saved of that for later.
const SAVED_MAX: Duration = Duration::from_millis(10);

/// Counts the turns of a background thread.
#[derive(Debug)]
pub struct GiveWay {
    began: Instant,
    calls: u32,
    /// How long it may be held up, and how long it was held up beyond that.
    saved: Duration,
    owed: Duration,
    /// Times that the core was offered.
    gave_way: IntCounter,
}

impl GiveWay {
    pub fn new(gave_way: IntCounter) -> Self {
        Self { began: Instant::now(), calls: 0, saved: Duration::ZERO, owed: Duration::ZERO, gave_way }
    }

    /// To be called after each little piece of work. At the end of a turn, unless there is a hurry, gives the core to
    /// whoever waits for it (sched_yield(2)), and if somebody did, takes it up again only after a pause.
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

    /// Counts time that it has worked, and that it was held up.
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
    fn a_turn_ends_after_its_time_and_not_with_each_piece_of_work() {
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

    /// Where each turn costs a time slice of somebody else's.
    #[test]
    fn it_is_held_up_no_more_than_so_many_times_as_long_as_it_works() {
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
    fn a_long_time_without_neighbours_is_not_made_up_for() {
        let mut give_way = give_way();
        give_way.account(Duration::from_secs(600), Duration::ZERO);
        give_way.account(Duration::ZERO, 2 * SAVED_MAX);
        assert_eq!(give_way.owed, SAVED_MAX);
    }
}
