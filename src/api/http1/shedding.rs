//! Which requests are refused since they have waited too long.
//!
//! Requests wait in their sockets while a worker serves others. That they do is seen by a task that comes back again
//! and again: by how much it is late, they were. A worker whose task is late by more than `wait_max` twice in a row,
//! while many were served, is behind: it has more to do than it can. A few late callers say nothing of load; then the
//! machine is busy with other things, and refusing would help nobody. A worker stays behind until its task is late
//! by no more than half of that.
//!
//! While a worker is behind, the kernel is asked how long ago each request that may be refused came whole, and one
//! that is older than `wait_max` is refused at once. At all other times nobody is asked anything.
//!
//! Refusing must leave time for work: to read and to refuse a request costs more than half of what a get from memory
//! does, so whoever refused all that came too much would do nothing else. So it is measured what refusing takes, and
//! of a worker's time it gets one part of [`TIME_SHARE`]. Whoever is older and finds none left is served, late.
//!
//! Requests of strangers, and for anything but lists and bags, do not count: to refuse others for them would let
//! strangers keep everybody out.
//!
//! The task sleeps for good while the worker has nothing to do.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

/// How often is looked.
const INTERVAL: Duration = Duration::from_millis(20);
/// So many requests that count, served while one waited, are a queue.
const QUEUE_REQUESTS: u32 = 32;
/// One part of so many of a worker's time is for answering with refusals. To read what is refused takes half as much
/// again, so that all of it is about a tenth.
const TIME_SHARE: u32 = 16;
/// Time for refusals is saved up for as long as this: they come in bursts.
const SAVED: Duration = Duration::from_millis(10);
/// A refusal that took longer waited for something.
const REFUSAL_MAX: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Shedding {
    wait_max: Duration,
    /// Requests since the task looked last.
    requests: Cell<u32>,
    was_late: Cell<bool>,
    /// How late requests were when the worker was last found behind; `None`: it is not.
    behind_by: Cell<Option<Duration>>,
    /// None is refused before: refusals have had their part of the time until then.
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

    /// Counts a request that could be refused for its age, if no stranger sent it.
    pub fn count(&self) {
        self.requests.set(self.requests.get().wrapping_add(1));
        if self.sleeps.get() {
            self.work.notify_one();
        }
    }

    /// Whether requests are to be looked at for how long they have waited.
    pub fn is_behind(&self) -> bool {
        self.behind_by.get().is_some()
    }

    /// The present, if a request is to be refused that has waited for so long. Where that is not known, it has waited
    /// as the worker's other requests.
    pub fn refuses(&self, waited: Option<Duration>) -> Option<Instant> {
        let waited = waited.or(self.behind_by.get())?;
        let now = Instant::now();
        (waited > self.wait_max && self.next_refusal.get() <= now).then_some(now)
    }

    /// Notes that a request was refused and has its answer, from then until now.
    pub fn refused(&self, since: Instant) {
        let now = Instant::now();
        let saved_since = now.checked_sub(SAVED).unwrap_or(now);
        let took = now.saturating_duration_since(since).min(REFUSAL_MAX);
        self.next_refusal.set(self.next_refusal.get().max(saved_since) + took * TIME_SHARE);
    }

    /// Looks how late requests are, for as long as it is awaited.
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

    /// `late` is how long requests waited, and `requests` how many were served since the last time.
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

    fn is_behind_after(shedding: &Shedding, looks: &[(u64, u32)]) -> bool {
        looks.iter().for_each(|(late_ms, requests)| shedding.note(ms(*late_ms), *requests));
        shedding.is_behind()
    }

    #[test]
    fn a_worker_is_behind_that_is_late_twice_until_it_is_hardly_late() {
        let shedding = Shedding::new(MAX);
        assert!(!is_behind_after(&shedding, &[(60, 1_000)]) && is_behind_after(&shedding, &[(60, 1_000)]));
        assert!(is_behind_after(&shedding, &[(30, 1_000), (26, 1_000)]) && !is_behind_after(&shedding, &[(25, 1_000)]));
        // From the beginning again.
        assert!(!is_behind_after(&shedding, &[(60, 1_000)]));
    }

    #[test]
    fn once_or_with_few_requests_is_no_overload() {
        let shedding = Shedding::new(MAX);
        for look in [(900, 1_000), (10, 1_000), (900, 1_000), (900, 5), (900, 1_000)] {
            assert!(!is_behind_after(&shedding, &[look]));
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
    async fn refusing_takes_no_more_than_its_part_of_the_time() {
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
