//! A few threads for the reads that may use the disk, so that no arbiter waits for it.
//!
//! A read runs in turns, each of which does about as much as a short get. An unfinished read goes to the end of the
//! queue, so a short read waits at most for a turn of some long ones.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use liststore_storage::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

/// Reads that may wait for a thread.
const QUEUE_MAX: usize = 1024;
/// First turns of reads for each turn of a started one, if both kinds wait.
const FIRST_TURNS: u32 = 4;

/// Whether a read wants another turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turned {
    Through,
    WantsMore,
}

type Job = Box<dyn FnMut() -> Turned + Send>;

#[derive(Default)]
struct Queue {
    /// Reads before their first turn, and reads after it.
    first: VecDeque<(Job, OwnedSemaphorePermit)>,
    begun: VecDeque<(Job, OwnedSemaphorePermit)>,
    /// First turns since the last other turn.
    first_turns: u32,
    stopping: bool,
}

impl Queue {
    fn pop(&mut self) -> Option<(Job, OwnedSemaphorePermit)> {
        let others_are_due = self.first_turns >= FIRST_TURNS && !self.begun.is_empty();
        if !others_are_due && let Some(job) = self.first.pop_front() {
            self.first_turns += 1;
            return Some(job);
        }
        self.first_turns = 0;
        self.begun.pop_front()
    }
}

/// The queue of the threads.
pub struct Pool {
    queue: Mutex<Queue>,
    wake: Condvar,
    places: Arc<Semaphore>,
}

impl Pool {
    pub fn new() -> Self {
        Self { queue: Mutex::default(), wake: Condvar::new(), places: Arc::new(Semaphore::new(QUEUE_MAX)) }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `turn` on threads of the pool until it returns a value, and awaits that. After `None` it is called again,
    /// after other reads have had their turns.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        mut turn: impl FnMut() -> Option<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let full = || StoreError::Overloaded { reason: "too many reads are waiting for the disk".into() };
        let place = timeout_at(deadline, self.places.clone().acquire_owned());
        let place = place.await.map_err(|_| full())?.map_err(|_| closed())?;
        let (answer, answered) = oneshot::channel();
        let mut answer = Some(answer);
        let job = Box::new(move || {
            // If the caller has left, this saves the use of the disk.
            if answer.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return Turned::Through;
            }
            let Some(result) = turn() else { return Turned::WantsMore };
            if let Some(answer) = answer.take() {
                let _nobody_waits = answer.send(result);
            }
            Turned::Through
        });
        self.push((job, place))?;
        self.wake.notify_one();
        let answer = timeout_at(deadline, answered).await;
        let lost = || StoreError::Internal { reason: "a read was interrupted".into(), outcome_unknown: false };
        answer.map_err(|_| StoreError::Timeout { outcome_unknown: false })?.map_err(|_| lost())
    }

    fn push(&self, job: (Job, OwnedSemaphorePermit)) -> Result<(), StoreError> {
        let mut queue = self.queue();
        if queue.stopping {
            return Err(closed());
        }
        queue.first.push_back(job);
        Ok(())
    }

    /// The number of reads that wait for a thread.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        let queue = self.queue();
        queue.first.len() + queue.begun.len()
    }

    /// The loop of each thread of the pool until it stops.
    pub fn work(&self) {
        loop {
            let mut queue = self.queue();
            let (mut job, place) = loop {
                if let Some(job) = queue.pop() {
                    break job;
                }
                if queue.stopping {
                    return;
                }
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            match catch_unwind(AssertUnwindSafe(&mut job)) {
                // The thread that puts it back takes another, so no other thread need be woken.
                Ok(Turned::WantsMore) => self.queue().begun.push_back((job, place)),
                Ok(Turned::Through) => drop(place),
                // A panic fails only its read. The thread continues.
                Err(_) => tracing::error!("a read of the item store panicked"),
            }
        }
    }

    /// Ends the threads once no job waits.
    pub fn stop(&self) {
        self.queue().stopping = true;
        self.wake.notify_all();
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the item store is closed".into(), outcome_unknown: false }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    /// Long enough that a read that waits for it fails the test.
    fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn with_pool(threads: usize, test: impl AsyncFnOnce(&Pool)) {
        let pool = Pool::new();
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(|| pool.work())));
            let _stops = scopeguard::guard(&pool, Pool::stop);
            block_on(test(&pool));
        });
    }

    #[test]
    fn a_short_read_is_served_while_endless_reads_hold_all_threads() {
        with_pool(2, async |pool| {
            let ends = Arc::new(AtomicBool::new(false));
            let walk = || {
                let ends = ends.clone();
                pool.run(deadline(), move || ends.load(Ordering::Acquire).then_some(()))
            };
            let get = async {
                let mut turns = [None, None, Some(7)].into_iter();
                assert_eq!(pool.run(deadline(), move || turns.next().flatten()).await.unwrap(), 7);
                ends.store(true, Ordering::Release);
            };
            let walks = futures_util::future::join_all((0..8).map(|_| walk()));
            let (walked, ()) = futures_util::future::join(walks, get).await;
            walked.into_iter().for_each(|walked| walked.unwrap());
        });
    }

    #[test]
    fn a_long_read_continues_despite_constant_short_reads() {
        with_pool(1, async |pool| {
            let turns = Arc::new(AtomicU32::new(0));
            let counted = turns.clone();
            let walk = pool.run(deadline(), move || (counted.fetch_add(1, Ordering::AcqRel) == 100).then_some(()));
            let gets = async {
                // There is always another that waits.
                let get = || async {
                    while turns.load(Ordering::Acquire) < 100 {
                        pool.run(deadline(), || Some(())).await.unwrap();
                    }
                };
                futures_util::future::join_all((0..2 * FIRST_TURNS).map(|_| get())).await;
            };
            futures_util::future::join(walk, gets).await.0.unwrap();
        });
    }

    #[test]
    fn an_abandoned_read_ends() {
        with_pool(1, async |pool| {
            let (began, begun) = oneshot::channel();
            let mut began = Some(began);
            let forever = pool.run(deadline(), move || {
                began.take().map(|began| began.send(()));
                None::<()>
            });
            tokio::select! {
                _ = forever => panic!("it has no end"),
                begun = begun => begun.unwrap(),
            }
            pool.run(deadline(), || Some(())).await.unwrap();
            while pool.places.available_permits() < QUEUE_MAX {
                tokio::task::yield_now().await;
            }
        });
    }
}
