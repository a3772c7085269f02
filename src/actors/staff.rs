//! The slots of the pool's list actors. A new slot starts an actor on a separate arbiter, with a separate session, and
//! its supervisor replaces the actor when it dies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::{Actor, Addr, Arbiter};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::list_actor::ListActor;
use super::pulse::Pulse;
use super::slot::{ActorSlot, Openings};
use crate::domain::Clock;
use crate::items::{ItemStore, StoreError};

/// How long a slot may take to stop. Its supervisor also waits for the arbiter, within a bound.
const DISMISSAL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Staff {
    store: Arc<dyn ItemStore>,
    clock: Arc<dyn Clock>,
    openings: Arc<Openings>,
    /// Of the actors' threads.
    pulse: Pulse,
    members: Mutex<Vec<StaffMember>>,
    /// Restarts in slots that were removed.
    past_restarts: AtomicUsize,
}

struct StaffMember {
    slot: Arc<ActorSlot<ListActor>>,
    supervisor: JoinHandle<()>,
}

impl Staff {
    pub fn new(store: Arc<dyn ItemStore>, clock: Arc<dyn Clock>) -> Self {
        let (openings, pulse, members) = (Arc::default(), Pulse::default(), Mutex::default());
        Self { store, clock, openings, pulse, members, past_restarts: AtomicUsize::new(0) }
    }

    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    fn members(&self) -> MutexGuard<'_, Vec<StaffMember>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a slot whose actor starts in the background. Must be called on the system's arbiter, which outlives the
    /// arbiters of the actors.
    pub fn hire(&self) -> Arc<ActorSlot<ListActor>> {
        let slot = Arc::new(ActorSlot::new("list actor"));
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let pulse = self.pulse.clone();
        let open = async move |arbiter: &Arbiter| {
            let beat = pulse.beat();
            arbiter.spawn(beat);
            open_actor(arbiter, Arc::clone(&store), Arc::clone(&clock)).await
        };
        let supervisor = actix::spawn(Arc::clone(&slot).supervise(open, Arc::clone(&self.openings)));
        self.members().push(StaffMember { slot: Arc::clone(&slot), supervisor });
        slot
    }

    /// Stops the actors of some slots, drops their sessions, and joins their arbiters. Returns whether all stopped in
    /// time.
    pub async fn dismiss(&self, slots: &[Arc<ActorSlot<ListActor>>]) -> bool {
        let is_dismissed = |member: &mut StaffMember| slots.iter().any(|slot| Arc::ptr_eq(slot, &member.slot));
        let leaving: Vec<_> = self.members().extract_if(.., is_dismissed).collect();
        self.end(leaving).await
    }

    pub async fn dismiss_all(&self) -> bool {
        let leaving = std::mem::take(&mut *self.members());
        self.end(leaving).await
    }

    async fn end(&self, leaving: Vec<StaffMember>) -> bool {
        for member in &leaving {
            member.slot.stop();
        }
        let mut in_time = true;
        for StaffMember { slot, supervisor } in leaving {
            in_time &= timeout(DISMISSAL_TIMEOUT, supervisor).await.is_ok();
            self.past_restarts.fetch_add(slot.restarts(), Ordering::Relaxed);
        }
        in_time
    }

    /// How many actors were started to replace a dead one.
    pub fn restarts(&self) -> usize {
        let present: usize = self.members().iter().map(|member| member.slot.restarts()).sum();
        present + self.past_restarts.load(Ordering::Relaxed)
    }
}

/// Opens a session inside the arbiter, so that its I/O runs there, and starts the actor with it.
async fn open_actor(
    arbiter: &Arbiter,
    store: Arc<dyn ItemStore>,
    clock: Arc<dyn Clock>,
) -> Result<Addr<ListActor>, String> {
    let (ready, opened) = oneshot::channel();
    arbiter.spawn_fn(move || {
        actix::spawn(async move {
            let actor = store.open_session().await.map(|session| ListActor::new(session, clock).start());
            // No supervisor waits if the pool has stopped.
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
