//! Reads the catalog from the metadata store: at the start, after changes of other servers, and when a list operation
//! names a feature that this server does not know.
//!
//! One task on the metadata actor's arbiter reads, one reading at a time. A reading blocks neither list operations nor
//! changes, and changes do not block a reading.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::metadata::{MetadataError, MetadataStore, News};

const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
/// After each reading, so that a storm of changes elsewhere is read in batches.
const PAUSE: Duration = Duration::from_millis(10);
/// How many operations may wait for a lookup.
const WAITING_MAX: usize = 10_000;
/// Beyond this number, operations do not wait until a lookup is allowed, but take the last answer.
const CROWD: usize = 250;

/// Limits for readings of the store.
#[derive(Debug, Clone, Copy)]
pub struct RefreshOptions {
    /// The longest time between failing readings. The first retries follow sooner.
    pub retry_delay_max: Duration,
    /// Lookups for unknown features: this many at once after a quiet time, and then one in each interval. At least 1.
    pub look_ups_max: u32,
    pub look_up_interval: Duration,
    /// How long an operation waits for a lookup.
    pub look_up_wait_max: Duration,
}

/// The part of the definitions that a reading reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefreshExtent {
    /// The changes since the previous reading.
    News,
    Everything,
}

/// The end of a reading of the store.
#[derive(Debug, Clone)]
struct Reading {
    began: Instant,
    /// The reason of its failure, if it failed.
    failure: Option<String>,
    /// When the last successful reading began.
    succeeded: Option<Instant>,
}

/// The requests to the refresher, and the tokens that limit them.
struct ReadRequests {
    /// News was missed, so that reading the changes is not enough.
    everything: bool,
    /// A lookup is requested and has not begun. Later callers may wait for it.
    look_up: bool,
    tokens: u32,
    refilled: Instant,
    /// When the last reading began. `None` before the first one.
    began: Option<Instant>,
}

/// Shared by the task that reads and the operations that wait for it.
pub(super) struct Refresher {
    options: RefreshOptions,
    requests: Mutex<ReadRequests>,
    wake: Notify,
    last: watch::Sender<Option<Reading>>,
    waiting: Semaphore,
}

impl Refresher {
    pub fn new(options: RefreshOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            requests: Mutex::new(ReadRequests {
                everything: true,
                look_up: false,
                tokens: options.look_ups_max,
                refilled: Instant::now(),
                began: None,
            }),
            wake: Notify::new(),
            last: watch::Sender::new(None),
            waiting: Semaphore::new(WAITING_MAX),
        })
    }

    fn requests(&self) -> MutexGuard<'_, ReadRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads by `refresh` on request, as long as the actor lives.
    pub async fn run(self: Arc<Self>, refresh: impl AsyncFn(RefreshExtent) -> Result<(), MetadataError>) {
        let mut delay = RETRY_DELAY_MIN;
        // A previous actor may have died before a requested reading.
        self.requests().everything = true;
        loop {
            let (began, everything) = {
                let mut requests = self.requests();
                requests.look_up = false;
                let began = Instant::now();
                requests.began = Some(began);
                (began, std::mem::take(&mut requests.everything))
            };
            let result = refresh(if everything { RefreshExtent::Everything } else { RefreshExtent::News }).await;
            let failure = result.as_ref().err().map(MetadataError::reason);
            let succeeded = if failure.is_none() { Some(began) } else { self.succeeded() };
            self.last.send_replace(Some(Reading { began, failure, succeeded }));
            match result {
                Ok(()) => {
                    delay = RETRY_DELAY_MIN;
                    sleep(PAUSE).await;
                    self.wake.notified().await;
                }
                Err(_) => {
                    self.requests().everything |= everything;
                    // Retries after the delay, or earlier on request.
                    let _ = timeout(delay, self.wake.notified()).await;
                    delay = (delay * 2).min(self.options.retry_delay_max);
                }
            }
        }
    }

    /// When the last successful reading began. The catalog has all that the store had by then.
    pub fn succeeded(&self) -> Option<Instant> {
        self.last.borrow().as_ref().and_then(|reading| reading.succeeded)
    }

    /// Follows the notifications of the store, as long as the actor lives.
    pub async fn follow_news(self: Arc<Self>, store: Arc<dyn MetadataStore>) {
        loop {
            match store.news().await {
                News::Changed => self.wake.notify_one(),
                News::Missed => self.read_everything(),
            }
        }
    }

    /// Requests a reading of all definitions, which begins after this call.
    pub fn read_everything(&self) {
        self.requests().everything = true;
        self.wake.notify_one();
    }

    /// Requests a reading of the changes, which begins after this call.
    pub fn read_news(&self) {
        self.wake.notify_one();
    }

    /// Returns once the catalog has all that the store had when this was called or, if too many operations wait for
    /// that, at most an interval before. Otherwise returns the reason.
    pub async fn look_up(&self, deadline: Instant) -> Result<(), String> {
        let Ok(_place) = self.waiting.try_acquire() else {
            return Err("too many operations wait for the metadata store".to_owned());
        };
        let asked = Instant::now();
        let until = deadline.min(asked + self.options.look_up_wait_max);
        let crowded = WAITING_MAX - self.waiting.available_permits() > CROWD;
        let mut last = self.last.subscribe();
        let mut began_min = asked;
        while let Err(not_before) = self.request_look_up(asked) {
            if crowded || not_before >= until {
                // A recent reading exists, because only recent lookups can have used the tokens up.
                began_min = asked - self.options.look_up_interval;
                break;
            }
            if let Ok(reading) = timeout_at(not_before, since(&mut last, asked)).await {
                return reading;
            }
        }
        timeout_at(until, since(&mut last, began_min))
            .await
            .unwrap_or_else(|_| Err("the metadata store timed out".to_owned()))
    }

    /// Ensures a reading that begins after `asked`, or returns when one may be requested.
    fn request_look_up(&self, asked: Instant) -> Result<(), Instant> {
        let mut requests = self.requests();
        if requests.look_up || requests.began.is_some_and(|began| began >= asked) {
            return Ok(());
        }
        let now = Instant::now();
        let RefreshOptions { look_ups_max, look_up_interval, .. } = self.options;
        while requests.tokens < look_ups_max && requests.refilled + look_up_interval <= now {
            requests.tokens += 1;
            requests.refilled += look_up_interval;
        }
        if requests.tokens == 0 {
            return Err(requests.refilled + look_up_interval);
        }
        if requests.tokens == look_ups_max {
            requests.refilled = now;
        }
        requests.tokens -= 1;
        requests.look_up = true;
        self.wake.notify_one();
        Ok(())
    }
}

/// Waits for the end of a reading that began at a moment or later.
async fn since(last: &mut watch::Receiver<Option<Reading>>, began_min: Instant) -> Result<(), String> {
    let wanted = |reading: &Option<Reading>| reading.as_ref().is_some_and(|reading| reading.began >= began_min);
    match last.wait_for(wanted).await {
        Ok(reading) => match reading.as_ref().and_then(|reading| reading.failure.clone()) {
            Some(reason) => Err(reason),
            None => Ok(()),
        },
        Err(_) => Err("the server is stopping".to_owned()),
    }
}
