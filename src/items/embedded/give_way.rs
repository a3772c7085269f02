//! Lets threads that work in the background give way to those that callers wait for.
//!
//! A write passes several threads. Where cores are few, and each of these waits until a background thread has had its
//! time slice of some milliseconds, a write waits for a dozen of those, and what comes behind it waits too.

use std::thread;
use std::time::{Duration, Instant};

/// How long a background thread keeps a core: about as long as what it holds up takes by itself.
const TURN: Duration = Duration::from_micros(100);
/// The clock is read once in so many calls.
const CALLS: u32 = 8;
/// If it takes so long to get the core back, somebody has waited for it.
const WAITED_FOR: Duration = Duration::from_micros(10);
/// What is left to others then, beside what they took at once: those who wait for another core may come to this one.
const PAUSE: Duration = Duration::from_micros(200);

/// Counts the turns of a background thread.
#[derive(Debug)]
pub struct GiveWay {
    began: Instant,
    calls: u32,
}

impl GiveWay {
    pub fn new() -> Self {
        Self { began: Instant::now(), calls: 0 }
    }

    /// To be called after each little piece of work. At the end of a turn, unless there is a hurry, gives the core to
    /// whoever waits for it (sched_yield(2)), and if somebody did, takes it up again only after a pause.
    pub fn worked(&mut self, hurry: impl Fn() -> bool) {
        self.calls += 1;
        if self.calls < CALLS {
            return;
        }
        self.calls = 0;
        let now = Instant::now();
        if now.duration_since(self.began) < TURN {
            return;
        }
        if !hurry() {
            thread::yield_now();
            if now.elapsed() >= WAITED_FOR {
                thread::sleep(PAUSE);
            }
        }
        self.began = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_turn_ends_after_its_time_and_not_with_each_piece_of_work() {
        let (asked, mut calls) = (Cell::new(0), 0_u64);
        let mut give_way = GiveWay::new();
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
}
