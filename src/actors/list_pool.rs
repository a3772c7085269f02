//! The handle for list operations: it routes each list to its actor, and bounds what is in flight.
//!
//! Back-pressure is a permit, not the mailbox: actix's mailbox capacity is no bound, since every
//! cloned address has a free slot in it and `send` goes past it. An operation waits a short, bounded
//! time for a permit of its actor, and takes it along until the store has finished with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Arbiter, Handler, MailboxError, Message};
use prometheus::{IntCounter, IntGauge, Registry};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::list_actor::ListActor;
use super::messages::{Add, AddOutcome, Envelope, Get, RemoveAll, RemoveValue};
pub use super::slot::SlotState;
use super::slot::{Openings, Slot};
use crate::domain::{Clock, Invalid, ListKey, Timestamp, Ttl, Value};
use crate::items::{
    ItemPage, ItemStore, Operation, PageInMemory, PermitCounts, Range, StateToken, StoreError, Validity,
};

#[derive(Debug, Clone, Copy)]
pub struct PoolOptions {
    /// List actors, each with one session and one arbiter. At least 1.
    pub actors: usize,
    /// Operations in flight in one actor. At least 1. A store may bound by itself what they do there.
    pub permits_per_actor: usize,
    /// How long an operation waits for a permit before it is refused.
    pub permit_wait: Duration,
}

/// Why a list operation did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ListError {
    /// All permits of the list's actor stayed taken. Nothing was done.
    #[error("too many operations in flight on this part of the lists")]
    Overloaded,
    /// The server is stopping and takes no more operations. Nothing was done.
    #[error("the server is stopping")]
    Draining,
    /// The list's actor has no session at present. Nothing was done.
    #[error("no item-store session: {reason}")]
    NoSession { reason: String },
    #[error("the deadline passed")]
    DeadlineExceeded { outcome_unknown: bool },
    /// One item of an add can be stored nowhere. Nothing was done.
    #[error("{invalid}")]
    ItemRefused { index: usize, invalid: Invalid },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operation panicked.
    #[error("the operation failed")]
    Panicked { outcome_unknown: bool },
}

struct PoolMetrics {
    permits_bound: IntGauge,
    permits_limit: IntGauge,
    permits_in_use: IntGauge,
    permits_waiting: IntGauge,
    permits_refused: IntCounter,
    actor_restarts: IntCounter,
}

impl PoolMetrics {
    fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let metrics = Self {
            permits_bound: gauge(
                "liststore_list_permits_bound",
                "Permits that there can be at most, of all list actors.",
            )?,
            permits_limit: gauge(
                "liststore_list_permits_limit",
                "Permits that there are at present: with a CQL cluster, as many as its latency allows.",
            )?,
            permits_in_use: gauge(
                "liststore_list_permits_in_use",
                "Permits taken: list operations in flight or, with a CQL cluster, requests that it has not ended.",
            )?,
            permits_waiting: gauge("liststore_list_permits_waiting", "List operations that wait for a permit.")?,
            permits_refused: IntCounter::new(
                "liststore_list_permits_refused_total",
                "List operations refused because no permit of their actor became free in time.",
            )?,
            actor_restarts: IntCounter::new(
                "liststore_list_actor_restarts_total",
                "List actors started in place of one that died.",
            )?,
        };
        registry.register(Box::new(metrics.permits_refused.clone()))?;
        registry.register(Box::new(metrics.actor_restarts.clone()))?;
        Ok(metrics)
    }
}

struct Inner {
    slots: Vec<Arc<Slot<ListActor>>>,
    store: Arc<dyn ItemStore>,
    clock: Arc<dyn Clock>,
    options: PoolOptions,
    metrics: PoolMetrics,
    /// Operations that wait for a permit of an actor.
    waiting: AtomicUsize,
    /// How many of the store's own refusals the metrics have counted.
    refused_by_store: AtomicU64,
    draining: AtomicBool,
    keepers: std::sync::Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

/// Whether an operation that was cut off may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
}

/// The pool of list actors. Cheap to clone; all clones are the same pool.
#[derive(Clone)]
pub struct ListPool {
    inner: Arc<Inner>,
}

