//! The handle for list operations: it routes each list to its actor, and bounds what is in flight.
//!
//! Back-pressure is a permit, not the mailbox: actix's mailbox capacity is no bound, since every
//! cloned address has a free slot in it and `send` goes past it. An operation waits a short, bounded
//! time for a permit of its actor, and takes it along until the store has finished with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Addr, Handler, MailboxError, Message};
use arc_swap::ArcSwap;
use bytes::Bytes;
use prometheus::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::list_actor::ListActor;
use super::list_error::ListError;
use super::messages::{
    Add, AddOutcome, AheadBound, Contains, Count, Entities, Envelope, Get, Lookup, Remove, RemoveAll,
};
use super::permit::Permit;
use super::pool_metrics::{Found, PoolMetrics};
use super::pool_size::{PoolView, Resize, Resizing};
use super::pool_state::PoolState;
use super::resize::Resizer;
use super::routing::{Routing, Seat};
use super::slot::{Slot, SlotState};
use super::staff::Staff;
use crate::access::Limiter;
use crate::domain::{AheadMax, Clock, FeatureKey, Item, ListKey, Retention, Timestamp, Token, Value};
use crate::items::{
    self, Bounds, EntityPage, EntityPlace, Erased, ItemPage, ItemStore, Operation, PageInMemory, PermitCounts, Range,
    Removal, StateToken, StoreError, Validity,
};

/// Looks at many lists at once that are under way, at most.
const LOOKS_MAX: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct PoolOptions {
    /// List actors, each with one session and one arbiter. At least 1.
    pub actors: usize,
    /// Operations in flight in one actor. At least 1. A store may bound by itself what they do there.
    pub permits_per_actor: usize,
    /// How long an operation waits for a permit before it is refused.
    pub permit_wait: Duration,
    /// How far the timestamp of an added item may be ahead of the server's clock, where its version does not say.
    pub timestamp_ahead_max: AheadMax,
}

/// Whether an operation that was cut off may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    Write,
}

