//! Carries one request out, with as many attempts as it takes and may take.
//!
//! Every statement of this store may be repeated: reads by nature, writes because they carry their
//! write timestamp, so that a repetition changes nothing and never outranks a later write. An
//! attempt that fails is followed by another on another node, after a random pause; one that gives
//! no answer for long is left running while another starts elsewhere, and the first answer counts.
//! All of it is bounded: by the operation's deadline, by a number of attempts, and by a budget that
//! all sessions share, so that retries cannot amplify an outage. An attempt that found no node
//! connected was never sent, costs the cluster nothing, and counts for neither.
//!
//! Each attempt has a permit, and keeps it until it has ended, also when its caller has left or another
//! attempt has answered: permits bound what the database works at.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::LoadBalancingPolicy;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use uuid::Uuid;

use super::error::{Failure, NO_CONNECTION, after_unknown};
use super::metrics::CqlMetrics;
use super::permits::{Permit, Permits};
use super::route::{AttemptRoute, NodeHealth};
use super::statements::Statement;
use crate::items::StoreError;

/// Attempts of one request, the first included.
const ATTEMPTS_MAX: usize = 4;
/// The pause before the n-th retry is random, up to this times 2^n.
const PAUSE_BASE: Duration = Duration::from_millis(10);
/// Where no node was connected: the driver connects anew after some 50 ms, and then takes longer
/// each time. The pause is random, from half of this times 2^n to all of it.
const RECONNECT_PAUSE_BASE: Duration = Duration::from_millis(50);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(400);
/// A connection is waited for during this part of the time that there was: where the cluster is
/// gone, callers should not hold their permits until their deadlines.
const RECONNECT_PART: u32 = 2;
/// An attempt without an answer is given up on after this part of the time that is left.
const PATIENCE_PART: u32 = 3;
/// But not before this: a slower answer is still better than double the load.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// One node may have this part of a session's permits, while there are others to ask: one that hangs
/// would otherwise soon have them all.
const NODE_PART: usize = 2;
/// An attempt that nobody waits for is given up on, with its permit, after this: no node works at a
/// request for so long. Cassandra drops those older than `native_transport_timeout`, 12 s, or its
/// request timeouts, at most 10 s (`cassandra.yaml`); ScyllaDB is told when to stop (`USING TIMEOUT`).
/// A connection whose node is silent breaks much sooner.
const LEFT_MAX: Duration = Duration::from_secs(30);

/// What all retries of the process draw on: a bucket of tokens that every request adds a fifth of
/// a token to, and every further attempt takes one from. So in an outage of any length the
/// database sees at most a fifth more attempts than there are requests, and beyond that only what
/// the bucket held: enough for the requests that were in flight when a node died.
#[derive(Debug)]
pub struct RetryBudget {
    /// In thousandths of a token.
    tokens: AtomicI64,
}

impl RetryBudget {
    const TOKEN: i64 = 1_000;
    const TOKENS_MAX: i64 = 2_000 * Self::TOKEN;
    const PER_REQUEST: i64 = Self::TOKEN / 5;

    pub fn full() -> Self {
        Self { tokens: AtomicI64::new(Self::TOKENS_MAX) }
    }

    fn earn(&self) {
        // A full bucket is the rule: then nothing is written that other cores would have to read.
        if self.tokens.load(Ordering::Relaxed) < Self::TOKENS_MAX {
            self.tokens.fetch_add(Self::PER_REQUEST, Ordering::Relaxed);
        }
    }

    fn spend(&self) -> bool {
        self.tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| {
                (tokens >= Self::TOKEN).then_some(tokens - Self::TOKEN)
            })
            .is_ok()
    }
}

/// Whether another attempt may start beside those that give no answer.
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
pub struct Request {
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

/// An attempt under way. It gives its permit back when it ends.
type Attempt<T> = Pin<Box<dyn Future<Output = (Result<T, ExecutionError>, Permit)> + Send>>;

/// The attempts of one request that have not ended. Those that are left when nobody waits for them any
/// more, since another has answered or the deadline has passed, go on by themselves, and hold their
/// permits until they end: the nodes are still at work for them.
struct UnderWay<T: Send + 'static> {
    /// Nearly all requests have one attempt, which needs no more than this.
    first: Option<Attempt<T>>,
    more: FuturesUnordered<Attempt<T>>,
}

