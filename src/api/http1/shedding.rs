//! Decides which requests are refused because they have waited too long.
//!
//! Requests wait in their sockets while a worker serves others. A periodic task detects that: its own delay equals
//! theirs. A worker is behind if its task is late by more than `wait_max` twice in a row, and many requests were served
//! in that time. Then it has more work than it can do. A few late requests do not indicate load. In that case the
//! machine is busy with other work, and refusing would not help. A worker stays behind until its task is late by at
//! most half of `wait_max`.
//!
//! While a worker is behind, it asks the kernel for the age of each complete request that may be refused. A request
//! older than `wait_max` is refused at once. At other times it asks for no age.
//!
//! Refusing must leave time for work. Reading and refusing a request costs more than half of a get from memory, so
//! refusing all surplus requests would use the whole worker. Therefore the worker measures the time of refusals, and
//! spends at most one part of [`TIME_SHARE`] on them. Further old requests are served late.
//!
//! Requests of strangers, and requests for other resources than lists and bags, do not count. Otherwise strangers could
//! cause the refusal of all other requests.
//!
//! The task sleeps while the worker has nothing to do.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

/// The interval of the task.
const INTERVAL: Duration = Duration::from_millis(20);
/// This many counted requests, served while one waited, are a queue.
const QUEUE_REQUESTS: u32 = 32;
/// Answering with refusals gets one part of this many of a worker's time. Reading the refused requests takes half as
/// much again, so all of it is about a tenth.
const TIME_SHARE: u32 = 16;
/// The longest time for refusals that the worker saves up, because refusals come in bursts.
const SAVED: Duration = Duration::from_millis(10);
/// A refusal that took longer waited for something else.
const REFUSAL_MAX: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Shedding {
    wait_max: Duration,
    /// Requests since the task's last run.
    requests: Cell<u32>,
    was_late: Cell<bool>,
    /// How late requests were when the worker was last found behind. `None` if it is not behind.
    behind_by: Cell<Option<Duration>>,
    /// No refusal happens earlier, because refusals have used their share of the time until then.
    next_refusal: Cell<Instant>,
    sleeps: Cell<bool>,
    work: Notify,
}

impl Shedding {
    pub fn new(wait_max: Duration) -> Self {
        Self {
            wait_max,
            requests: Cell::new(0),
            was_late: Cell::new(false),
            behind_by: Cell::new(None),
            next_refusal: Cell::new(Instant::now()),
            sleeps: Cell::new(false),
            work: Notify::new(),
        }
    }

    /// Counts a request that may be refused for its age, unless a stranger sent it.
    pub fn count(&self) {
        self.requests.set(self.requests.get().wrapping_add(1));
        if self.sleeps.get() {
            self.work.notify_one();
        }
    }

    /// Whether the age of requests must be checked.
    pub fn is_behind(&self) -> bool {
        self.behind_by.get().is_some()
    }

    /// The current time, if a request that has waited this long must be refused. A request of unknown age counts as
    /// late as the worker's other requests.
    pub fn refuses(&self, waited: Option<Duration>) -> Option<Instant> {
        let waited = waited.or(self.behind_by.get())?;
        let now = Instant::now();
        (waited > self.wait_max && self.next_refusal.get() <= now).then_some(now)
    }

    /// Notes the time that a refusal took, from `since` until now.
    pub fn refused(&self, since: Instant) {
        let now = Instant::now();
        let saved_since = now.checked_sub(SAVED).unwrap_or(now);
        let took = now.saturating_duration_since(since).min(REFUSAL_MAX);
        self.next_refusal.set(self.next_refusal.get().max(saved_since) + took * TIME_SHARE);
    }

    /// Checks repeatedly how late requests are, while the future is awaited.
    pub async fn watch(self: Rc<Self>) {
        loop {
            let due = Instant::now() + INTERVAL;
            sleep_until(due).await;
            let requests = self.requests.take();
            self.note(due.elapsed(), requests);
            if requests == 0 {
                self.sleeps.set(true);
                self.work.notified().await;
                self.sleeps.set(false);
            }
        }
    }

    /// `late` is how long requests waited, and `requests` the number served since the last call.
    pub(super) fn note(&self, late: Duration, requests: u32) {
        let is_queue = requests >= QUEUE_REQUESTS;
        let is_late = is_queue && late > self.wait_max;
        let is_behind =
            if self.is_behind() { is_queue && late > self.wait_max / 2 } else { is_late && self.was_late.get() };
        self.behind_by.set(is_behind.then_some(late));
        self.was_late.set(is_late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(50);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn is_behind_after(shedding: &Shedding, checks: &[(u64, u32)]) -> bool {
        checks.iter().for_each(|(late_ms, requests)| shedding.note(ms(*late_ms), *requests));
        shedding.is_behind()
    }

    #[test]
    fn a_worker_is_behind_after_two_late_reads_until_it_catches_up() {
        let shedding = Shedding::new(MAX);
        assert!(!is_behind_after(&shedding, &[(60, 1_000)]) && is_behind_after(&shedding, &[(60, 1_000)]));
        assert!(is_behind_after(&shedding, &[(30, 1_000), (26, 1_000)]) && !is_behind_after(&shedding, &[(25, 1_000)]));
        // The count starts again.
        assert!(!is_behind_after(&shedding, &[(60, 1_000)]));
    }

    #[test]
    fn one_late_read_or_few_requests_are_no_overload() {
        let shedding = Shedding::new(MAX);
        for check in [(900, 1_000), (10, 1_000), (900, 1_000), (900, 5), (900, 1_000)] {
            assert!(!is_behind_after(&shedding, &[check]));
        }
    }

    #[test]
    fn requests_are_refused_by_their_age() {
        let shedding = Shedding::new(MAX);
        assert!(is_behind_after(&shedding, &[(60, 1_000), (60, 1_000)]));
        for (waited, refused) in [(Some(ms(51)), true), (Some(MAX), false), (Some(ms(0)), false), (None, true)] {
            assert_eq!(shedding.refuses(waited).is_some(), refused, "{waited:?}");
        }
        shedding.note(ms(40), 1_000);
        assert!(shedding.refuses(None).is_none() && shedding.refuses(Some(ms(51))).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_take_a_bounded_part_of_the_time() {
        const REFUSAL: Duration = Duration::from_micros(10);
        let shedding = Shedding::new(MAX);
        assert!(is_behind_after(&shedding, &[(60, 1_000), (60, 1_000)]));
        let began = Instant::now();
        let mut refusals = 0;
        while began.elapsed() < Duration::from_secs(1) {
            if let Some(since) = shedding.refuses(Some(ms(60))) {
                tokio::time::advance(REFUSAL).await;
                shedding.refused(since);
                refusals += 1;
            } else {
                tokio::time::advance(REFUSAL).await;
            }
        }
        let most = (Duration::from_secs(1) / TIME_SHARE).div_duration_f64(REFUSAL);
        assert!((0.99 * most..=1.01 * most).contains(&f64::from(refusals)), "{refusals} of {most}");
    }
}
