//! Carries one request out, with as many attempts as it takes and may take.
//!
//! Every statement of this store may be repeated: reads by nature, writes because they carry their
//! write timestamp, so that a repetition changes nothing and never outranks a later write. A swap of a
//! bag is a lightweight transaction without a write timestamp: of its attempts one is applied at most, and
//! `layouts/bags` judges the answer that an attempt was not applied.
//!
//! An attempt that fails is followed by another on another node, after a random pause; one that gives
//! no answer for long is left running while another starts elsewhere, and the first answer counts.
//! All of it is bounded: by the operation's deadline, by a number of attempts, and by a budget that
//! all sessions share, so that retries cannot amplify an outage. An attempt that found no node
//! connected was never sent, costs the cluster nothing, and counts for neither.
//!
//! Each attempt has a permit, and keeps it until it has ended, also when its caller has left or another attempt has
//! answered: permits bound the work of the database.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::LoadBalancingPolicy;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use super::budget::RetryBudget;
use super::paces::Kind;
use super::permits::{Permit, Permits};
use super::route::{AttemptRoute, NodeHealth};
use super::under_way::{Attempt, Followed, UnderWay};
use crate::items::StoreError;
use crate::items::cql::error::{Failure, NO_CONNECTION, after_unknown};
use crate::items::cql::health::metrics::CqlMetrics;
use crate::items::cql::statements::Statement;

/// Attempts of one request, the first included.
const ATTEMPTS_MAX: usize = 4;
/// The pause before the n-th retry is random, up to this times 2^n.
const PAUSE_BASE: Duration = Duration::from_millis(10);
/// Where no node was connected: the driver connects again after some 50 ms, and then takes longer each time. The pause
/// is random, from half of this times 2^n to all of it.
const RECONNECT_PAUSE_BASE: Duration = Duration::from_millis(50);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(400);
/// A connection is waited for during this part of the time that there was: where the cluster is
/// gone, callers should not hold their permits until their deadlines.
const RECONNECT_PART: u32 = 2;
/// An attempt without an answer is abandoned after this part of the time that is left.
const PATIENCE_PART: u32 = 3;
/// But not before this: a slower answer is still better than double the load.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// One node may have this part of a session's permits, while there are others to ask: one that hangs
/// would otherwise soon have them all.
const NODE_PART: usize = 2;
/// Whether another attempt may start next to attempts without an answer.
enum Hedging {
    Allowed,
    WaitsFor(BoxFuture<'static, Option<Permit>>),
    Over,
}

impl Hedging {
    /// Waits for what lets another attempt start: patience that is over, or a permit.
    async fn due(&mut self, patience: Instant) -> Option<Permit> {
        match self {
            Self::Allowed => {
                sleep_until(patience).await;
                None
            }
            Self::WaitsFor(permit) => match permit.await {
                Some(permit) => Some(permit),
                // Not before the deadline, which ends the request.
                None => pending().await,
            },
            Self::Over => pending().await,
        }
    }
}

/// One request: which statement it is, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct RetriedRequest {
    pub statement: Statement,
    pub deadline: Instant,
}

/// How a session carries requests out.
#[derive(Debug)]
pub struct Attempts {
    pub plan: Arc<dyn LoadBalancingPolicy>,
    pub health: Arc<NodeHealth>,
    pub permits: Arc<Permits>,
    pub budget: Arc<RetryBudget>,
    pub speculative_after: Option<Duration>,
    pub metrics: Arc<CqlMetrics>,
}

/// One request on its way.
struct Run<'a, T: Send + 'static, M> {
    attempts: &'a Attempts,
    request: RetriedRequest,
    make: M,
    routes: Vec<Arc<AttemptRoute>>,
    under_way: UnderWay<T>,
    /// The permit of an attempt that failed, for the next.
    spare: Option<Permit>,
    /// How many attempts had been made when the last of them was counted against its node.
    struck: usize,
    /// How many of the attempts found no node connected.
    unsent: usize,
    reconnect_until: Instant,
    /// Whether an attempt that failed may have been carried out.
    unknown: bool,
}