impl<T: Send + 'static> UnderWay<T> {
    /// Waits for the first attempt alone.
    async fn first(&mut self, until: Instant) -> Option<(Result<T, ExecutionError>, Permit)> {
        let ended = match &mut self.first {
            Some(first) => timeout_at(until, first).await.ok(),
            None => None,
        };
        match ended {
            Some(_) => self.first = None,
            None => self.more.extend(self.first.take()),
        }
        ended
    }
}

impl<T: Send + 'static> Drop for UnderWay<T> {
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.more);
        left.extend(self.first.take());
        // Without a runtime the session is gone, and its connections with it.
        if let (false, Ok(runtime)) = (left.is_empty(), Handle::try_current()) {
            runtime.spawn(timeout(LEFT_MAX, left.for_each(async |_| ())));
        }
    }
}

/// Follows an attempt on its way, however that ends.
struct Followed(Arc<AttemptRoute>);

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// One request on its way.
struct Run<'a, T: Send + 'static, M> {
    attempts: &'a Attempts,
    request: Request,
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
    /// Carries `request` out. `make` starts an attempt along a route. Each attempt has a permit of its
    /// own, the first one `permit`; that of the attempt which succeeded is given back.
    pub async fn run<T, F>(
        &self,
        request: Request,
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

    /// What comes after the first attempt failed, or gave no answer for long.
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

    /// Starts another attempt beside those that give no answer, if it may, once there is a permit for it.
    /// Returns what comes next.
    fn hedge(&mut self) -> Hedging {
        if Instant::now() >= self.request.deadline {
            return Hedging::Over;
        }
        let by_wish = self.speculates_after().is_some();
        if let Some(node) = self.routes.last().and_then(|route| route.at())
            && !by_wish
            && self.struck < self.routes.len()
        {
            self.struck = self.routes.len();
            self.attempts.health.strike(node);
        }
        if self.sent() >= ATTEMPTS_MAX {
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
        if self.sent() >= ATTEMPTS_MAX || !self.afforded() {
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
        let route = AttemptRoute::new(Arc::clone(plan), Arc::clone(health), tried, share);
        self.routes.push(Arc::clone(&route));
        let attempt = (self.make)(Arc::clone(&route) as Arc<dyn LoadBalancingPolicy>);
        Box::pin(async move {
            let _followed = Followed(route);
            let began = Instant::now();
            let outcome = attempt.await;
            permit.ended(&outcome, began.elapsed());
            (outcome, permit)
        })
    }

    fn failed(&mut self, error: &ExecutionError, permit: Permit) -> Failure {
        self.spare = Some(permit);
        let failure = Failure::of(error, self.request.statement.writes());
        self.unknown |= failure.error.outcome_unknown();
        self.unsent += usize::from(failure.kind == NO_CONNECTION);
        self.attempts.metrics.failed(self.request.statement, failure.kind);
        failure
    }

    /// When the attempt under way is no longer waited for alone.
    fn patience(&self) -> Instant {
        let now = Instant::now();
        if let Some(after) = self.speculates_after() {
            return now + after;
        }
        now + (self.request.deadline.saturating_duration_since(now) / PATIENCE_PART).max(PATIENCE_MIN)
    }

    /// Only reads, and only their first attempt, are sent twice by wish.
    fn speculates_after(&self) -> Option<Duration> {
        self.attempts.speculative_after.filter(|_| !self.request.statement.writes() && self.routes.len() <= 1)
    }

    /// Attempts that nodes may have seen.
    fn sent(&self) -> usize {
        self.routes.len() - self.unsent
    }

    fn may_retry(&self, pause: Duration) -> bool {
        self.sent() < ATTEMPTS_MAX && Instant::now() + pause < self.request.deadline && self.afforded()
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
mod tests {
    use std::cell::Cell;

    use prometheus::Registry;
    use scylla::errors::{ConnectionPoolError, DbError, RequestAttemptError, WriteType};
    use scylla::policies::load_balancing::DefaultPolicy;
    use scylla::statement::Consistency;
    use tokio::sync::Semaphore;

    use super::*;

    fn attempts() -> Attempts {
        Attempts {
            plan: DefaultPolicy::builder().build(),
            health: Arc::default(),
            permits: Permits::new(64, Duration::ZERO, Arc::default()),
            budget: Arc::new(RetryBudget::full()),
            speculative_after: None,
            metrics: Arc::new(CqlMetrics::register(&Registry::new(), Arc::default()).unwrap()),
        }
    }

    fn request(statement: Statement, millis: u64) -> Request {
        Request { statement, deadline: Instant::now() + Duration::from_millis(millis) }
    }

    #[expect(clippy::result_large_err, reason = "it is the driver's error")]
    fn failed(error: DbError) -> Result<u8, ExecutionError> {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new())))
    }

    fn write_timeout() -> DbError {
        let (consistency, write_type) = (Consistency::LocalQuorum, WriteType::Batch);
        DbError::WriteTimeout { consistency, received: 1, required: 2, write_type }
    }

    /// Runs a request whose n-th attempt, from 1, ends as `outcome` says, or never. Returns what came
    /// of it and how many attempts were made.
    async fn run(
        attempts: &Attempts,
        request: Request,
        outcome: impl Fn(usize) -> Option<Result<u8, ExecutionError>>,
    ) -> (Result<u8, StoreError>, usize) {
        let made = Cell::new(0);
        let permit = attempts.permits.try_take().unwrap();
        let result = attempts.run(request, permit, |_| {
            made.set(made.get() + 1);
            let outcome = outcome(made.get());
            async move {
                match outcome {
                    Some(outcome) => outcome,
                    None => pending().await,
                }
            }
        });
        (result.await.map(|(done, _)| done), made.get())
    }

    fn in_use(attempts: &Attempts) -> usize {
        attempts.permits.counts().in_use
    }

    async fn until_in_use(attempts: &Attempts, count: usize) {
        let patience = Instant::now() + Duration::from_secs(10);
        while in_use(attempts) != count {
            assert!(Instant::now() < patience, "{} in use, not {count}", in_use(attempts));
            tokio::task::yield_now().await;
        }
    }

    /// An attempt that ends once the gate has a place for it.
    fn held(gate: &Arc<Semaphore>) -> BoxFuture<'static, Result<u8, ExecutionError>> {
        let gate = Arc::clone(gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(7)
        }
        .boxed()
    }

    /// The node is still at work when the caller has left.
    #[tokio::test]
    async fn a_permit_is_held_beyond_the_deadline_until_its_attempt_has_ended() {
        let (attempts, gate) = (attempts(), Arc::new(Semaphore::new(0)));
        for statement in [Statement::Get, Statement::Add] {
            let permit = attempts.permits.try_take().unwrap();
            let result = attempts.run(request(statement, 20), permit, |_| held(&gate)).await;
            assert!(matches!(result, Err(StoreError::Timeout { .. })));
        }
        tokio::task::yield_now().await;
        assert_eq!(in_use(&attempts), 2);
        gate.add_permits(1);
        until_in_use(&attempts, 1).await;
        gate.add_permits(1);
        until_in_use(&attempts, 0).await;
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_leaves_its_permit_with_its_attempt() {
        let (attempts, gate) = (attempts(), Arc::new(Semaphore::new(0)));
        let permit = attempts.permits.try_take().unwrap();
        let run = attempts.run(request(Statement::Add, 5_000), permit, |_| held(&gate));
        assert!(timeout(Duration::from_millis(20), run).await.is_err());
        tokio::task::yield_now().await;
        assert_eq!(in_use(&attempts), 1);
        gate.add_permits(1);
        until_in_use(&attempts, 0).await;
    }

    #[tokio::test]
    async fn an_attempt_beside_another_has_a_permit_of_its_own_until_it_ends() {
        let attempts = Attempts { speculative_after: Some(Duration::from_millis(10)), ..attempts() };
        let gate = Arc::new(Semaphore::new(0));
        let made = Cell::new(0);
        let permit = attempts.permits.try_take().unwrap();
        let (done, permit) = attempts
            .run(request(Statement::Get, 6_000), permit, |_| {
                made.set(made.get() + 1);
                if made.get() == 1 { held(&gate) } else { std::future::ready(Ok(8)).boxed() }
            })
            .await
            .unwrap();
        assert_eq!((done, made.get(), in_use(&attempts)), (8, 2, 2));
        drop(permit);
        tokio::task::yield_now().await;
        assert_eq!(in_use(&attempts), 1, "the first is still under way");
        gate.add_permits(1);
        until_in_use(&attempts, 0).await;
    }

    /// Where all permits are taken, others wait for them too: what hangs must not be passed over for ever.
    #[tokio::test]
    async fn an_attempt_beside_another_waits_its_turn_for_a_permit() {
        let attempts = Attempts {
            permits: Permits::new(2, Duration::from_secs(10), Arc::default()),
            speculative_after: Some(Duration::from_millis(10)),
            ..attempts()
        };
        let taken = attempts.permits.try_take().unwrap();
        let hangs = run(&attempts, request(Statement::Get, 20_000), |n| (n == 2).then_some(Ok(7)));
        let (((result, made), waited), ()) = tokio::join!(
            async {
                let ended = hangs.await;
                (ended, attempts.permits.counts().in_use)
            },
            async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                // It waits in the queue, so that nobody else may take what is given back.
                drop(taken);
                assert!(attempts.permits.try_take().is_none());
            }
        );
        assert_eq!((result.unwrap(), made, waited), (7, 2, 1));
    }

    #[tokio::test]
    async fn however_long_nothing_answers_no_more_than_four_attempts_are_made() {
        let (result, made) = run(&attempts(), request(Statement::Get, 1_500), |_| None).await;
        assert!(matches!(result, Err(StoreError::Timeout { outcome_unknown: false })));
        assert_eq!(made, ATTEMPTS_MAX);
    }

    #[tokio::test]
    async fn without_a_free_permit_there_is_no_attempt_beside_another() {
        let attempts = Attempts {
            permits: Permits::new(1, Duration::ZERO, Arc::default()),
            speculative_after: Some(Duration::from_millis(10)),
            ..attempts()
        };
        let (result, made) = run(&attempts, request(Statement::Get, 400), |_| None).await;
        assert!(matches!(result, Err(StoreError::Timeout { outcome_unknown: false })));
        assert_eq!(made, 1);
    }

    #[tokio::test]
    async fn success_needs_one_attempt() {
        let (result, made) = run(&attempts(), request(Statement::Get, 1_000), |_| Some(Ok(7))).await;
        assert_eq!((result.unwrap(), made), (7, 1));
    }

    #[tokio::test]
    async fn what_may_pass_is_tried_again_and_no_more_often_than_four_times() {
        let passing = |n| Some(if n < 3 { failed(DbError::Overloaded) } else { Ok(7) });
        let (result, made) = run(&attempts(), request(Statement::Add, 5_000), passing).await;
        assert_eq!((result.unwrap(), made), (7, 3));
        let (result, made) =
            run(&attempts(), request(Statement::Add, 5_000), |_| Some(failed(DbError::Overloaded))).await;
        assert!(matches!(result, Err(StoreError::Overloaded { .. })));
        assert_eq!(made, ATTEMPTS_MAX);
    }

    #[tokio::test]
    async fn what_cannot_pass_is_not() {
        let (result, made) = run(&attempts(), request(Statement::Add, 5_000), |_| Some(failed(DbError::Invalid))).await;
        assert!(matches!(result, Err(StoreError::Internal { outcome_unknown: false, .. })));
        assert_eq!(made, 1);
    }

    #[tokio::test]
    async fn an_unknown_outcome_of_one_attempt_is_that_of_the_request() {
        let outcome = |n| Some(failed(if n == 1 { write_timeout() } else { DbError::Overloaded }));
        let (result, _) = run(&attempts(), request(Statement::Add, 5_000), outcome).await;
        assert!(result.unwrap_err().outcome_unknown());
        let (result, _) = run(&attempts(), request(Statement::Get, 5_000), outcome).await;
        assert!(matches!(result, Err(StoreError::Overloaded { .. })), "a read leaves nothing behind");
    }

    #[tokio::test]
    async fn without_an_answer_another_attempt_starts_and_the_first_answer_counts() {
        let began = Instant::now();
        let outcome = |n| (n == 2).then_some(Ok(7));
        let (result, made) = run(&attempts(), request(Statement::Add, 900), outcome).await;
        assert_eq!((result.unwrap(), made), (7, 2));
        assert!(began.elapsed() >= Duration::from_millis(290));
        let (result, _) = run(&attempts(), request(Statement::Add, 300), |_| None).await;
        assert!(matches!(result, Err(StoreError::Timeout { outcome_unknown: true })));
        let (result, _) = run(&attempts(), request(Statement::Get, 300), |_| None).await;
        assert!(matches!(result, Err(StoreError::Timeout { outcome_unknown: false })));
    }

    #[tokio::test]
    async fn a_failure_beside_an_attempt_under_way_is_waited_with() {
        // The first never answers, the second fails, and the third starts after the usual patience.
        let outcome = |n| match n {
            1 => None,
            2 => Some(failed(DbError::Overloaded)),
            _ => Some(Ok(7)),
        };
        let (result, made) = run(&attempts(), request(Statement::Get, 1_200), outcome).await;
        assert_eq!((result.unwrap(), made), (7, 3));
    }

    #[tokio::test]
    async fn a_connection_is_waited_for_during_half_of_the_time_and_costs_nothing() {
        let attempts = Attempts { budget: Arc::new(RetryBudget { tokens: AtomicI64::new(0) }), ..attempts() };
        let none = || Some(Err(ExecutionError::ConnectionPoolError(ConnectionPoolError::Initializing)));
        let passing = |n| if n < 8 { none() } else { Some(Ok(7)) };
        let (result, made) = run(&attempts, request(Statement::Add, 20_000), passing).await;
        assert_eq!((result.unwrap(), made), (7, 8));
        let began = Instant::now();
        let (result, _) = run(&attempts, request(Statement::Add, 2_000), |_| none()).await;
        assert!(matches!(result, Err(StoreError::Unavailable { outcome_unknown: false, .. })));
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(500) && took < Duration::from_millis(1_900), "{took:?}");
    }

