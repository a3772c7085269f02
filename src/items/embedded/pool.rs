//! A few threads that carry out the reads that may touch the disk, so that no arbiter waits for it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::items::StoreError;

/// Reads that may wait for a thread.
const QUEUE_MAX: usize = 1024;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Job, OwnedSemaphorePermit)>,
    stopping: bool,
}

/// The queue in front of the threads.
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

    /// Runs a job on a thread of the pool and awaits what it returns.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let full = || StoreError::Overloaded { reason: "too many reads wait for the disk".into() };
        let place = timeout_at(deadline, self.places.clone().acquire_owned());
        let place = place.await.map_err(|_| full())?.map_err(|_| closed())?;
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            // Nobody waits any more: spare the disk.
            if !answer.is_closed() {
                let _nobody_waits = answer.send(job());
            }
        });
        self.push((job, place))?;
        self.wake.notify_one();
        let answer = timeout_at(deadline, answered).await;
        let lost = || StoreError::Internal { reason: "a read broke off".into(), outcome_unknown: false };
        answer.map_err(|_| StoreError::Timeout { outcome_unknown: false })?.map_err(|_| lost())
    }

    fn push(&self, job: (Job, OwnedSemaphorePermit)) -> Result<(), StoreError> {
        let mut queue = self.queue();
        if queue.stopping {
            return Err(closed());
        }
        queue.jobs.push_back(job);
        Ok(())
    }

    /// How many reads wait for a thread.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.queue().jobs.len()
    }

    /// What each thread of the pool does until it is stopped.
    pub fn work(&self) {
        loop {
            let mut queue = self.queue();
            let (job, place) = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                if queue.stopping {
                    return;
                }
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            // A read that panics fails by itself; the thread goes on.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a read of the item store panicked");
            }
            drop(place);
        }
    }

    /// Lets the threads end once no job waits.
    pub fn stop(&self) {
        self.queue().stopping = true;
        self.wake.notify_all();
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the item store is closed".into(), outcome_unknown: false }
}
