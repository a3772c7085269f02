//! The amount of work that a job does at once without a set rate: everything while there are no requests, and otherwise
//! a little at a time with pauses, so that callers hardly notice.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::insist::pause;
use crate::actors::ListPool;
use crate::items::BagSwaps;

/// Returns how many requests callers have been answered so far.
pub type Answered = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The interval between checks for callers.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// More answered requests a second than this mean that there are callers. Probes, scrapes and watchers of a job send
/// fewer.
const FEW: f64 = 100.0;
/// How long after the last detected request callers are assumed.
const CALM: Duration = Duration::from_secs(1);
const STEP_OF_PACE: usize = 32;

/// The best step sizes for a store.
#[derive(Debug, Clone, Copy)]
struct Steps {
    /// The work at once without callers, and with callers.
    without_callers: usize,
    with_callers: usize,
    /// With callers, each step is followed by a pause of this many times its duration, up to `pause_max`.
    pause: u32,
    pause_max: Duration,
}

/// Many bags share one write. A step can take long for other reasons than its work.
const TOGETHER: Steps =
    Steps { without_callers: 4_096, with_callers: 64, pause: 3, pause_max: Duration::from_millis(25) };
/// Each bag is separate work of the database, and its callers wait behind it. If a step takes long, callers wait too.
const ONE_BY_ONE: Steps =
    Steps { without_callers: 32, with_callers: 1, pause: 5, pause_max: Duration::from_millis(250) };

pub(super) struct Tempo {
    answered: Answered,
    steps: Steps,
    /// The count at the last check, and its time.
    seen: (u64, Instant),
    /// Until when callers are reckoned with.
    callers_until: Instant,
}

impl Tempo {
    pub fn new(answered: Answered, lists: &ListPool) -> Self {
        let steps = match lists.bag_swaps() {
            BagSwaps::Atomic => TOGETHER,
            BagSwaps::Journaled => ONE_BY_ONE,
        };
        Self::with_steps(answered, steps)
    }

    fn with_steps(answered: Answered, steps: Steps) -> Self {
        let now = Instant::now();
        let seen = (answered(), now);
        // Two checks are necessary to detect callers.
        Self { answered, steps, seen, callers_until: now + CHECK_INTERVAL }
    }

    fn has_callers(&mut self) -> bool {
        let (count, at) = self.seen;
        let passed = at.elapsed();
        if passed >= CHECK_INTERVAL {
            self.seen = ((self.answered)(), Instant::now());
            if self.seen.0.saturating_sub(count) as f64 > FEW * passed.as_secs_f64() {
                self.callers_until = Instant::now() + CALM;
            }
        }
        Instant::now() < self.callers_until
    }

    /// The work to do at once, at a rate per second if one is set.
    pub fn step(&mut self, pace: Option<NonZeroU32>) -> usize {
        match pace {
            Some(pace) => STEP_OF_PACE.min(pace.get() as usize),
            None if self.has_callers() => self.steps.with_callers,
            None => self.steps.without_callers,
        }
    }

    /// Waits after a step of `done`, which started at `began`.
    pub async fn rest(&mut self, done: usize, pace: Option<NonZeroU32>, began: Instant) {
        match pace {
            Some(_) => pause(done, pace.map(NonZeroU32::get), began).await,
            None if self.has_callers() => sleep((self.steps.pause * began.elapsed()).min(self.steps.pause_max)).await,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn tempo(steps: Steps) -> (Tempo, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(7_000));
        let answered = Arc::clone(&count);
        (Tempo::with_steps(Arc::new(move || answered.load(Ordering::Relaxed)), steps), count)
    }

    /// How long a rest is after a step that took so long.
    async fn rest(tempo: &mut Tempo, took: Duration) -> Duration {
        let began = Instant::now();
        tokio::time::advance(took).await;
        let ended = Instant::now();
        tempo.rest(1, None, began).await;
        ended.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_fast_without_callers_and_gradual_next_to_them() {
        for steps in [TOGETHER, ONE_BY_ONE] {
            assert_fast_or_gradual(steps).await;
        }
    }

    async fn assert_fast_or_gradual(steps: Steps) {
        let (mut tempo, count) = tempo(steps);
        assert_eq!(tempo.step(None), steps.with_callers, "it is not known yet");
        // A watcher polls.
        for _ in 0..10 {
            tokio::time::advance(CHECK_INTERVAL).await;
            count.fetch_add(5, Ordering::Relaxed);
            assert_eq!(tempo.step(None), steps.without_callers);
            assert_eq!(rest(&mut tempo, Duration::from_millis(1)).await, Duration::ZERO);
        }
        for _ in 0..10 {
            tokio::time::advance(CHECK_INTERVAL).await;
            count.fetch_add(500, Ordering::Relaxed);
            assert_eq!(tempo.step(None), steps.with_callers);
            assert_eq!(rest(&mut tempo, Duration::from_millis(1)).await, steps.pause * Duration::from_millis(1));
            // The reason of a long step is unknown.
            assert_eq!(rest(&mut tempo, Duration::from_millis(200)).await, steps.pause_max);
        }
        // A caller with bursts counts between two of them.
        tokio::time::advance(CALM / 2).await;
        assert_eq!(tempo.step(None), steps.with_callers);
        tokio::time::advance(CALM).await;
        assert_eq!(tempo.step(None), steps.without_callers);
    }

    #[tokio::test(start_paused = true)]
    async fn a_configured_pace_is_kept_next_to_callers() {
        let (mut tempo, count) = tempo(TOGETHER);
        for (pace, step) in [(1, 1), (20, 20), (1_000, STEP_OF_PACE)] {
            tokio::time::advance(CHECK_INTERVAL).await;
            count.fetch_add(1_000, Ordering::Relaxed);
            let pace = NonZeroU32::new(pace);
            assert_eq!(tempo.step(pace), step);
            let began = Instant::now();
            tempo.rest(10, pace, began).await;
            let expected = 10.0 / f64::from(pace.unwrap().get());
            assert!((began.elapsed().as_secs_f64() - expected).abs() < 0.002, "{pace:?}");
        }
    }
}