impl ListPool {
    /// Starts the pool's actors. Must be called on an actix system, which must outlive the pool;
    /// returns at once: sessions open in the background, and [`ListPool::states`] tells how far
    /// they are.
    pub fn start(
        store: Arc<dyn ItemStore>,
        clock: Arc<dyn Clock>,
        options: PoolOptions,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let metrics = PoolMetrics::register(registry)?;
        let slots: Vec<_> =
            (0..options.actors.max(1)).map(|_| Arc::new(Slot::new("list actor", options.permits_per_actor))).collect();
        let openings = Arc::new(Openings::default());
        let keepers = slots
            .iter()
            .map(|slot| {
                let (store, clock, permits) = (Arc::clone(&store), Arc::clone(&clock), options.permits_per_actor);
                let open = async move |arbiter: &Arbiter| {
                    open_actor(arbiter, Arc::clone(&store), Arc::clone(&clock), permits).await
                };
                actix::spawn(Arc::clone(slot).keep(open, Arc::clone(&openings)))
            })
            .collect();
        Ok(Self {
            inner: Arc::new(Inner {
                slots,
                store,
                clock,
                options,
                metrics,
                waiting: AtomicUsize::new(0),
                refused_by_store: AtomicU64::new(0),
                draining: AtomicBool::new(false),
                keepers: std::sync::Mutex::new(keepers),
            }),
        })
    }

    /// What each actor of the pool is doing.
    pub fn states(&self) -> Vec<SlotState> {
        self.inner.slots.iter().map(|slot| (**slot.state.load()).clone()).collect()
    }

    /// Which writes the item store does not take at present, and why, if it does not take all.
    pub fn read_only(&self) -> Option<String> {
        self.inner.store.read_only()
    }

    /// What an operator should look after although operations succeed.
    pub fn warning(&self) -> Option<String> {
        self.inner.store.warning()
    }

    /// Brings the gauges that are read rather than counted up to date: before metrics are shown.
    pub fn refresh_metrics(&self) {
        let Inner { slots, store, metrics, refused_by_store, .. } = &*self.inner;
        let (permits, refused) = store.permits().unwrap_or_else(|| (self.permits(), 0));
        metrics.permits_bound.set(permits.bound as i64);
        metrics.permits_limit.set(permits.limit as i64);
        metrics.permits_in_use.set(permits.in_use as i64);
        metrics.permits_waiting.set(permits.waiting as i64);
        metrics.permits_refused.inc_by(refused.saturating_sub(refused_by_store.fetch_max(refused, Ordering::Relaxed)));
        let restarts: usize = slots.iter().map(|slot| slot.restarts()).sum();
        metrics.actor_restarts.inc_by((restarts as u64).saturating_sub(metrics.actor_restarts.get()));
    }

    /// The permits of the actors.
    fn permits(&self) -> PermitCounts {
        let Inner { slots, options, waiting, .. } = &*self.inner;
        let bound = slots.len() * options.permits_per_actor;
        let free: usize = slots.iter().map(|slot| slot.permits.available_permits()).sum();
        let in_use = bound.saturating_sub(free);
        PermitCounts { bound, limit: bound, in_use, waiting: waiting.load(Ordering::Relaxed) }
    }

    /// The state that a list is in, if its store can tell it at once.
    pub fn state(&self, list: &ListKey) -> Option<StateToken> {
        self.inner.store.state(list)
    }

    /// Get List Items, if the store can do so at once from memory, on this thread.
    pub fn get_from_memory(
        &self,
        list: &ListKey,
        ttl: Ttl,
        range: &Range,
        deadline: Instant,
    ) -> Option<(ItemPage, Option<Validity>)> {
        let op = Operation { now: self.inner.clock.now(), ttl, deadline };
        let PageInMemory { page, validity } = self.inner.store.get_from_memory(&op, list, range)?;
        Some((page, validity))
    }

    /// Get List Items: from memory if the store can, else through the list's actor. Tells for how long the
    /// page is the answer, if that is known.
    pub async fn get(
        &self,
        list: &ListKey,
        ttl: Ttl,
        range: Range,
        deadline: Instant,
    ) -> Result<(ItemPage, Option<Validity>), ListError> {
        if let Some(found) = self.get_from_memory(list, ttl, &range, deadline) {
            return Ok(found);
        }
        let message = |envelope| Get { envelope, range };
        let page = self.send(list.clone(), ttl, deadline, Effect::Read, message).await?;
        Ok((page, None))
    }