    #[tokio::test]
    async fn nothing_begins_after_the_deadline() {
        let late = Request { statement: Statement::Add, deadline: Instant::now() };
        let (result, made) = run(&attempts(), late, |_| Some(Ok(7))).await;
        assert!(matches!(result, Err(StoreError::Timeout { outcome_unknown: false })));
        assert_eq!(made, 0);
    }

    #[tokio::test]
    async fn only_reads_are_speculated_on() {
        let attempts = Attempts { speculative_after: Some(Duration::from_millis(10)), ..attempts() };
        let outcome = |n| (n == 2).then_some(Ok(7));
        let began = Instant::now();
        let (result, _) = run(&attempts, request(Statement::Get, 6_000), outcome).await;
        assert_eq!(result.unwrap(), 7);
        assert!(began.elapsed() < Duration::from_secs(1));
        let began = Instant::now();
        let (result, _) = run(&attempts, request(Statement::Add, 900), outcome).await;
        assert_eq!(result.unwrap(), 7);
        assert!(began.elapsed() >= Duration::from_millis(290));
    }

    #[tokio::test]
    async fn an_outage_uses_up_the_budget_and_then_adds_a_fifth() {
        let attempts = Attempts { budget: Arc::new(RetryBudget { tokens: AtomicI64::new(0) }), ..attempts() };
        let mut made = 0;
        for _ in 0..100 {
            let request = request(Statement::Get, 5_000);
            made += run(&attempts, request, |_| Some(failed(DbError::Overloaded))).await.1;
        }
        assert_eq!(made, 120);
    }
}
