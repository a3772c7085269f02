//! How far the clocks of other servers are ahead of ours, judged by the write timestamps that we
//! find in the database.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An observation counts for one to two windows.
const WINDOW: Duration = Duration::from_secs(60);

/// The largest distance by which a write timestamp was ahead of our clock when it was found,
/// lately.
#[derive(Debug, Default)]
pub struct SkewGauge(Mutex<Option<Windows>>);

#[derive(Debug, Clone, Copy)]
struct Windows {
    began: Instant,
    current: u64,
    previous: u64,
}

impl SkewGauge {
    /// Notes that a write timestamp was `micros` ahead of our clock.
    pub fn saw(&self, micros: u64) {
        if micros > 0 {
            self.with(Instant::now(), |windows| windows.current = windows.current.max(micros));
        }
    }

    /// The largest distance of the last one to two minutes.
    pub fn ahead(&self) -> Duration {
        Duration::from_micros(self.with(Instant::now(), |windows| windows.current.max(windows.previous)))
    }

    fn with<T>(&self, now: Instant, on: impl FnOnce(&mut Windows) -> T) -> T {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let windows = guard.get_or_insert(Windows { began: now, current: 0, previous: 0 });
        let age = now.saturating_duration_since(windows.began);
        if age >= WINDOW {
            let previous = if age < 2 * WINDOW { windows.current } else { 0 };
            *windows = Windows { began: now, current: 0, previous };
        }
        on(windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_recent_skew_counts() {
        let gauge = SkewGauge::default();
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let ahead = |secs| gauge.with(at(secs), |windows| windows.current.max(windows.previous));
        gauge.with(at(0), |windows| windows.current = 7);
        assert_eq!(ahead(59), 7);
        gauge.with(at(61), |windows| windows.current = 3);
        assert_eq!(ahead(62), 7);
        assert_eq!(ahead(122), 3);
        assert_eq!(ahead(400), 0);
    }

    #[test]
    fn no_reading_means_no_skew() {
        let gauge = SkewGauge::default();
        gauge.saw(0);
        assert_eq!(gauge.ahead(), Duration::ZERO);
        gauge.saw(2_000);
        assert_eq!(gauge.ahead(), Duration::from_millis(2));
    }
}