/// The pool of list actors. Cheap to clone; all clones are the same pool.
#[derive(Clone)]
pub struct ListPool {
    pub(super) inner: Arc<PoolState>,
    resizer: Resizer,
    /// What bounds the operations that come by way of this handle.
    limiter: Option<Arc<Limiter>>,
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
        let staff = Staff::new(Arc::clone(&store), Arc::clone(&clock));
        let slots = (0..options.actors.max(1)).map(|_| staff.hire()).collect();
        let inner = Arc::new(PoolState {
            routing: ArcSwap::from_pointee(Routing::first(slots, options.permits_per_actor)),
            staff,
            store,
            clock,
            permit_wait: options.permit_wait,
            timestamp_ahead_max: options.timestamp_ahead_max,
            metrics,
            waiting: AtomicUsize::new(0),
            held: Arc::default(),
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
            draining: AtomicBool::new(false),
            resizing: Resizing::default(),
        });
        let resizer = Resizer::start(&inner);
        Ok(Self { inner, resizer, limiter: None })
    }

    /// The same pool for one caller, who may have so many operations at work at once.
    pub fn limited(&self, limiter: &Arc<Limiter>) -> Self {
        Self { limiter: Some(Arc::clone(limiter)), ..self.clone() }
    }

    /// What each actor of the pool is doing.
    pub fn states(&self) -> Vec<SlotState> {
        self.inner.routing.load().seats().iter().map(|seat| seat.slot.state()).collect()
    }

    /// Its size, and what it is doing.
    pub fn view(&self) -> PoolView {
        let inner = &*self.inner;
        PoolView {
            size: inner.size(),
            permits: self.permits(),
            states: self.states(),
            resizing_to: inner.resizing.announced(),
        }
    }

    /// Changes the pool's size, and returns when it has that size. A change goes on when its caller has left, and
    /// ends with the process: the settings say what a pool begins with.
    pub async fn resize(&self, resize: Resize, deadline: Instant) -> Result<(), ListError> {
        self.resizer.resize(resize, deadline).await
    }

    /// Which writes the item store does not take at present, and why, if it does not take all.
    pub fn read_only(&self) -> Option<String> {
        self.inner.store.read_only()
    }

    /// What `liststore migrate` is to do before there are sessions, in words for anybody.
    pub fn awaits_migration(&self) -> Option<String> {
        self.inner.store.awaits_migration()
    }

    /// What an operator should look after although operations succeed.
    pub fn warning(&self) -> Option<String> {
        let warnings = [self.inner.resizing.warning(), self.inner.store.warning()];
        let warnings: Vec<_> = warnings.into_iter().flatten().collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }

    /// Brings what is read rather than counted up to date: before metrics are shown.
    pub fn refresh_metrics(&self) {
        let PoolState { staff, held, metrics, .. } = &*self.inner;
        let (permits, refused_by_store) = self.permits_and_refusals();
        let (states, restarts) = (self.states(), staff.restarts());
        metrics.refresh(&Found { permits, refused_by_store, held_nanos: held.nanos(), states, restarts });
    }

    /// The permits of the store, if it bounds its own work, or else those of the actors.
    pub fn permits(&self) -> PermitCounts {
        self.permits_and_refusals().0
    }

    fn permits_and_refusals(&self) -> (PermitCounts, u64) {
        let PoolState { routing, store, waiting, .. } = &*self.inner;
        store.permits().unwrap_or_else(|| {
            let routing = routing.load();
            let bound = routing.seats().len() * routing.permits_per_actor();
            let waiting = waiting.load(Ordering::Relaxed);
            (PermitCounts { bound, limit: bound, in_use: routing.in_use(), waiting }, 0)
        })
    }

    /// Makes all that was acknowledged before the call survive a loss of power, as [`ItemStore::sync`] does.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let store = Arc::clone(&self.inner.store);
        tokio::task::spawn_blocking(move || store.sync()).await.unwrap_or_else(|_| {
            let reason = "the fsync was interrupted".to_owned();
            Err(StoreError::Internal { reason, outcome_unknown: false })
        })
    }

    /// Those of several lists that the item store holds anything of, by their places; `None` if it cannot tell at once.
    pub async fn held(&self, lists: Vec<ListKey>, deadline: Instant) -> Result<Option<Vec<bool>>, ListError> {
        let (store, looks) = (Arc::clone(&self.inner.store), Arc::clone(&self.inner.looks));
        let looking = async move {
            let place = looks.acquire_owned().await.map_err(|_| ListError::Draining)?;
            let held = tokio::task::spawn_blocking(move || {
                // Until the thread is free, whether or not anybody waits for it.
                let _place = place;
                store.held(&lists, deadline)
            });
            Ok::<_, ListError>(held.await.unwrap_or_else(|_| {
                let reason = "the look at several lists was interrupted".to_owned();
                Err(StoreError::Internal { reason, outcome_unknown: false })
            })?)
        };
        let late = |_| Err(ListError::DeadlineExceeded { outcome_unknown: false });
        timeout_at(deadline, looking).await.unwrap_or_else(late)
    }

    /// Has the item store give back at once what removals have left. Blocks.
    pub fn erase_removed(&self) -> Result<Erased, StoreError> {
        self.inner.store.erase_removed()
    }

    /// Has the item store give back until a date what removals have left. Blocks on the disk.
    pub fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.inner.store.erase_in_time()
    }

    /// The state that a list is in, if its store can tell it at once.
    pub fn state(&self, list: &ListKey) -> Option<StateToken> {
        self.inner.store.state(list)
    }

    /// Get List Items, if the store can do so at once from memory, on this thread.
    pub fn get_from_memory(
        &self,
        list: &ListKey,
        retention: impl Into<Retention>,
        range: &Range,
        deadline: Instant,
    ) -> Option<(ItemPage, Option<Validity>)> {
        let op = Operation::new(self.inner.clock.now(), retention, deadline);
        let PageInMemory { page, validity } = self.inner.store.get_from_memory(&op, list, range)?;
        Some((page, validity))
    }

    /// Get List Items: from memory if the store can, else through the list's actor. Tells for how long the
    /// page is the answer, if that is known.
    pub async fn get(
        &self,
        list: &ListKey,
        retention: impl Into<Retention>,
        range: Range,
        deadline: Instant,
    ) -> Result<(ItemPage, Option<Validity>), ListError> {
        let retention = retention.into();
        if let Some(found) = self.get_from_memory(list, retention, &range, deadline) {
            return Ok(found);
        }
        let page = self.get_through_actor(list, retention, range, deadline).await?;
        Ok((page, None))
    }

    /// Get List Items through the list's actor, where the page is known not to be in memory.
    pub async fn get_through_actor(
        &self,
        list: &ListKey,
        retention: impl Into<Retention>,
        range: Range,
        deadline: Instant,
    ) -> Result<ItemPage, ListError> {
        let message = |envelope| Get { envelope, range };
        self.send(list.clone(), retention.into(), deadline, Effect::Read, message).await
    }

    /// Add List Items: all or none. `ahead_max` is the version's own bound on timestamps, if it has one.
    #[expect(
        clippy::disallowed_methods,
        reason = "the permit bounds the channel, and a dropped reply reports a failure"
    )]
    pub async fn add(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        ahead_max: Option<AheadMax>,
        items: Vec<(Timestamp, Value)>,
        deadline: Instant,
    ) -> Result<AddOutcome, ListError> {
        let (routing, seat) = self.route(list.token(), deadline).await?;
        let (slot, address, permit) = self.enter(routing, seat, deadline).await?;
        let (reply, replied) = oneshot::channel();
        address.do_send(Add {
            envelope: Envelope { list, retention: retention.into(), deadline, permit },
            items,
            ahead_max: AheadBound::of(ahead_max, self.inner.timestamp_ahead_max),
            reply,
        });
        match timeout_at(deadline, replied).await {
            Ok(Ok(result)) => result,
            Ok(Err(_unanswered)) => {
                slot.look();
                Err(ListError::Panicked { outcome_unknown: true })
            }
            Err(_) => Err(ListError::DeadlineExceeded { outcome_unknown: true }),
        }
    }

    /// The newest visible item of each of these values within the bounds, in the order of the values.
    pub async fn contains(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        within: Bounds,
        values: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Vec<Option<Timestamp>>, ListError> {
        self.send(list, retention.into(), deadline, Effect::Read, |envelope| Contains { envelope, within, values })
            .await
    }

    /// The visible item of each of these members of a set, in the order of the members.
    pub async fn lookup(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        members: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Vec<Option<Item>>, ListError> {
        let retention = retention.into();
        let op = Operation::new(self.inner.clock.now(), retention, deadline);
        if let Some(found) = self.inner.store.lookup_from_memory(&op, &list, &members) {
            return Ok(found);
        }
        self.send(list, retention, deadline, Effect::Read, |envelope| Lookup { envelope, members }).await
    }

    /// How many visible items there are within the bounds, as far as `max`.
    pub async fn count(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        within: Bounds,
        max: u64,
        deadline: Instant,
    ) -> Result<items::Count, ListError> {
        self.send(list, retention.into(), deadline, Effect::Read, |envelope| Count { envelope, within, max }).await
    }

    /// Remove List Items. Returns how many visible items went.
    pub async fn remove(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        removal: Removal,
        deadline: Instant,
    ) -> Result<u64, ListError> {
        self.send(list, retention.into(), deadline, Effect::Write, |envelope| Remove { envelope, removal }).await
    }

    /// Remove All List Items.
    pub async fn remove_all(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        deadline: Instant,
    ) -> Result<(), ListError> {
        self.send(list, retention.into(), deadline, Effect::Write, |envelope| RemoveAll { envelope }).await
    }

    /// The entities that have lists of a feature version with visible items, from a place on.
    pub async fn entities(
        &self,
        feature_key: FeatureKey,
        retention: impl Into<Retention>,
        from: Option<EntityPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<EntityPage, ListError> {
        let retention = retention.into();
        let token = token_of_walk(&feature_key, from.as_ref());
        let message = |permit| Entities { feature_key, retention, from, limit, deadline, permit };
        self.deliver(token, deadline, Effect::Read, message).await
    }

    pub(super) async fn send<M, T>(
        &self,
        list: ListKey,
        retention: Retention,
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
        let message = |list, permit| message(Envelope { list, retention, deadline, permit });
        self.deliver(list.token(), deadline, effect, |permit| message(list, permit)).await
    }

    pub(super) async fn deliver<M, T>(
        &self,
        token: Token,
        deadline: Instant,
        effect: Effect,
        message: impl FnOnce(Permit) -> M,
    ) -> Result<T, ListError>
    where
        M: Message<Result = Result<T, ListError>> + Send + 'static,
        T: Send + 'static,
        ListActor: Handler<M>,
        <ListActor as actix::Actor>::Context: ToEnvelope<ListActor, M>,
    {
        let (routing, seat) = self.route(token, deadline).await?;
        self.deliver_to(routing, seat, deadline, effect, message).await
    }

    /// To the actor of a seat.
    pub(super) async fn deliver_to<M, T>(
        &self,
        routing: Arc<Routing>,
        seat: usize,
        deadline: Instant,
        effect: Effect,
        message: impl FnOnce(Permit) -> M,
    ) -> Result<T, ListError>
    where
        M: Message<Result = Result<T, ListError>> + Send + 'static,
        T: Send + 'static,
        ListActor: Handler<M>,
        <ListActor as actix::Actor>::Context: ToEnvelope<ListActor, M>,
    {
        let (slot, address, permit) = self.enter(routing, seat, deadline).await?;
        match timeout_at(deadline, address.send(message(permit))).await {
            Ok(Ok(result)) => result,
            Ok(Err(MailboxError::Closed | MailboxError::Timeout)) => {
                // The operation's future panicked; the actor itself may live on.
                slot.look();
                Err(ListError::Panicked { outcome_unknown: effect == Effect::Write })
            }
            Err(_) => Err(ListError::DeadlineExceeded { outcome_unknown: effect == Effect::Write }),
        }
    }

    /// Finds the seat of a token.
    async fn route(&self, token: Token, deadline: Instant) -> Result<(Arc<Routing>, usize), ListError> {
        let routing = self.inner.routing.load_full();
        if !routing.settled(token, deadline).await {
            return Err(ListError::DeadlineExceeded { outcome_unknown: false });
        }
        let seat = routing.place_of(token);
        Ok((routing, seat))
    }

    /// Takes a permit of the actor of a seat.
    async fn enter(
        &self,
        routing: Arc<Routing>,
        seat: usize,
        deadline: Instant,
    ) -> Result<(Arc<Slot<ListActor>>, Arc<Addr<ListActor>>, Permit), ListError> {
        let seat = &routing.seats()[seat];
        // Beside the permit, and for as long.
        let permits = self.inner.store.permits_per_session().unwrap_or_else(|| routing.permits_per_actor());
        let share = self.limiter.as_ref().map_or(Ok(None), |limiter| limiter.begin(permits))?;
        let place = self.place(seat, deadline).await?;
        let slot = Arc::clone(&seat.slot);
        let Some(address) = slot.address() else {
            slot.look();
            return Err(ListError::NoSession { reason: reason_of(&slot.state()) });
        };
        Ok((slot, address, Permit::new(place, share, routing, Arc::clone(&self.inner.held))))
    }

    async fn place(&self, seat: &Seat, deadline: Instant) -> Result<OwnedSemaphorePermit, ListError> {
        if self.inner.is_draining() {
            return Err(ListError::Draining);
        }
        if let Ok(place) = Arc::clone(&seat.permits).try_acquire_owned() {
            return Ok(place);
        }
        let began = Instant::now();
        let until = deadline.min(began + self.inner.permit_wait);
        self.inner.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = scopeguard::guard((), |()| {
            self.inner.waiting.fetch_sub(1, Ordering::Relaxed);
            self.inner.metrics.waited(began.elapsed().as_secs_f64());
        });
        match timeout_at(until, Arc::clone(&seat.permits).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(ListError::Draining),
            Err(_) => {
                self.inner.metrics.refused();
                Err(ListError::Overloaded)
            }
        }
    }

    /// Takes no more operations, waits at most `grace` for those in flight and for what the store still
    /// has at work for others, then stops the actors, drops their sessions, and joins their arbiters.
    /// Returns whether nothing was cut off.
    pub async fn stop(&self, grace: Duration) -> bool {
        let inner = &*self.inner;
        inner.draining.store(true, Ordering::Release);
        let until = Instant::now() + grace;
        // Whoever changes the pool now sees that it is stopping, and leaves.
        let (_unchanging, mut drained) = match timeout_at(until, inner.resizing.turn()).await {
            Ok(turn) => (Some(turn), true),
            Err(_) => (None, false),
        };
        let routing = inner.routing.load_full();
        drained &= routing.before_ended(until).await;
        let all = u32::try_from(routing.permits_per_actor()).unwrap_or(u32::MAX);
        for seat in routing.seats() {
            drained &= timeout_at(until, seat.permits.acquire_many(all)).await.is_ok();
            seat.permits.close();
        }
        drained &= timeout_at(until, inner.store.idle()).await.is_ok();
        drained & inner.staff.dismiss_all().await
    }
}

/// Each part of a walk is another actor's.
pub(super) fn token_of_walk(feature_key: &FeatureKey, from: Option<&EntityPlace>) -> Token {
    let hash = from.map_or(0, |from| from.hash);
    Token::of_bytes(&[feature_key.as_str().as_bytes(), &hash.to_be_bytes()].concat())
}

fn reason_of(state: &SlotState) -> String {
    match state {
        SlotState::Starting => "the actor is starting".to_owned(),
        SlotState::Live | SlotState::Replacing => "the actor is being replaced".to_owned(),
        SlotState::Failed { reason, .. } => reason.clone(),
        SlotState::Stopped => "the server is stopping".to_owned(),
    }
}
