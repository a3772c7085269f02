//! Permits: the requests that a session has with the cluster at once. One permit is one request, from when it is sent
//! until it has ended or its connection broke, with or without a waiting caller. So permits bound the work of the
//! database, and not the waiting of callers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::limit::{Ended, Limit};
use crate::items::cql::options::CqlOptions;
use crate::items::{PermitCounts, StoreError};

/// The permits of one session.
#[derive(Debug)]
pub struct Permits {
    free: Arc<Semaphore>,
    state: Mutex<State>,
    wait: Duration,
    waiting: AtomicUsize,
    refused: Arc<AtomicU64>,
    /// Notified when the last permit in use has been returned.
    idle: Notify,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    /// The limit when permits were last added or removed.
    counted_out: usize,
    /// Permits beyond the limit: they are removed when they are returned.
    surplus: usize,
    in_use: usize,
}

/// Leave to have one request with the cluster.
#[derive(Debug)]
pub struct Permit {
    permits: Arc<Permits>,
    place: Option<OwnedSemaphorePermit>,
}

impl Permits {
    /// At most `bound`, each waited for at most `wait`. Refusals are counted in `refused`.
    pub fn new(bound: usize, wait: Duration, refused: Arc<AtomicU64>) -> Arc<Self> {
        let limit = Limit::new(bound, Instant::now().into_std());
        let counted_out = limit.now();
        let free = Arc::new(Semaphore::new(counted_out));
        let state = Mutex::new(State { limit, counted_out, surplus: 0, in_use: 0 });
        Arc::new(Self { free, state, wait, waiting: AtomicUsize::new(0), refused, idle: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit, if one is free and no caller waits for it.
    pub fn try_take(self: &Arc<Self>) -> Option<Permit> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(|place| self.taken(place))
    }

    /// A permit, in the order of asking, or a refusal once its time to wait is over, or at the deadline.
    pub async fn take(self: &Arc<Self>, deadline: Option<Instant>) -> Result<Permit, StoreError> {
        if let Some(permit) = self.try_take() {
            return Ok(permit);
        }
        let until = Instant::now() + self.wait;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = scopeguard::guard((), |()| {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        });
        match timeout_at(until, Arc::clone(&self.free).acquire_owned()).await {
            Ok(Ok(place)) => Ok(self.taken(place)),
            _ => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let reason = "too many unfinished requests to the cluster".to_owned();
                Err(StoreError::Overloaded { reason })
            }
        }
    }

    /// A permit for an operation that has one already: in the order of asking, or none by the deadline.
    pub async fn take_another(self: Arc<Self>, deadline: Instant) -> Option<Permit> {
        let place = timeout_at(deadline, Arc::clone(&self.free).acquire_owned()).await;
        place.ok().and_then(Result::ok).map(|place| self.taken(place))
    }

    /// Waits until no permit is out.
    async fn idle(&self) {
        loop {
            let rung = self.idle.notified();
            tokio::pin!(rung);
            // Before the look, so that none is missed.
            rung.as_mut().enable();
            if self.state().in_use == 0 {
                return;
            }
            rung.await;
        }
    }

    fn taken(self: &Arc<Self>, place: OwnedSemaphorePermit) -> Permit {
        self.state().in_use += 1;
        Permit { permits: Arc::clone(self), place: Some(place) }
    }

    /// Sets another bound. Permits in use stay valid, and are given out again as the bound allows.
    fn set_bound(&self, bound: usize) {
        let mut state = self.state();
        state.limit.set_bound(bound);
        state.count_out(&self.free);
    }

    /// The current limit.
    pub fn limit(&self) -> usize {
        self.state().limit.now()
    }

    pub fn counts(&self) -> PermitCounts {
        let state = self.state();
        PermitCounts {
            bound: state.limit.bound(),
            limit: state.limit.now(),
            in_use: state.in_use,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

impl State {
    /// Sets the number of permits in circulation to the limit.
    fn count_out(&mut self, free: &Semaphore) {
        let limit = self.limit.now();
        if limit > self.counted_out {
            let more = limit - self.counted_out;
            let kept = more.min(self.surplus);
            self.surplus -= kept;
            free.add_permits(more - kept);
        } else {
            let less = self.counted_out - limit;
            self.surplus += less - free.forget_permits(less);
        }
        self.counted_out = limit;
    }
}

impl Permit {
    /// Takes note of how a request with this permit ended after `latency`.
    pub fn ended<T>(&self, outcome: &Result<T, ExecutionError>, latency: Duration) {
        if let Some(ended) = ended(outcome, latency) {
            self.ended_at(Instant::now(), ended);
        }
    }

    fn ended_at(&self, now: Instant, ended: Ended) {
        let mut state = self.permits.state();
        let in_use = state.in_use;
        state.limit.ended(now.into_std(), ended, in_use);
        state.count_out(&self.permits.free);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.permits.state();
        state.in_use -= 1;
        if state.in_use == 0 {
            self.permits.idle.notify_waiters();
        }
        if let Some(place) = self.place.take()
            && state.surplus > 0
        {
            state.surplus -= 1;
            place.forget();
        }
    }
}

/// The permits of all sessions of a store.
#[derive(Debug)]
pub struct PermitsOfAll {
    sessions: Mutex<Vec<Weak<Permits>>>,
    /// The most of one session.
    bound: AtomicUsize,
    refused: Arc<AtomicU64>,
}

impl PermitsOfAll {
    /// At most `bound` in one session.
    pub fn new(bound: usize) -> Self {
        Self { sessions: Mutex::default(), bound: AtomicUsize::new(bound), refused: Arc::default() }
    }

    /// The most of one session.
    pub fn bound(&self) -> usize {
        self.bound.load(Ordering::Relaxed)
    }

    /// Another bound, for the sessions that there are and those to come.
    pub fn set_bound(&self, bound: usize) {
        let sessions = self.sessions();
        self.bound.store(bound, Ordering::Relaxed);
        sessions.iter().filter_map(Weak::upgrade).for_each(|session| session.set_bound(bound));
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Weak<Permits>>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions
    }

    /// The permits of one more session.
    pub fn of_a_session(&self, options: &CqlOptions) -> Arc<Permits> {
        let mut sessions = self.sessions();
        let permits = Permits::new(self.bound(), options.permit_wait, Arc::clone(&self.refused));
        sessions.push(Arc::downgrade(&permits));
        permits
    }

    /// Waits until the cluster has ended all requests of all sessions.
    pub async fn idle(&self) {
        let sessions: Vec<_> = self.sessions().iter().filter_map(Weak::upgrade).collect();
        for session in sessions {
            session.idle().await;
        }
    }

    /// The counts of all sessions together, and how many operations found no permit in time.
    pub fn counts(&self) -> (PermitCounts, u64) {
        let sessions = self.sessions();
        let counts = sessions.iter().filter_map(Weak::upgrade).map(|session| session.counts());
        let sum = counts.fold(PermitCounts::default(), |sum, counts| PermitCounts {
            bound: sum.bound + counts.bound,
            limit: sum.limit + counts.limit,
            in_use: sum.in_use + counts.in_use,
            waiting: sum.waiting + counts.waiting,
        });
        (sum, self.refused.load(Ordering::Relaxed))
    }
}

/// How a request ended, if that depends on the cluster's load.
fn ended<T>(outcome: &Result<T, ExecutionError>, latency: Duration) -> Option<Ended> {
    match outcome {
        Ok(_) => Some(Ended::After(latency)),
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _))) => match error {
            DbError::Overloaded | DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => Some(Ended::Refused),
            _ => None,
        },
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(bound: usize) -> Arc<Permits> {
        Permits::new(bound, Duration::from_secs(10), Arc::default())
    }

    #[tokio::test]
    async fn permits_are_bounded_and_waiting_ends() {
        let permits = Permits::new(2, Duration::from_millis(50), Arc::default());
        let (one, _two) = (permits.try_take().unwrap(), permits.try_take().unwrap());
        assert!(permits.try_take().is_none());
        let began = Instant::now();
        assert!(matches!(permits.take(None).await, Err(StoreError::Overloaded { .. })));
        assert!(began.elapsed() >= Duration::from_millis(50));
        assert!(permits.take(Some(began)).await.is_err(), "a deadline ends it sooner");
        assert_eq!(permits.refused.load(Ordering::Relaxed), 2);
        drop(one);
        assert_eq!(permits.counts().in_use, 1);
    }

    #[tokio::test]
    async fn a_waiting_caller_gets_the_next_permit() {
        let permits = permits(2);
        let (one, _two) = (permits.try_take().unwrap(), permits.try_take().unwrap());
        let (waited, ()) = tokio::join!(permits.take(None), async {
            tokio::task::yield_now().await;
            assert_eq!(permits.counts(), PermitCounts { bound: 2, limit: 2, in_use: 2, waiting: 1 });
            drop(one);
            assert!(permits.try_take().is_none(), "it is another's");
        });
        waited.unwrap();
        assert_eq!(permits.counts(), PermitCounts { bound: 2, limit: 2, in_use: 1, waiting: 0 });
    }

    #[tokio::test]
    async fn the_store_is_idle_once_the_last_permit_returns() {
        let all = PermitsOfAll::new(2);
        all.idle().await;
        let options = CqlOptions::default();
        let sessions = [all.of_a_session(&options), all.of_a_session(&options)];
        let mut out: Vec<_> = sessions.iter().filter_map(|session| session.try_take()).collect();
        out.extend(sessions[0].try_take());
        let mut idle = std::pin::pin!(all.idle());
        while !out.is_empty() {
            assert!(futures_util::poll!(&mut idle).is_pending(), "{} are out", out.len());
            out.pop();
        }
        idle.await;
    }

    #[tokio::test]
    async fn a_new_bound_applies_to_open_and_later_sessions() {
        let all = PermitsOfAll::new(4);
        let open = all.of_a_session(&CqlOptions::default());
        let mut out: Vec<_> = (0..4).map(|_| open.try_take().unwrap()).collect();
        all.set_bound(2);
        assert_eq!((all.bound(), open.counts().bound), (2, 2));
        out.truncate(2);
        assert!(open.try_take().is_none(), "2 are out of 2");
        assert_eq!(std::iter::from_fn(|| all.of_a_session(&CqlOptions::default()).try_take()).take(9).count(), 9);
        let later = all.of_a_session(&CqlOptions::default());
        assert_eq!(std::iter::from_fn(|| later.try_take()).collect::<Vec<_>>().len(), 2);
        all.set_bound(5);
        out.extend(std::iter::from_fn(|| open.try_take()));
        assert_eq!(out.len(), 5, "a bound that grew is the limit at once");
    }

    /// Permits in use stay valid. They are not given out again until the limit allows it.
    #[tokio::test]
    async fn a_changing_limit_is_respected() {
        let permits = permits(64);
        let mut out: Vec<_> = (0..64).map(|_| permits.try_take().unwrap()).collect();
        let mut now = Instant::now();
        for _ in 0..100 {
            now += Duration::from_secs(2);
            out[0].ended_at(now, Ended::Refused);
        }
        assert_eq!(permits.counts(), PermitCounts { bound: 64, limit: 16, in_use: 64, waiting: 0 });
        while out.len() > 16 {
            assert!(permits.try_take().is_none(), "{} are out of 16", out.len());
            out.pop();
        }
        assert!(permits.try_take().is_none(), "16 are out of 16");
        out.pop();
        out.push(permits.try_take().unwrap());
        assert!(permits.try_take().is_none());
        for _ in 0..2_000 {
            now += Duration::from_millis(200);
            out[0].ended_at(now, Ended::After(Duration::from_millis(1)));
            out.extend(std::iter::from_fn(|| permits.try_take()));
            assert_eq!(out.len(), permits.limit());
        }
        assert_eq!(out.len(), 64);
        drop(out);
        assert_eq!(permits.counts(), PermitCounts { bound: 64, limit: 64, in_use: 0, waiting: 0 });
        assert_eq!(std::iter::from_fn(|| permits.try_take()).collect::<Vec<_>>().len(), 64);
    }
}
