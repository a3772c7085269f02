//! Changes the number of list actors and the operations that each accepts, while operations continue.
//!
//! One change at a time, on the system's arbiter, whether or not its caller still waits:
//!
//! 1. New actors open their sessions. If one cannot, all new actors are stopped again, and nothing has changed.
//! 2. The routing changes. A list that moves to another actor waits until its operations in the old actor have ended
//!    (see `routing`). The operations of other lists continue.
//! 3. When the last operation of the previous routing has ended, actors without lists are stopped. The next change
//!    waits for that. A list waits only for the routing before its current one, so with a second change in progress it
//!    could have two sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::list_actor::ListActor;
use super::list_error::ListError;
use super::pool_size::{PoolSize, Resize};
use super::pool_state::PoolState;
use super::routing::Routing;
use super::slot::{ActorSlot, SlotState};

/// How long new sessions may take to open.
const OPENING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long operations of the previous routing may take until the log reports them.
const SETTLING_PATIENCE: Duration = Duration::from_secs(60);
/// How often a change checks whether the pool is stopping.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Changes that may wait for the one in progress.
const WAITING_MAX: usize = 8;

struct ResizeCall {
    resize: Resize,
    claim: Arc<Claim>,
    reply: oneshot::Sender<Result<(), ListError>>,
}

/// The claim on a waiting change: either the pool begins it, or its caller withdraws it.
#[derive(Default)]
struct Claim(AtomicBool);

impl Claim {
    /// Whether the caller of this function is the first.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The handle that requests changes.
#[derive(Clone)]
pub(super) struct Resizer(mpsc::Sender<ResizeCall>);

impl Resizer {
    /// Must be called on the system's arbiter. Ends with the pool.
    pub fn start(pool: &Arc<PoolState>) -> Self {
        let (calls, mut called) = mpsc::channel::<ResizeCall>(WAITING_MAX);
        let pool = Arc::downgrade(pool);
        actix::spawn(async move {
            while let Some(ResizeCall { resize, claim, reply }) = called.recv().await {
                if !claim.take() {
                    continue;
                }
                let Some(pool) = Weak::upgrade(&pool) else { return };
                let done = pool.resize(resize).await;
                // A caller who has left reads the size of the pool instead.
                let _ = reply.send(done);
            }
        });
        Self(calls)
    }

    /// Requests a change, and returns when it is made. A change that has not begun by the deadline is not made.
    pub async fn resize(&self, resize: Resize, deadline: Instant) -> Result<(), ListError> {
        let (reply, replied) = oneshot::channel();
        let claim = Arc::new(Claim::default());
        match timeout_at(deadline, self.0.send(ResizeCall { resize, claim: Arc::clone(&claim), reply })).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(ListError::Draining),
            Err(_) => return Err(ListError::Resizing),
        }
        match timeout_at(deadline, replied).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(ListError::Draining),
            Err(_) if claim.take() => Err(ListError::Resizing),
            Err(_) => Err(ListError::DeadlineExceeded { outcome_unknown: true }),
        }
    }
}

impl PoolState {
    async fn resize(&self, resize: Resize) -> Result<(), ListError> {
        let _turn = self.resizing.turn().await;
        if self.is_draining() {
            return Err(ListError::Draining);
        }
        let from = self.size();
        let to = PoolSize {
            actors: resize.actors.unwrap_or(from.actors).max(1),
            permits_per_actor: resize.permits_per_actor.unwrap_or(from.permits_per_actor).max(1),
        };
        if to == from {
            return Ok(());
        }
        self.resizing.announce(Some(to));
        let _announced = scopeguard::guard((), |()| self.resizing.announce(None));
        self.change(from, to).await?;
        tracing::info!(
            actors_before = from.actors,
            actors = to.actors,
            permits_per_actor = to.permits_per_actor,
            "list pool resized"
        );
        Ok(())
    }

    async fn change(&self, from: PoolSize, to: PoolSize) -> Result<(), ListError> {
        let before = self.routing.load_full();
        let mut slots = before.slots();
        let hired: Vec<_> = (from.actors..to.actors).map(|_| self.staff.hire()).collect();
        let until = Instant::now() + OPENING_TIMEOUT;
        for slot in &hired {
            if let Err(reason) = self.live(slot, until).await {
                self.staff.dismiss(&hired).await;
                return Err(reason);
            }
        }
        slots.extend(hired);
        let dismissed = slots.split_off(to.actors.min(slots.len()));
        // In front of a store that bounds its own work, actors only bound the number of operations.
        let permits = match &self.abilities.permits {
            None => to.permits_per_actor,
            Some(own) => {
                if to.permits_per_actor != from.permits_per_actor {
                    own.set_permits_per_session(to.permits_per_actor);
                }
                before.permits_per_actor()
            }
        };
        let next = Arc::new(before.next(slots, permits));
        self.routing.store(Arc::clone(&next));
        drop(before);
        self.settle(&next).await?;
        self.staff.dismiss(&dismissed).await;
        Ok(())
    }

    /// Waits for the operations of the previous routing. A pool that stops also waits for them.
    async fn settle(&self, routing: &Routing) -> Result<(), ListError> {
        let began = Instant::now();
        let mut is_reported = false;
        while !routing.before_ended(Instant::now() + CHECK_INTERVAL).await {
            if self.is_draining() {
                return Err(ListError::Draining);
            }
            if !is_reported && began.elapsed() >= SETTLING_PATIENCE {
                is_reported = true;
                tracing::warn!(
                    "operations on the previous list pool are still running: their lists, if they moved, and the next \
                     resize wait for them"
                );
            }
        }
        Ok(())
    }

    /// Waits until a new actor lives.
    async fn live(&self, slot: &ActorSlot<ListActor>, until: Instant) -> Result<(), ListError> {
        loop {
            let until_check = until.min(Instant::now() + CHECK_INTERVAL);
            if timeout_at(until_check, slot.live()).await.is_ok() {
                return Ok(());
            }
            if self.is_draining() {
                return Err(ListError::Draining);
            }
            match slot.state() {
                SlotState::Failed { reason, .. } => return Err(ListError::NotResized { reason }),
                _ if Instant::now() >= until => {
                    let reason = format!("not open after {} s", OPENING_TIMEOUT.as_secs());
                    return Err(ListError::NotResized { reason });
                }
                _ => {}
            }
        }
    }
}
