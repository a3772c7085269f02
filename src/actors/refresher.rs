//! Keeps the catalog up with the metadata store: at the start, when there is news of changes made
//! elsewhere, and when a list operation meets a feature that this server does not know.
//!
//! One task on the metadata actor's arbiter reads, one reading at a time. Reading holds up neither
//! list operations nor changes, and changes do not hold up reading.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::metadata_actor::Desk;
use crate::metadata::{MetadataError, News};

const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);
/// After each reading, so that a storm of changes elsewhere is read in batches.
const PAUSE: Duration = Duration::from_millis(10);
/// Look-ups for unknown features: this many at once after a quiet time, and then one an interval.
const LOOK_UPS_MAX: u32 = 5;
const LOOK_UP_INTERVAL: Duration = Duration::from_millis(200);
/// How long an operation waits for a look-up, and how many may wait.
const LOOK_UP_WAIT_MAX: Duration = Duration::from_millis(1_000);
const WAITING_MAX: usize = 10_000;
/// More operations than this do not wait until they may look up: they take the last answer.
const CROWD: usize = 250;

/// How a reading of the store ended.
#[derive(Debug, Clone)]
struct Reading {
    began: Instant,
    /// Why it failed, if it did.
    trouble: Option<String>,
}

/// What is wanted of the refresher, and how often it may be asked.
struct Wishes {
    /// News were missed: changes alone will not do.
    everything: bool,
    /// A look-up that has not begun yet: whoever comes now may wait for it.
    look_up: bool,
    tokens: u32,
    refilled: Instant,
    /// When the last reading began; none before the first.
    began: Option<Instant>,
}

/// What the refresher shares with those who wait for it.
pub(super) struct Refresher {
    wishes: Mutex<Wishes>,
    wake: Notify,
    last: watch::Sender<Option<Reading>>,
    waiting: Semaphore,
}

impl Refresher {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            wishes: Mutex::new(Wishes {
                everything: true,
                look_up: false,
                tokens: LOOK_UPS_MAX,
                refilled: Instant::now(),
                began: None,
            }),
            wake: Notify::new(),
            last: watch::Sender::new(None),
            waiting: Semaphore::new(WAITING_MAX),
        })
    }

    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads whatever is to be read, for as long as the actor lives.
    pub async fn run(self: Arc<Self>, desk: Rc<Desk>) {
        let mut delay = RETRY_DELAY_MIN;
        // What one before it, which died, was about to read.
        self.wishes().everything = true;
        loop {
            let (began, everything) = {
                let mut wishes = self.wishes();
                wishes.look_up = false;
                let began = Instant::now();
                wishes.began = Some(began);
                (began, std::mem::take(&mut wishes.everything))
            };
            let result = desk.refresh(everything).await;
            let trouble = result.as_ref().err().map(MetadataError::reason);
            self.last.send_replace(Some(Reading { began, trouble }));
            match result {
                Ok(()) => {
                    delay = RETRY_DELAY_MIN;
                    sleep(PAUSE).await;
                    self.wake.notified().await;
                }
                Err(_) => {
                    self.wishes().everything |= everything;
                    // Whether it is time, or somebody asks: it is tried again.
                    let _ = timeout(delay, self.wake.notified()).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
            }
        }
    }

    /// Passes the store's news on, for as long as the actor lives.
    pub async fn hear(self: Arc<Self>, desk: Rc<Desk>) {
        loop {
            match desk.store.news().await {
                News::Changed => self.wake.notify_one(),
                News::Missed => self.read_everything(),
            }
        }
    }

    /// Has all definitions read, by a reading that begins after this was called.
    pub fn read_everything(&self) {
        self.wishes().everything = true;
        self.wake.notify_one();
    }

    /// Returns once the catalog shows the store as it was after this was called, or, if too many
    /// look up to wait for that, at most [`LOOK_UP_INTERVAL`] before; or else says why it cannot.
    pub async fn look_up(&self, deadline: Instant) -> Result<(), String> {
        let Ok(_place) = self.waiting.try_acquire() else {
            return Err("too many operations wait for the metadata store".to_owned());
        };
        let asked = Instant::now();
        let until = deadline.min(asked + LOOK_UP_WAIT_MAX);
        let crowded = WAITING_MAX - self.waiting.available_permits() > CROWD;
        let mut last = self.last.subscribe();
        let mut began_min = asked;
        while let Err(not_before) = self.wish(asked) {
            if crowded || not_before >= until {
                // There is one: only a recent look-up can have used up what may be asked.
                began_min = asked - LOOK_UP_INTERVAL;
                break;
            }
            if let Ok(reading) = timeout_at(not_before, since(&mut last, asked)).await {
                return reading;
            }
        }
        timeout_at(until, since(&mut last, began_min))
            .await
            .unwrap_or_else(|_| Err("the metadata store did not answer in time".to_owned()))
    }

    /// Sees to it that there is a reading that begins after `asked`; or says when that may be asked
    /// for again.
    fn wish(&self, asked: Instant) -> Result<(), Instant> {
        let mut wishes = self.wishes();
        if wishes.look_up || wishes.began.is_some_and(|began| began >= asked) {
            return Ok(());
        }
        let now = Instant::now();
        while wishes.tokens < LOOK_UPS_MAX && wishes.refilled + LOOK_UP_INTERVAL <= now {
            wishes.tokens += 1;
            wishes.refilled += LOOK_UP_INTERVAL;
        }
        if wishes.tokens == 0 {
            return Err(wishes.refilled + LOOK_UP_INTERVAL);
        }
        if wishes.tokens == LOOK_UPS_MAX {
            wishes.refilled = now;
        }
        wishes.tokens -= 1;
        wishes.look_up = true;
        self.wake.notify_one();
        Ok(())
    }
}

/// Waits for the end of a reading that began at or after a moment.
async fn since(last: &mut watch::Receiver<Option<Reading>>, began_min: Instant) -> Result<(), String> {
    let wanted = |reading: &Option<Reading>| reading.as_ref().is_some_and(|reading| reading.began >= began_min);
    match last.wait_for(wanted).await {
        Ok(reading) => match reading.as_ref().and_then(|reading| reading.trouble.clone()) {
            Some(reason) => Err(reason),
            None => Ok(()),
        },
        Err(_) => Err("the server is stopping".to_owned()),
    }
}
