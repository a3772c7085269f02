//! The clock that determines when flushes and compactions drop expired items. A step of the wall clock moves it only
//! after the step has lasted for an hour.
//!
//! Otherwise a wall clock that is hours ahead for a moment would make compactions drop items or entries whose
//! counterparts readers still see later. So this clock follows the wall clock backwards at once, and forwards only as
//! fast as time passes. The manifest stores its time, so a start does not move it either.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use liststore_contract::domain::{Clock, Timestamp};

/// How long a step ahead must last before this clock follows it.
const HELD_FOR: i128 = nanos(Duration::from_secs(3_600));
/// A smaller step is followed at once.
const STEP_MIN: i128 = nanos(Duration::from_secs(1));
/// The manifest is replaced only to store the time once the stored time is this old.
const STORED_AGE_MAX: u64 = nanos(Duration::from_secs(3_600)) as u64;

const fn nanos(duration: Duration) -> i128 {
    duration.as_nanos().cast_signed()
}

pub struct ExpiryClock {
    clock: Arc<dyn Clock>,
    offsets: Mutex<Offsets>,
}

/// How far the wall clock is ahead of the uptime, in nanoseconds.
struct Offsets {
    followed: i128,
    ahead: Option<Ahead>,
}

/// A step ahead that this clock does not follow yet.
struct Ahead {
    offset: i128,
    /// The uptime at which it was first seen.
    since: i128,
}

impl Offsets {
    fn see(&mut self, offset: i128, uptime: i128) {
        if offset <= self.followed + STEP_MIN {
            (self.followed, self.ahead) = (offset, None);
            return;
        }
        match &self.ahead {
            Some(ahead) if (offset - ahead.offset).abs() <= STEP_MIN => {
                if uptime - ahead.since >= HELD_FOR {
                    (self.followed, self.ahead) = (offset, None);
                }
            }
            _ => self.ahead = Some(Ahead { offset, since: uptime }),
        }
    }
}

impl ExpiryClock {
    /// `stored` is the time in the manifest, in nanoseconds since the Unix epoch.
    pub fn new(clock: Arc<dyn Clock>, stored: Option<u64>) -> Self {
        let (wall, uptime) = read(&*clock);
        let begin = stored.map_or(wall, |stored| wall.min(i128::from(stored)));
        Self { clock, offsets: Mutex::new(Offsets { followed: begin - uptime, ahead: None }) }
    }

    pub fn now(&self) -> Timestamp {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall, uptime) = read(&*self.clock);
        offsets.see(wall - uptime, uptime);
        Timestamp::saturating_from_nanos(u128::try_from(offsets.followed + uptime).unwrap_or(0))
    }

    /// Whether a stored time is so old that a start would set the clock far back.
    pub fn is_far_ahead_of(&self, stored: Option<u64>) -> bool {
        stored.is_none_or(|stored| self.now().as_nanos().saturating_sub(stored) >= STORED_AGE_MAX)
    }
}

/// The wall clock and the uptime, in nanoseconds.
fn read(clock: &dyn Clock) -> (i128, i128) {
    (i128::from(clock.now().as_nanos()), nanos(clock.uptime()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use liststore_contract::domain::ManualClock;

    const MINUTE: u64 = 60_000_000_000;
    const HOUR: u64 = 60 * MINUTE;
    const START: u64 = 1_000 * HOUR;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    #[test]
    fn a_step_ahead_counts_after_it_has_lasted_an_hour() {
        let wall = Arc::new(ManualClock::at(at(START)));
        let clock = ExpiryClock::new(wall.clone(), None);
        assert_eq!(clock.now(), at(START));
        wall.step(at(START + 10 * HOUR));
        assert_eq!(clock.now(), at(START));
        wall.set(at(START + 10 * HOUR + 59 * MINUTE));
        assert_eq!(clock.now(), at(START + 59 * MINUTE));
        wall.step(at(START + 59 * MINUTE));
        assert_eq!(clock.now(), at(START + 59 * MINUTE));
        // The uptime of another process starts at zero.
        wall.step(at(START + 5 * HOUR));
        assert_eq!(clock.now(), at(START + 59 * MINUTE));
        wall.set(at(START + 5 * HOUR + 30 * MINUTE));
        assert_eq!(clock.now(), at(START + 89 * MINUTE));
        wall.set(at(START + 6 * HOUR));
        assert_eq!(clock.now(), at(START + 6 * HOUR));
    }

    #[test]
    fn a_step_back_and_elapsed_time_count_at_once() {
        let wall = Arc::new(ManualClock::at(at(START)));
        let clock = ExpiryClock::new(wall.clone(), None);
        wall.set(at(START + 100 * HOUR));
        assert_eq!(clock.now(), at(START + 100 * HOUR));
        wall.step(at(START));
        assert_eq!(clock.now(), at(START));
        wall.step(at(START + MINUTE / 60));
        assert_eq!(clock.now(), at(START + MINUTE / 60));
    }

    #[test]
    fn a_start_continues_from_the_stored_time() {
        let wall = Arc::new(ManualClock::at(at(START + 20 * HOUR)));
        let clock = ExpiryClock::new(wall.clone(), Some(START));
        assert_eq!(clock.now(), at(START));
        assert!(!clock.is_far_ahead_of(Some(START)) && clock.is_far_ahead_of(Some(START - HOUR)));
        assert!(clock.is_far_ahead_of(None));
        wall.set(at(START + 21 * HOUR));
        assert_eq!(clock.now(), at(START + 21 * HOUR));
        assert_eq!(ExpiryClock::new(wall, Some(START + 90 * HOUR)).now(), at(START + 21 * HOUR));
    }
}
