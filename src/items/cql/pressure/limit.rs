//! How many requests the cluster is given at once: a limit that follows its latency. A state machine without clock,
//! locks or tasks; `permits.rs` enforces it.
//!
//! The formula is `Gradient2Limit` of Netflix's concurrency-limits (its class comment, and `WindowedLimit` for the
//! windows; github.com/Netflix/concurrency-limits), with its default values. At the end of each window, with `short`
//! the window's mean latency and `long` the mean of the last 600 windows, weighted exponentially:
//!
//! ```text
//! gradient = max(0.5, min(1, 1.5 * long / short))
//! limit    = 0.8 * limit + 0.2 * (limit * gradient + 4)
//! ```
//!
//! So while the latency is as usual, the limit grows by 0.8 a window up to its bound; where requests queue in the
//! cluster, it shrinks until about four of them do. Means are compared and not the least latency that was ever seen,
//! since requests differ: a get of one item, an add of a thousand. Two things are added to it. A window in which the
//! cluster itself asked for less load, or timed out, counts as one of the smallest gradient. And it never falls below a
//! quarter of its bound: the configured bound is a better guess than the latency of one bad minute.

use std::time::{Duration, Instant};

/// How much slower than usual is still no sign of a queue.
const TOLERANCE: f64 = 1.5;
/// Requests that may queue in the cluster, and by which the limit grows.
const QUEUE: f64 = 4.0;
const SMOOTHING: f64 = 0.2;
/// One window never takes more than this of the limit, before smoothing.
const GRADIENT_MIN: f64 = 0.5;
/// Windows that the usual latency is the mean of, and how many of them are weighted alike at first.
const LONG_WINDOWS: f64 = 600.0;
const WARM_UP_WINDOWS: f64 = 10.0;
/// If the usual latency is more than twice the current one, it comes down by this factor a window: a
/// long overload has raised it, and is over.
const LONG_DECAY: f64 = 0.9;
/// A window takes at least this long, and has at least so many answers.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_ANSWERS_MIN: u32 = 10;
/// The least limit is this part of its bound.
const LEAST_PART: usize = 4;

/// How a request ended, if that depends on the cluster's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was answered after this time.
    After(Duration),
    /// The cluster refused load, or timed out itself.
    Refused,
}

#[derive(Debug)]
pub struct Limit {
    bound: usize,
    estimate: f64,
    /// The usual latency in seconds, and how many windows it is made of.
    long: f64,
    long_windows: f64,
    window: Window,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    answers: u32,
    seconds: f64,
    refused: bool,
    in_flight_max: usize,
}

impl Window {
    fn new(began: Instant) -> Self {
        Self { began, answers: 0, seconds: 0.0, refused: false, in_flight_max: 0 }
    }
}

impl Limit {
    /// A limit of at most `bound`, which is where it begins.
    pub fn new(bound: usize, now: Instant) -> Self {
        let bound = bound.max(1);
        Self { bound, estimate: bound as f64, long: 0.0, long_windows: 0.0, window: Window::new(now) }
    }

    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Begins at another bound, as at first: the latency under it is unknown.
    pub fn set_bound(&mut self, bound: usize) {
        self.bound = bound.max(1);
        self.estimate = self.bound as f64;
    }

    /// From 1 to the bound.
    pub fn now(&self) -> usize {
        (self.estimate as usize).clamp(1, self.bound)
    }

    /// Takes note of a request that ended `at` this moment, with so many in flight, itself included.
    pub fn ended(&mut self, at: Instant, ended: Ended, in_flight: usize) {
        let window = &mut self.window;
        window.in_flight_max = window.in_flight_max.max(in_flight);
        match ended {
            Ended::After(latency) => {
                window.answers += 1;
                window.seconds += latency.as_secs_f64();
            }
            Ended::Refused => window.refused = true,
        }
        let long_enough = at.saturating_duration_since(window.began) >= WINDOW;
        if long_enough && (window.answers >= WINDOW_ANSWERS_MIN || window.refused) {
            let window = std::mem::replace(&mut self.window, Window::new(at));
            self.close(&window);
        }
    }

    fn close(&mut self, window: &Window) {
        let gradient = if window.answers > 0 {
            let short = (window.seconds / f64::from(window.answers)).max(1e-6);
            let long = self.usual(short);
            (TOLERANCE * long / short).clamp(GRADIENT_MIN, 1.0)
        } else {
            1.0
        };
        let gradient = if window.refused { GRADIENT_MIN } else { gradient };
        // A limit that was not used up is neither too small nor too large.
        if (window.in_flight_max as f64) < self.estimate / 2.0 && !window.refused {
            return;
        }
        let wanted = self.estimate * gradient + QUEUE;
        let least = (self.bound / LEAST_PART).max(1) as f64;
        let smoothed = self.estimate * (1.0 - SMOOTHING) + wanted * SMOOTHING;
        self.estimate = smoothed.clamp(least, self.bound as f64);
    }