    /// Add List Items: all or none.
    #[expect(
        clippy::disallowed_methods,
        reason = "the permit is the bound, and a reply that is dropped tells of a failure"
    )]
    pub async fn add(
        &self,
        list: ListKey,
        ttl: Ttl,
        items: Vec<(Timestamp, Value)>,
        deadline: Instant,
    ) -> Result<AddOutcome, ListError> {
        let (slot, address, permit) = self.enter(&list, deadline).await?;
        let (reply, replied) = oneshot::channel();
        address.do_send(Add { envelope: Envelope { list, ttl, deadline, permit }, items, reply });
        match timeout_at(deadline, replied).await {
            Ok(Ok(result)) => result,
            Ok(Err(_unanswered)) => {
                slot.look();
                Err(ListError::Panicked { outcome_unknown: true })
            }
            Err(_) => Err(ListError::DeadlineExceeded { outcome_unknown: true }),
        }
    }

    /// Remove List Items with Value. Returns how many visible items went.
    pub async fn remove_value(
        &self,
        list: ListKey,
        ttl: Ttl,
        value: Value,
        deadline: Instant,
    ) -> Result<u64, ListError> {
        self.send(list, ttl, deadline, Effect::Write, |envelope| RemoveValue { envelope, value }).await
    }

    /// Remove All List Items.
    pub async fn remove_all(&self, list: ListKey, ttl: Ttl, deadline: Instant) -> Result<(), ListError> {
        self.send(list, ttl, deadline, Effect::Write, |envelope| RemoveAll { envelope }).await
    }

    async fn send<M, T>(
        &self,
        list: ListKey,
        ttl: Ttl,
        deadline: Instant,
        effect: Effect,
        message: impl FnOnce(Envelope) -> M,
    ) -> Result<T, ListError>
    where
        M: Message<Result = Result<T, ListError>> + Send + 'static,
        T: Send + 'static,
        ListActor: Handler<M>,
        <ListActor as actix::Actor>::Context: ToEnvelope<ListActor, M>,
    {
        let (slot, address, permit) = self.enter(&list, deadline).await?;
        match timeout_at(deadline, address.send(message(Envelope { list, ttl, deadline, permit }))).await {
            Ok(Ok(result)) => result,
            Ok(Err(MailboxError::Closed | MailboxError::Timeout)) => {
                // The operation's future panicked; the actor itself may live on.
                slot.look();
                Err(ListError::Panicked { outcome_unknown: effect == Effect::Write })
            }
            Err(_) => Err(ListError::DeadlineExceeded { outcome_unknown: effect == Effect::Write }),
        }
    }

    /// Finds the list's actor, and takes a permit of it.
    async fn enter(
        &self,
        list: &ListKey,
        deadline: Instant,
    ) -> Result<(&Slot<ListActor>, Arc<Addr<ListActor>>, OwnedSemaphorePermit), ListError> {
        let slot = &self.inner.slots[list.token().bucket(self.inner.slots.len())];
        let permit = self.permit(slot, deadline).await?;
        let Some(address) = slot.address() else {
            slot.look();
            return Err(ListError::NoSession { reason: reason_of(&slot.state.load()) });
        };
        Ok((slot, address, permit))
    }

    async fn permit(&self, slot: &Slot<ListActor>, deadline: Instant) -> Result<OwnedSemaphorePermit, ListError> {
        if self.inner.draining.load(Ordering::Acquire) {
            return Err(ListError::Draining);
        }
        if let Ok(permit) = Arc::clone(&slot.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let until = deadline.min(Instant::now() + self.inner.options.permit_wait);
        self.inner.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = scopeguard::guard((), |()| {
            self.inner.waiting.fetch_sub(1, Ordering::Relaxed);
        });
        match timeout_at(until, Arc::clone(&slot.permits).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(ListError::Draining),
            Err(_) => {
                self.inner.metrics.permits_refused.inc();
                Err(ListError::Overloaded)
            }
        }
    }

    /// Takes no more operations, waits at most `grace` for those in flight and for what the store still
    /// has at work for others, then stops the actors, drops their sessions, and joins their arbiters.
    /// Returns whether nothing was cut off.
    pub async fn stop(&self, grace: Duration) -> bool {
        self.inner.draining.store(true, Ordering::Release);
        let all = u32::try_from(self.inner.options.permits_per_actor).unwrap_or(u32::MAX);
        let until = Instant::now() + grace;
        let mut drained = true;
        for slot in &self.inner.slots {
            drained &= timeout_at(until, slot.permits.acquire_many(all)).await.is_ok();
            slot.permits.close();
        }
        drained &= timeout_at(until, self.inner.store.idle()).await.is_ok();
        for slot in &self.inner.slots {
            slot.stop();
        }
        let keepers =
            std::mem::take(&mut *self.inner.keepers.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for keeper in keepers {
            // A keeper waits for its arbiter by itself, bounded.
            drained &= timeout(Duration::from_secs(10), keeper).await.is_ok();
        }
        drained
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

fn reason_of(state: &SlotState) -> String {
    match state {
        SlotState::Starting => "it is being opened".to_owned(),
        SlotState::Live | SlotState::Replacing => "its actor is being replaced".to_owned(),
        SlotState::Failed(reason) => reason.clone(),
        SlotState::Stopped => "the server is stopping".to_owned(),
    }
}
