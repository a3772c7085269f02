//! A place for an actor: the actor, its arbiter, and the task that replaces a dead one.
//!
//! A supervisor inside the arbiter would die with it, because a panic of the arbiter ends all its actors. So the
//! supervisor of a slot runs on the system's arbiter.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix::{Actor, Addr, Arbiter, Context};
use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};

/// How often a supervisor checks that its actor lives, in addition to notifications.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// An arbiter that does not stop within this time is abandoned.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the actor of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotState {
    /// It opens its session for the first time.
    Starting,
    Live,
    /// Its actor died, and a replacement starts.
    Replacing,
    /// Its session cannot be opened, and is retried.
    Failed {
        reason: String,
        /// Whether there was a session before.
        was_live: bool,
    },
    Stopped,
}

impl SlotState {
    /// Whether there was never a session.
    pub fn awaits_first_session(&self) -> bool {
        matches!(self, Self::Starting | Self::Failed { was_live: false, .. })
    }

    pub const NAMES: [&'static str; 5] = ["starting", "live", "replacing", "failed", "stopped"];

    pub fn name(&self) -> &'static str {
        let [starting, live, replacing, failed, stopped] = Self::NAMES;
        match self {
            Self::Starting => starting,
            Self::Live => live,
            Self::Replacing => replacing,
            Self::Failed { .. } => failed,
            Self::Stopped => stopped,
        }
    }
}

/// The failures to open sessions that the slots of a pool have logged. All slots usually fail repeatedly for one
/// reason.
#[derive(Debug, Default)]
pub(super) struct Openings(Mutex<Failures>);

#[derive(Debug, Default)]
struct Failures {
    /// Slots whose last attempt failed.
    slots: usize,
    since: Option<Instant>,
    attempts: u64,
    /// The reasons that were logged since then.
    logged: BTreeSet<String>,
}

/// The maximum of reasons that are logged until all sessions are open again.
const REASONS_MAX: usize = 16;

impl Openings {
    fn ongoing(&self) -> MutexGuard<'_, Failures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failed attempt, in a slot whose previous attempt failed or not. Returns whether the reason is new.
    fn failed(&self, failed_before: bool, reason: &str) -> bool {
        let mut failures = self.ongoing();
        failures.slots += usize::from(!failed_before);
        failures.since.get_or_insert_with(Instant::now);
        failures.attempts += 1;
        failures.logged.len() < REASONS_MAX && failures.logged.insert(reason.to_owned())
    }

    /// Records that a slot has opened its session after a failure. If it was the last such slot, returns how many
    /// attempts had failed, and for how long.
    fn opened(&self) -> Option<(u64, Duration)> {
        let mut failures = self.ongoing();
        failures.slots = failures.slots.saturating_sub(1);
        if failures.slots > 0 {
            return None;
        }
        let ended = std::mem::take(&mut *failures);
        Some((ended.attempts, ended.since.map(|since| since.elapsed()).unwrap_or_default()))
    }
}

pub(super) struct ActorSlot<A: Actor<Context = Context<A>>> {
    /// The kind of actor, for the log.
    what: &'static str,
    state: watch::Sender<SlotState>,
    address: ArcSwapOption<Addr<A>>,
    /// Wakes the supervisor when a caller has found the actor dead, or when the pool stops.
    wake: Notify,
    stop: watch::Sender<bool>,
    restarts: AtomicUsize,
}