    /// The usual latency, this window's included.
    fn usual(&mut self, short: f64) -> f64 {
        self.long_windows += 1.0;
        let weight =
            if self.long_windows <= WARM_UP_WINDOWS { 1.0 / self.long_windows } else { 2.0 / (LONG_WINDOWS + 1.0) };
        self.long += (short - self.long) * weight;
        let long = self.long;
        if long > 2.0 * short {
            self.long *= LONG_DECAY;
        }
        long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that works at `servers` requests at once, each for `service`, and is always given as many as the limit
    /// lets through: requests beyond its servers queue.
    struct Cluster {
        limit: Limit,
        now: Instant,
    }

    impl Cluster {
        fn new(bound: usize) -> Self {
            let now = Instant::now();
            Self { limit: Limit::new(bound, now), now }
        }

        /// Runs for so many windows with at most `callers` at once. Returns the limit after them.
        fn run(&mut self, windows: usize, servers: usize, service: Duration, callers: usize) -> usize {
            for _ in 0..windows {
                let in_flight = self.limit.now().min(callers);
                let latency = service.mul_f64((in_flight as f64 / servers as f64).max(1.0));
                for _ in 0..WINDOW_ANSWERS_MIN {
                    self.now += WINDOW / WINDOW_ANSWERS_MIN;
                    self.limit.ended(self.now, Ended::After(latency), in_flight);
                }
                // The next window begins when the last one was closed.
                self.now += Duration::from_millis(1);
            }
            self.limit.now()
        }
    }

    const SERVICE: Duration = Duration::from_millis(2);
    const CROWD: usize = 10_000;

    #[test]
    fn a_cluster_that_keeps_up_gets_all_permits() {
        let mut cluster = Cluster::new(64);
        assert_eq!(cluster.limit.now(), 64);
        assert_eq!(cluster.run(100, 1_000, SERVICE, CROWD), 64);
    }

    #[test]
    fn a_queue_in_the_cluster_is_reduced_to_few_requests() {
        let mut cluster = Cluster::new(64);
        // It is used to few callers, who never queue.
        assert_eq!(cluster.run(60, 32, SERVICE, 8), 64);
        // Then its nodes lose half of their work to something else, and callers crowd in.
        let limit = cluster.run(40, 16, SERVICE, CROWD);
        assert!((16..=36).contains(&limit), "{limit}");
        // And it never goes below a quarter of the bound, however slow the cluster is.
        assert_eq!(cluster.run(100, 1, SERVICE, CROWD), 16);
    }

    #[test]
    fn a_recovered_cluster_gets_all_permits_within_two_minutes() {
        let mut cluster = Cluster::new(64);
        cluster.run(60, 1_000, SERVICE, 8);
        assert_eq!(cluster.run(100, 1, SERVICE, CROWD), 16);
        assert_eq!(cluster.run(120, 1_000, SERVICE, CROWD), 64);
    }

    #[test]
    fn a_cluster_that_refuses_requests_gets_fewer_at_any_latency() {
        let mut cluster = Cluster::new(100);
        for window in 1..=60 {
            let at = cluster.now + WINDOW * window;
            cluster.limit.ended(at, Ended::Refused, 1);
        }
        assert_eq!(cluster.limit.now(), 25);
    }

    #[test]
    fn an_unused_limit_stays_unchanged() {
        let mut cluster = Cluster::new(64);
        cluster.run(60, 1_000, SERVICE, 8);
        assert_eq!(cluster.run(60, 1_000, 20 * SERVICE, 8), 64, "eight at once say nothing of sixty-four");
    }

    #[test]
    fn a_few_answers_do_not_change_the_limit() {
        let mut cluster = Cluster::new(64);
        cluster.run(20, 1_000, SERVICE, CROWD);
        for _ in 1..WINDOW_ANSWERS_MIN {
            cluster.now += Duration::from_secs(5);
            cluster.limit.ended(cluster.now, Ended::After(Duration::from_secs(5)), 64);
        }
        assert_eq!(cluster.limit.now(), 64);
        cluster.now += Duration::from_secs(5);
        cluster.limit.ended(cluster.now, Ended::After(Duration::from_secs(5)), 64);
        assert!(cluster.limit.now() < 64);
    }

    #[test]
    fn the_limit_stays_within_its_bounds() {
        for bound in [0, 1, 2, 3, 4, 7, 1_000_000] {
            let mut cluster = Cluster::new(bound);
            for (servers, callers) in [(1, CROWD), (CROWD, CROWD), (1, 1), (3, CROWD)] {
                let limit = cluster.run(50, servers, SERVICE, callers);
                assert!((bound / LEAST_PART).max(1) <= limit && limit <= bound.max(1), "{limit} of {bound}");
            }
        }
    }
}
