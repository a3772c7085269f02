//! Which requests are refused since a worker is behind.
//!
//! Requests wait in their sockets while a worker serves others. How long is seen by a task that comes
//! back again and again: by how much it is late, they were. One that is late by more than
//! [`LATE`] twice in a row, while many were served, has more to do than it can; then a part of what comes
//! is refused, the more the later it is. It is a part and never all: to read and to refuse a request
//! costs more than half of what a get from memory does, so that whoever refused all that came too much
//! would do nothing else. A few late callers say nothing of load: then the machine is busy with other
//! things.
//!
//! The task sleeps for good while the worker has nothing to do.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

/// How often is looked.
const INTERVAL: Duration = Duration::from_millis(20);
/// Requests that wait for longer than this wait too long.
const LATE: Duration = Duration::from_millis(50);
/// So many requests, served while one waited, are a queue.
const QUEUE_REQUESTS: u32 = 128;
/// Of how many requests one is refused: those that waited for less than 2, 4 and 8 times [`LATE`], and
/// for longer.
const ONE_OF: [u32; 4] = [16, 8, 4, 2];

#[derive(Debug, Default)]
pub(super) struct Shedding {
    /// Requests since the task looked last.
    requests: Cell<u32>,
    was_late: Cell<bool>,
    /// Of how many requests one is refused; 0: none.
    one_of: Cell<u32>,
    sleeps: Cell<bool>,
    work: Notify,
}

impl Shedding {
    /// Counts a request that is whole. True if it is to be refused, if it is of those that may be.
    pub fn refuses(&self) -> bool {
        let number = self.requests.get().wrapping_add(1);
        self.requests.set(number);
        if self.sleeps.get() {
            self.work.notify_one();
        }
        let one_of = self.one_of.get();
        one_of > 0 && number.is_multiple_of(one_of)
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
        let is_late = late > LATE && requests >= QUEUE_REQUESTS;
        let shares = LATE.as_nanos().max(1);
        let step = (late.as_nanos() / shares).checked_ilog2().unwrap_or_default() as usize;
        let one_of = if is_late && self.was_late.get() { ONE_OF[step.min(ONE_OF.len() - 1)] } else { 0 };
        self.one_of.set(one_of);
        self.was_late.set(is_late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(shedding: &Shedding) -> usize {
        (0..160).filter(|_| shedding.refuses()).count()
    }

    #[test]
    fn the_later_requests_are_the_more_are_refused_and_never_all() {
        let shedding = Shedding::default();
        assert_eq!(refused(&shedding), 0);
        for (late_ms, share) in [(60, 0), (60, 10), (90, 10), (110, 20), (250, 40), (450, 80), (9_000, 80)] {
            shedding.note(Duration::from_millis(late_ms), 1_000);
            assert_eq!(refused(&shedding), share, "{late_ms} ms");
        }
        shedding.note(LATE, 1_000);
        assert_eq!(refused(&shedding), 0);
    }

    #[test]
    fn once_or_with_few_requests_is_no_overload() {
        let shedding = Shedding::default();
        for (late_ms, requests) in [(900, 1_000), (10, 1_000), (900, 1_000), (900, 5), (900, 1_000)] {
            shedding.note(Duration::from_millis(late_ms), requests);
            assert_eq!(refused(&shedding), 0);
        }
    }
}
