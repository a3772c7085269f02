//! The handle for list operations. It routes each list to its actor, and bounds the operations in flight.
//!
//! Backpressure is a permit, not the mailbox: actix's mailbox capacity is no bound, because every cloned address has a
//! free slot in it, and `send` ignores it. An operation waits a short, bounded time for a permit of its actor, and
//! keeps the permit until the store has finished.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Addr, MailboxError};
use arc_swap::ArcSwap;
use prometheus::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use super::list_actor::ListActor;
use super::list_error::ListError;
use super::permit::WorkPermit;
use super::pool_metrics::{PoolMetrics, PoolReading};
use super::pool_size::{PoolView, Resize, Resizing};
use super::pool_state::PoolState;
use super::pulse::Pulse;
use super::resize::Resizer;
use super::routing::{Admission, Routing, Seat};
use super::slot::{ActorSlot, SlotState};
use super::staff::Staff;
use super::turns::Turn;
use super::work::{AddOutcome, AddWork, AheadBound, WantedTurns, Work, WorkEffect, WorkTerms};
use crate::access::Limiter;
use crate::domain::{AheadMax, Clock, ListKey, Retention, Timestamp, Token, Value};
use crate::items::{Erased, ItemSession, ItemStore, OpContext, PermitCounts, StoreError};

/// The maximum of concurrent questions about many lists at once.
const PRESENCE_CHECKS_MAX: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct PoolOptions {
    /// List actors, each with one session and one arbiter. At least 1.
    pub actors: usize,
    /// Operations in flight in one actor. At least 1. A store may also bound their work.
    pub permits_per_actor: usize,
    /// How long an operation waits for a permit before it is refused.
    pub permit_wait: Duration,
    /// How far the timestamp of an added item may be ahead of the server's clock, unless its version has a bound.
    pub timestamp_ahead_max: AheadMax,
}

/// The pool of list actors. Cheap to clone; all clones are the same pool.
#[derive(Clone)]
pub struct ListPool {
    pub(super) inner: Arc<PoolState>,
    resizer: Resizer,
    /// Bounds the operations of this handle.
    limiter: Option<Arc<Limiter>>,
}

