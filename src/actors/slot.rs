//! One place of the pool: an actor, its arbiter, its permits, and the task that replaces a dead one.
//!
//! A supervisor inside the arbiter would die with it (a panic of the arbiter takes all its actors),
//! so the keeper of a slot runs on the system's own arbiter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Actor, Addr, Arbiter};
use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::list_actor::ListActor;
use super::list_pool::PoolOptions;
use crate::domain::Clock;
use crate::items::{ItemStore, StoreError};

/// How often a keeper looks whether its actor still lives, beside being told.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// An arbiter that does not end within this time after it was told to is left behind.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the actor of a slot is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotState {
    /// Its session is being opened for the first time.
    Starting,
    Live,
    /// Its actor died, and a fresh one is being started.
    Replacing,
    /// Its session cannot be opened, for this reason; it is tried again.
    Failed(String),
    Stopped,
}

pub(super) struct Slot {
    pub permits: Arc<Semaphore>,
    pub state: ArcSwap<SlotState>,
    address: ArcSwapOption<Addr<ListActor>>,
    /// Wakes the keeper: the actor was found dead, or the pool stops.
    wake: Notify,
    stop: tokio::sync::watch::Sender<bool>,
    restarts: AtomicUsize,
}

impl Slot {
    pub fn new(permits: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            state: ArcSwap::from_pointee(SlotState::Starting),
            address: ArcSwapOption::empty(),
            wake: Notify::new(),
            stop: tokio::sync::watch::Sender::new(false),
            restarts: AtomicUsize::new(0),
        }
    }

    /// The actor's address, if one is alive.
    pub fn address(&self) -> Option<Arc<Addr<ListActor>>> {
        self.address.load_full().filter(|address| address.connected())
    }

    /// Tells the keeper that its actor may be dead.
    pub fn look(&self) {
        self.wake.notify_one();
    }

    /// How many actors were started in place of a dead one.
    pub fn restarts(&self) -> usize {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Ends the keeper, which stops the actor and its arbiter.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Starts actors in this slot until it is stopped. Runs on the system's arbiter.
    pub async fn keep(self: Arc<Self>, store: Arc<dyn ItemStore>, clock: Arc<dyn Clock>, options: PoolOptions) {
        let mut stopped = self.stop.subscribe();
        let mut delay = RETRY_DELAY_MIN;
        while !*stopped.borrow() {
            let arbiter = Arbiter::new();
            let opened = tokio::select! {
                opened = open_actor(&arbiter, Arc::clone(&store), Arc::clone(&clock), options.permits_per_actor) => opened,
                _ = stopped.wait_for(|stop| *stop) => Err("stopped".to_owned()),
            };
            match opened {
                Ok(address) => {
                    delay = RETRY_DELAY_MIN;
                    self.address.store(Some(Arc::new(address)));
                    self.state.store(Arc::new(SlotState::Live));
                    tokio::select! {
                        () = self.died() => {
                            tracing::error!("a list actor died: starting a fresh one");
                            self.restarts.fetch_add(1, Ordering::Relaxed);
                            self.state.store(Arc::new(SlotState::Replacing));
                        }
                        _ = stopped.wait_for(|stop| *stop) => {}
                    }
                    self.address.store(None);
                }
                Err(_) if *stopped.borrow() => {}
                Err(reason) => {
                    tracing::warn!(reason, retry_in_ms = delay.as_millis() as u64, "cannot open an item-store session");
                    self.state.store(Arc::new(SlotState::Failed(reason)));
                    let _ = tokio::time::timeout(delay, stopped.wait_for(|stop| *stop)).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
            }
            end(arbiter).await;
        }
        self.state.store(Arc::new(SlotState::Stopped));
    }

    async fn died(&self) {
        while self.address().is_some() {
            let _ = tokio::time::timeout(LOOK_INTERVAL, self.wake.notified()).await;
        }
    }
}

/// Opens a session inside the arbiter, so that its I/O runs there, and starts the actor with it.
async fn open_actor(
    arbiter: &Arbiter,
    store: Arc<dyn ItemStore>,
    clock: Arc<dyn Clock>,
    permits: usize,
) -> Result<Addr<ListActor>, String> {
    let (ready, opened) = oneshot::channel();
    arbiter.spawn_fn(move || {
        actix::spawn(async move {
            let actor = store.open_session().await.map(|session| ListActor::new(session, clock, permits).start());
            // Nobody waits any more when the pool was stopped meanwhile.
            let _ = ready.send(actor);
        });
    });
    match opened.await {
        Ok(Ok(address)) => Ok(address),
        Ok(Err(StoreError::Unavailable { reason, .. })) => Err(reason),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("opening a session panicked".to_owned()),
    }
}

/// Stops an arbiter and waits until its thread has dropped all that lived there.
pub(super) async fn end(arbiter: Arbiter) {
    arbiter.stop();
    let joined = tokio::task::spawn_blocking(move || arbiter.join());
    match tokio::time::timeout(JOIN_TIMEOUT, joined).await {
        Ok(Ok(Ok(()))) => {}
        Ok(_) => tracing::error!("an arbiter ended with a panic"),
        Err(_) => tracing::error!("an arbiter does not end: left behind"),
    }
}