impl<A: Actor<Context = Context<A>>> ActorSlot<A> {
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            state: watch::Sender::new(SlotState::Starting),
            address: ArcSwapOption::empty(),
            wake: Notify::new(),
            stop: watch::Sender::new(false),
            restarts: AtomicUsize::new(0),
        }
    }

    pub fn state(&self) -> SlotState {
        self.state.borrow().clone()
    }

    /// Waits until an actor lives here.
    pub async fn live(&self) {
        let mut state = self.state.subscribe();
        // This cannot fail, because the slot owns the sender.
        let _live = state.wait_for(|state| *state == SlotState::Live).await;
    }

    /// The actor's address, if one is alive.
    pub fn address(&self) -> Option<Arc<Addr<A>>> {
        self.address.load_full().filter(|address| address.connected())
    }

    /// Notifies the supervisor that its actor may be dead.
    pub fn notify_supervisor(&self) {
        self.wake.notify_one();
    }

    /// How many actors were started to replace a dead one.
    pub fn restarts(&self) -> usize {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Ends the supervisor, which stops the actor and its arbiter.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Starts actors in this slot, each by `open` on a new arbiter, until it is stopped. Runs on the system's arbiter.
    pub async fn supervise(
        self: Arc<Self>,
        open: impl AsyncFn(&Arbiter) -> Result<Addr<A>, String>,
        openings: Arc<Openings>,
    ) {
        let mut stopped = self.stop.subscribe();
        let (mut delay, mut failed_before, mut was_live) = (RETRY_DELAY_MIN, false, false);
        while !*stopped.borrow() {
            let arbiter = arbiter();
            let opened = match &arbiter {
                Err(reason) => Err(reason.clone()),
                Ok(arbiter) => tokio::select! {
                    opened = open(arbiter) => opened,
                    _ = stopped.wait_for(|stop| *stop) => Err("stopped".to_owned()),
                },
            };
            match opened {
                Ok(address) => {
                    delay = RETRY_DELAY_MIN;
                    if std::mem::take(&mut failed_before)
                        && let Some((failed_attempts, after)) = openings.opened()
                    {
                        let after_secs = after.as_secs();
                        tracing::info!(actor = self.what, failed_attempts, after_secs, "all actors started");
                    }
                    self.address.store(Some(Arc::new(address)));
                    was_live = true;
                    self.state.send_replace(SlotState::Live);
                    tokio::select! {
                        () = self.died() => {
                            tracing::error!(actor = self.what, "actor died: starting a replacement");
                            self.restarts.fetch_add(1, Ordering::Relaxed);
                            self.state.send_replace(SlotState::Replacing);
                        }
                        _ = stopped.wait_for(|stop| *stop) => {}
                    }
                    self.address.store(None);
                }
                Err(_) if *stopped.borrow() => {}
                Err(reason) => {
                    if openings.failed(failed_before, &reason) {
                        tracing::warn!(actor = self.what, reason, "cannot start actors: retrying");
                    }
                    failed_before = true;
                    self.state.send_replace(SlotState::Failed { reason, was_live });
                    let _ = tokio::time::timeout(delay, stopped.wait_for(|stop| *stop)).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
            }
            if let Ok(arbiter) = arbiter {
                end(arbiter).await;
            }
        }
        self.state.send_replace(SlotState::Stopped);
    }

    async fn died(&self) {
        while self.address().is_some() {
            let _ = tokio::time::timeout(CHECK_INTERVAL, self.wake.notified()).await;
        }
    }
}

/// A new arbiter. Its constructor panics where no thread can be started, so one is tried before.
fn arbiter() -> Result<Arbiter, String> {
    let tried = std::thread::Builder::new().spawn(|| ());
    let _ended = tried
        .map_err(|error| {
            format!("cannot start a thread: {error}; raise the limit of threads (pids.max, TasksMax, `ulimit -u`)")
        })?
        .join();
    Ok(Arbiter::new())
}

/// Stops an arbiter, and waits until its thread has dropped everything.
pub(super) async fn end(arbiter: Arbiter) {
    arbiter.stop();
    let joined = tokio::task::spawn_blocking(move || arbiter.join());
    match tokio::time::timeout(JOIN_TIMEOUT, joined).await {
        Ok(Ok(Ok(()))) => {}
        Ok(_) => tracing::error!("worker thread panicked"),
        Err(_) => tracing::error!("worker thread did not stop in time and was abandoned"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_all_slots_and_its_end_are_logged_once_each() {
        let openings = Openings::default();
        assert!(openings.failed(false, "connection refused"));
        assert!(!openings.failed(false, "connection refused"), "another slot");
        assert!(!openings.failed(true, "connection refused"), "the same again");
        assert!(openings.failed(true, "the schema is missing"));
        assert!(!openings.failed(true, "connection refused"), "it was logged before");
        assert_eq!(openings.opened(), None, "one slot still has none");
        assert!(matches!(openings.opened(), Some((5, _))));
        assert!(openings.failed(false, "connection refused"), "this is another failure");
    }
}