impl ListPool {
    /// Starts the pool's actors. Must be called on an actix system, which must outlive the pool. Returns at once:
    /// sessions open in the background, and [`ListPool::states`] shows their progress.
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
            abilities: Arc::clone(&store).abilities(),
            store,
            clock,
            permit_wait: options.permit_wait,
            timestamp_ahead_max: options.timestamp_ahead_max,
            metrics,
            waiting: AtomicUsize::new(0),
            held: Arc::default(),
            presence_checks: Arc::new(Semaphore::new(PRESENCE_CHECKS_MAX)),
            draining: AtomicBool::new(false),
            resizing: Resizing::default(),
        });
        let resizer = Resizer::start(&inner);
        Ok(Self { inner, resizer, limiter: None })
    }

    /// The same pool for one caller, with the caller's limit of operations in flight.
    pub fn limited(&self, limiter: &Arc<Limiter>) -> Self {
        Self { limiter: Some(Arc::clone(limiter)), ..self.clone() }
    }

    /// The state of each actor of the pool.
    pub fn states(&self) -> Vec<SlotState> {
        self.inner.routing.load().seats().iter().map(|seat| seat.slot.state()).collect()
    }

    /// The pool at this moment.
    pub fn view(&self) -> PoolView {
        let inner = &*self.inner;
        PoolView {
            size: inner.size(),
            permits: self.permits(),
            states: self.states(),
            resizing_to: inner.resizing.announced(),
        }
    }

    /// Changes the pool's size, and returns when it has that size. A change continues after its caller has left. It
    /// lasts until the process ends: a pool starts with the size in the settings.
    pub async fn resize(&self, resize: Resize, deadline: Instant) -> Result<(), ListError> {
        self.resizer.resize(resize, deadline).await
    }

    /// The threads of the data plane, each of which reports that it runs.
    pub fn pulse(&self) -> &Pulse {
        self.inner.staff.pulse()
    }

    /// The writes that the item store currently refuses, and the reason, if it refuses any.
    pub fn read_only(&self) -> Option<String> {
        self.inner.store.read_only()
    }

    /// Why sessions cannot be opened before `liststore migrate` was run, where that is so. The text is public.
    pub fn awaits_migration(&self) -> Option<String> {
        self.inner.abilities.migration.as_ref()?.awaits_migration()
    }

    /// A condition that an operator should fix although operations succeed.
    pub fn warning(&self) -> Option<String> {
        let warnings = [self.inner.resizing.warning(), self.inner.store.warning()];
        let warnings: Vec<_> = warnings.into_iter().flatten().collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }

    /// Updates the gauges, before metrics are shown.
    pub fn refresh_metrics(&self) {
        let PoolState { staff, held, metrics, .. } = &*self.inner;
        let (permits, refused_by_store) = self.permits_and_refusals();
        let (states, restarts) = (self.states(), staff.restarts());
        metrics.refresh(&PoolReading { permits, refused_by_store, held_nanos: held.nanos(), states, restarts });
    }

    /// The permits of the store, if it bounds its own work, or else the permits of the actors.
    pub fn permits(&self) -> PermitCounts {
        self.permits_and_refusals().0
    }

    fn permits_and_refusals(&self) -> (PermitCounts, u64) {
        let PoolState { routing, abilities, waiting, .. } = &*self.inner;
        if let Some(own) = &abilities.permits {
            return own.permits();
        }
        let routing = routing.load();
        let bound = routing.seats().len() * routing.permits_per_actor();
        let waiting = waiting.load(Ordering::Relaxed);
        (PermitCounts { bound, limit: bound, in_use: routing.in_use(), waiting }, 0)
    }

    /// Makes all earlier acknowledged writes survive a loss of power, as [`ItemStore::sync`] does.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let store = Arc::clone(&self.inner.store);
        tokio::task::spawn_blocking(move || store.sync()).await.unwrap_or_else(|_| {
            let reason = "the fsync was interrupted".to_owned();
            Err(StoreError::Internal { reason, outcome_unknown: false })
        })
    }

    /// For each of several lists, whether the item store holds anything of it. `None` if only a read of each list could
    /// find out.
    pub async fn held(&self, lists: Vec<ListKey>, deadline: Instant) -> Result<Option<Vec<bool>>, ListError> {
        let Some(erasure) = self.inner.abilities.erasure.clone() else { return Ok(None) };
        let presence_checks = Arc::clone(&self.inner.presence_checks);
        let checking = async move {
            let place = presence_checks.acquire_owned().await.map_err(|_| ListError::Draining)?;
            let held = tokio::task::spawn_blocking(move || {
                // Until the thread is free, even if the caller has left.
                let _place = place;
                erasure.held(&lists, deadline)
            });
            Ok::<_, ListError>(held.await.unwrap_or_else(|_| {
                let reason = "the check of several lists was interrupted".to_owned();
                Err(StoreError::Internal { reason, outcome_unknown: false })
            })?)
        };
        let late = |_| Err(ListError::DeadlineExceeded { outcome_unknown: false });
        timeout_at(deadline, checking).await.unwrap_or_else(late)
    }

    /// Frees the bytes of removed items in the item store, if it can. Blocks.
    pub fn erase_removed(&self) -> Result<Erased, StoreError> {
        self.inner.abilities.erasure.as_ref().map_or(Ok(Erased::Later), |erasure| erasure.erase_removed())
    }

    /// Schedules that the item store frees the bytes of removed items, and returns the date until which it does. Blocks
    /// on the disk.
    pub fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.inner.abilities.erasure.as_ref().map_or(Ok(None), |erasure| erasure.erase_in_time())
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
        let (admission, seat) = self.route(list.token(), deadline).await?;
        let (slot, address, permit) = self.enter(admission, seat, deadline).await?;
        let (reply, replied) = oneshot::channel();
        address.do_send(AddWork {
            list,
            retention: retention.into(),
            deadline,
            permit,
            items,
            ahead_max: AheadBound::of(ahead_max, self.inner.timestamp_ahead_max),
            reply,
        });
        match timeout_at(deadline, replied).await {
            Ok(Ok(result)) => result,
            Ok(Err(_unanswered)) => {
                slot.notify_supervisor();
                Err(ListError::Panicked { outcome_unknown: true })
            }
            Err(_) => Err(ListError::DeadlineExceeded { outcome_unknown: true }),
        }
    }

    /// Runs an operation that only reads a list: in the list's actor, with its session.
    pub async fn read<T: Send + 'static>(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        deadline: Instant,
        run: impl AsyncFnOnce(&dyn ItemSession, &OpContext, &ListKey) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ListError> {
        let token = list.token();
        let run = async move |session: &dyn ItemSession, op: &OpContext| run(session, op, &list).await;
        self.deliver(token, WorkTerms::of_read(retention, deadline), run).await
    }

    /// Runs an operation that writes to a list: in the list's actor, with its session, in a turn.
    pub async fn write<T: Send + 'static>(
        &self,
        list: ListKey,
        turn: Turn,
        retention: impl Into<Retention>,
        deadline: Instant,
        run: impl AsyncFnOnce(&dyn ItemSession, &OpContext, &ListKey) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ListError> {
        let (token, turns) = (list.token(), WantedTurns::On(list.clone(), turn));
        let run = async move |session: &dyn ItemSession, op: &OpContext| run(session, op, &list).await;
        self.deliver(token, WorkTerms::of_write(retention, deadline, turns), run).await
    }

    /// Runs an operation in the actor of a token.
    pub(super) async fn deliver<T: Send + 'static>(
        &self,
        token: Token,
        terms: WorkTerms,
        run: impl AsyncFnOnce(&dyn ItemSession, &OpContext) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ListError> {
        let (admission, seat) = self.route(token, terms.deadline).await?;
        self.deliver_to(admission, seat, terms, run).await
    }

    /// Runs an operation in the actor of a seat.
    pub(super) async fn deliver_to<T: Send + 'static>(
        &self,
        admission: Admission,
        seat: usize,
        terms: WorkTerms,
        run: impl AsyncFnOnce(&dyn ItemSession, &OpContext) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ListError> {
        let (deadline, outcome_unknown) = (terms.deadline, terms.effect == WorkEffect::Write);
        let (slot, address, permit) = self.enter(admission, seat, deadline).await?;
        let sent = address.send(Work { terms, permit, run, answer: PhantomData });
        match timeout_at(deadline, sent).await {
            Ok(Ok(result)) => result,
            Ok(Err(MailboxError::Closed | MailboxError::Timeout)) => {
                // The operation's future panicked. The actor itself may continue.
                slot.notify_supervisor();
                Err(ListError::Panicked { outcome_unknown })
            }
            Err(_) => Err(ListError::DeadlineExceeded { outcome_unknown }),
        }
    }

    /// Finds the seat of a token.
    async fn route(&self, token: Token, deadline: Instant) -> Result<(Admission, usize), ListError> {
        let admission = Admission::enter(&self.inner.routing, std::iter::once(token));
        if !admission.routing.settled(token, deadline).await {
            return Err(ListError::DeadlineExceeded { outcome_unknown: false });
        }
        let seat = admission.routing.place_of(token);
        Ok((admission, seat))
    }

    /// Takes a permit of the actor of a seat.
    async fn enter(
        &self,
        admission: Admission,
        seat: usize,
        deadline: Instant,
    ) -> Result<(Arc<ActorSlot<ListActor>>, Arc<Addr<ListActor>>, WorkPermit), ListError> {
        let Admission { routing, counted } = admission;
        let seat = &routing.seats()[seat];
        // The caller's share is held as long as the permit.
        let permits = self.inner.permits_per_actor(&routing);
        let share = self.limiter.as_ref().map_or(Ok(None), |limiter| limiter.begin(permits))?;
        let place = self.place(seat, deadline).await?;
        let slot = Arc::clone(&seat.slot);
        let Some(address) = slot.address() else {
            slot.notify_supervisor();
            return Err(ListError::NoSession { reason: reason_of(&slot.state()) });
        };
        Ok((slot, address, WorkPermit::new(place, share, routing, counted, Arc::clone(&self.inner.held))))
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

    /// Accepts no more operations. Waits at most `grace` for the operations in flight and for the store's work for
    /// callers who have left. Then stops the actors, drops their sessions, and joins their arbiters. Returns whether no
    /// work was cut off.
    pub async fn stop(&self, grace: Duration) -> bool {
        let inner = &*self.inner;
        inner.draining.store(true, Ordering::Release);
        let until = Instant::now() + grace;
        // A change of the pool that begins now sees that it is stopping, and fails.
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

fn reason_of(state: &SlotState) -> String {
    match state {
        SlotState::Starting => "the actor is starting".to_owned(),
        SlotState::Live | SlotState::Replacing => "the actor is being replaced".to_owned(),
        SlotState::Failed { reason, .. } => reason.clone(),
        SlotState::Stopped => "the server is stopping".to_owned(),
    }
}