impl Attempts {
    /// Carries `request` out. `make` starts an attempt along a route. Each attempt has a separate permit, the first one
    /// `permit`. The permit of the successful attempt is returned.
    pub async fn run<T, F>(
        &self,
        request: RetriedRequest,
        permit: Permit,
        make: impl Fn(Arc<dyn LoadBalancingPolicy>) -> F,
    ) -> Result<(T, Permit), StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ExecutionError>> + Send + 'static,
    {
        let now = Instant::now();
        let time = request.deadline.saturating_duration_since(now);
        if time.is_zero() {
            return Err(StoreError::Timeout { outcome_unknown: false });
        }
        self.budget.earn();
        let _timer = self.metrics.start(request.statement);
        let reconnect_until = now + time / RECONNECT_PART;
        let run = Run {
            attempts: self,
            request,
            make,
            routes: Vec::with_capacity(1),
            under_way: UnderWay { first: None, more: FuturesUnordered::new() },
            spare: None,
            struck: 0,
            unsent: 0,
            reconnect_until,
            unknown: false,
        };
        run.finish(permit).await
    }
}

impl<T, F, M> Run<'_, T, M>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ExecutionError>> + Send + 'static,
    M: Fn(Arc<dyn LoadBalancingPolicy>) -> F,
{
    async fn finish(mut self, permit: Permit) -> Result<(T, Permit), StoreError> {
        self.under_way.first = Some(self.start(permit));
        let patience = self.patience();
        match self.under_way.first(patience.min(self.request.deadline)).await {
            Some((Ok(done), permit)) => Ok((done, permit)),
            Some((Err(error), permit)) => {
                let failure = self.failed(&error, permit);
                self.go_on(Some(failure), Hedging::Allowed).await
            }
            None => {
                let hedging = self.hedge();
                self.go_on(None, hedging).await
            }
        }
    }

    /// Continues after the first attempt has failed, or has given no answer for long.
    async fn go_on(&mut self, mut failure: Option<Failure>, mut hedging: Hedging) -> Result<(T, Permit), StoreError> {
        let deadline = self.request.deadline;
        loop {
            if let Some(failed) = failure.take_if(|failed| !failed.retry || self.under_way.more.is_empty()) {
                let unsent = failed.kind == NO_CONNECTION;
                let pause = if unsent { self.reconnect_pause() } else { self.pause() };
                let may_retry = failed.retry && if unsent { self.may_reconnect(pause) } else { self.may_retry(pause) };
                let Some(permit) = self.spare.take().filter(|_| may_retry) else {
                    return Err(after_unknown(failed.error, self.unknown));
                };
                tracing::debug!(statement = self.request.statement.as_str(), failure = failed.kind, "trying again");
                self.attempts.metrics.retried(self.request.statement, failed.kind);
                sleep(pause).await;
                let attempt = self.start(permit);
                self.under_way.more.push(attempt);
            }
            let patience = self.patience();
            tokio::select! {
                biased;
                Some(ended) = self.under_way.more.next() => match ended {
                    (Ok(done), permit) => return Ok((done, permit)),
                    (Err(error), permit) => failure = Some(self.failed(&error, permit)),
                },
                () = sleep_until(deadline) => return Err(self.out_of_time()),
                permit = hedging.due(patience) => hedging = match permit {
                    Some(permit) => self.start_another(permit),
                    None => self.hedge(),
                },
            }
        }
    }

    /// Starts another attempt next to the attempts without an answer, if it may, once there is a permit for it. Returns
    /// the next state.
    fn hedge(&mut self) -> Hedging {
        if Instant::now() >= self.request.deadline {
            return Hedging::Over;
        }
        let by_wish = self.speculates_after().is_some();
        if let Some(node) = self.routes.last().and_then(|route| route.at())
            && !by_wish
            && self.request.statement.is_live()
            && self.struck < self.routes.len()
        {
            self.struck = self.routes.len();
            self.attempts.health.strike(node);
        }
        if self.sent() >= self.attempts_max() {
            return Hedging::Over;
        }
        match self.spare.take().or_else(|| self.attempts.permits.try_take()) {
            Some(permit) => self.start_another(permit),
            None => {
                let permits = Arc::clone(&self.attempts.permits);
                Hedging::WaitsFor(permits.take_another(self.request.deadline).boxed())
            }
        }
    }

    /// The same, with a permit for it.
    fn start_another(&mut self, permit: Permit) -> Hedging {
        if self.sent() >= self.attempts_max() || !self.afforded() {
            return Hedging::Over;
        }
        let by_wish = self.speculates_after().is_some();
        self.attempts.metrics.retried(self.request.statement, if by_wish { "speculation" } else { "no_answer" });
        let attempt = self.start(permit);
        self.under_way.more.push(attempt);
        Hedging::Allowed
    }

    fn start(&mut self, permit: Permit) -> Attempt<T> {
        let tried: Vec<Uuid> = self.routes.iter().filter_map(|route| route.at()).collect();
        let Attempts { plan, health, permits, .. } = self.attempts;
        let share = permits.limit().div_ceil(NODE_PART);
        let (kind, is_live) = (Kind::of(self.request.statement), self.request.statement.is_live());
        let route = AttemptRoute::new(Arc::clone(plan), Arc::clone(health), tried, share, kind);
        self.routes.push(Arc::clone(&route));
        let attempt = (self.make)(Arc::clone(&route) as Arc<dyn LoadBalancingPolicy>);
        Box::pin(async move {
            let _followed = Followed(route);
            let began = Instant::now();
            let outcome = attempt.await;
            if is_live {
                permit.ended(&outcome, began.elapsed());
            }
            (outcome, permit)
        })
    }

    fn failed(&mut self, error: &ExecutionError, permit: Permit) -> Failure {
        self.spare = Some(permit);
        let failure = match self.request.statement {
            Statement::Swap => Failure::of_transaction(error),
            statement => Failure::of(error, statement.writes()),
        };
        self.unknown |= failure.error.outcome_unknown();
        self.unsent += usize::from(failure.kind == NO_CONNECTION);
        self.attempts.metrics.failed(self.request.statement, failure.kind);
        failure
    }

    /// When the attempt in progress is no longer waited for alone.
    fn patience(&self) -> Instant {
        let now = Instant::now();
        if let Some(after) = self.speculates_after() {
            return now + after;
        }
        now + (self.request.deadline.saturating_duration_since(now) / PATIENCE_PART).max(PATIENCE_MIN)
    }

    /// Only reads, and only their first attempt, are sent twice by wish.
    fn speculates_after(&self) -> Option<Duration> {
        let RetriedRequest { statement, .. } = self.request;
        let is_sent_twice = statement.is_live() && !statement.writes() && self.routes.len() <= 1;
        self.attempts.speculative_after.filter(|_| is_sent_twice)
    }

    fn attempts_max(&self) -> usize {
        if self.request.statement.is_live() { ATTEMPTS_MAX } else { 1 }
    }

    /// Attempts that nodes may have seen.
    fn sent(&self) -> usize {
        self.routes.len() - self.unsent
    }

    fn may_retry(&self, pause: Duration) -> bool {
        self.sent() < self.attempts_max() && Instant::now() + pause < self.request.deadline && self.afforded()
    }

    fn may_reconnect(&self, pause: Duration) -> bool {
        Instant::now() + pause < self.reconnect_until
    }

    fn afforded(&self) -> bool {
        let afforded = self.attempts.budget.spend();
        if !afforded {
            self.attempts.metrics.budget_exhausted();
        }
        afforded
    }

    fn pause(&self) -> Duration {
        doubled(PAUSE_BASE, self.sent()).mul_f64(fastrand::f64())
    }

    fn reconnect_pause(&self) -> Duration {
        let most = doubled(RECONNECT_PAUSE_BASE, self.unsent).min(RECONNECT_PAUSE_MAX);
        most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    fn out_of_time(&self) -> StoreError {
        StoreError::Timeout { outcome_unknown: self.request.statement.writes() }
    }
}

fn doubled(base: Duration, times: usize) -> Duration {
    base.saturating_mul(2_u32.saturating_pow(u32::try_from(times).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests;
