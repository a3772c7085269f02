//! The due times of requests.
//!
//! Open loop: requests are due at fixed moments, regardless of the server, and their latency counts from those
//! moments. A generator that waits for an answer before the next request would omit the waits of all requests that it
//! did not send in that time ("coordinated omission"; Gil Tene, "How NOT to Measure Latency"). Closed loop: the next
//! request is due when its connection is free.
//!
//! All moments are durations since the common start of all threads. Pure arithmetic: this file must
//! never read a clock.

use std::time::Duration;

use super::operation::Kind;

/// The share of one thread in an open-loop run: for each kind of operation a steady beat.
#[derive(Debug)]
pub struct Schedule {
    beats: Vec<Beat>,
    /// No request is due from here on.
    end: Duration,
}

#[derive(Debug)]
struct Beat {
    kind: Kind,
    period_secs: f64,
    first_secs: f64,
    /// The number of taken requests of this beat.
    taken: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This request is due, since then.
    Due { kind: Kind, at: Duration },
    /// Nothing is due before this moment.
    NotBefore(Duration),
    /// No request is left.
    Done,
}

impl Beat {
    fn at(&self, number: u64) -> Duration {
        Duration::from_secs_f64(self.first_secs + number as f64 * self.period_secs)
    }
}

impl Schedule {
    /// Thread `thread` of `threads` takes every `threads`-th request of each rate (in requests a
    /// second, above 0). The kinds are shifted against each other, so that they do not all come at
    /// once.
    pub fn new(rates: &[(Kind, f64)], thread: usize, threads: usize, end: Duration) -> Self {
        let beats = rates.iter().enumerate().map(|(place, (kind, rate))| {
            let period_all = 1.0 / rate;
            let shift = place as f64 / rates.len() as f64;
            Beat {
                kind: *kind,
                period_secs: period_all * threads as f64,
                first_secs: period_all * (thread as f64 + shift),
                taken: 0,
            }
        });
        Self { beats: beats.collect(), end }
    }

    /// Takes the request that has been due longest, if one is due at `now`.
    pub fn take(&mut self, now: Duration) -> Next {
        let Some(beat) = self.beats.iter_mut().min_by_key(|beat| beat.at(beat.taken)) else {
            return Next::Done;
        };
        let at = beat.at(beat.taken);
        if at >= self.end {
            Next::Done
        } else if at > now {
            Next::NotBefore(at)
        } else {
            beat.taken += 1;
            Next::Due { kind: beat.kind, at }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn all_due(schedule: &mut Schedule, now: Duration) -> Vec<(Kind, Duration)> {
        std::iter::from_fn(|| match schedule.take(now) {
            Next::Due { kind, at } => Some((kind, at)),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn threads_share_a_rate_evenly() {
        let rates = [(Kind::Get, 1_000.0), (Kind::Add, 500.0)];
        let mut all: Vec<_> =
            (0..3).flat_map(|thread| all_due(&mut Schedule::new(&rates, thread, 3, SECOND), SECOND)).collect();
        all.sort_by_key(|(_, at)| *at);
        let gets: Vec<_> = all.iter().filter(|(kind, _)| *kind == Kind::Get).map(|(_, at)| *at).collect();
        assert_eq!((gets.len(), all.len()), (1_000, 1_500));
        for pair in gets.windows(2) {
            let gap = pair[1] - pair[0];
            assert!((Duration::from_micros(999)..=Duration::from_micros(1_001)).contains(&gap), "{gap:?}");
        }
    }

    #[test]
    fn a_late_thread_gets_the_missed_moments() {
        // The central property: after a stall of half a second, the 50 requests of that time still exist, each with
        // the moment when it was due.
        let mut schedule = Schedule::new(&[(Kind::Get, 100.0)], 0, 1, SECOND);
        assert_eq!(schedule.take(Duration::ZERO), Next::Due { kind: Kind::Get, at: Duration::ZERO });
        let now = Duration::from_millis(500);
        let missed = all_due(&mut schedule, now);
        let expected: Vec<_> = (1..=50).map(|n| (Kind::Get, Duration::from_millis(n * 10))).collect();
        assert_eq!(missed, expected);
        assert_eq!(schedule.take(now), Next::NotBefore(Duration::from_millis(510)));
    }

    #[test]
    fn nothing_is_due_early_or_after_the_end() {
        let mut schedule = Schedule::new(&[(Kind::Get, 10.0)], 0, 1, SECOND);
        assert_eq!(all_due(&mut schedule, Duration::from_millis(99)).len(), 1);
        assert_eq!(schedule.take(Duration::from_millis(99)), Next::NotBefore(Duration::from_millis(100)));
        assert_eq!(all_due(&mut schedule, Duration::from_secs(60)).len(), 9);
        assert_eq!(schedule.take(Duration::from_secs(60)), Next::Done);
    }
}
