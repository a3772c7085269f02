//! Carries one request out, with as many attempts as it takes and may take.
//!
//! Every statement of this store may be repeated: reads by nature, writes because they carry their
//! write timestamp, so that a repetition changes nothing and never outranks a later write. An
//! attempt that fails is followed by another on another node, after a random pause; one that gives
//! no answer for long is left running while another starts elsewhere, and the first answer counts.
//! All of it is bounded: by the operation's deadline, by a number of attempts, and by a budget that
//! all sessions share, so that retries cannot amplify an outage. An attempt that found no node
//! connected was never sent, costs the cluster nothing, and counts for neither.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::LoadBalancingPolicy;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use uuid::Uuid;

use super::error::{Failure, NO_CONNECTION, after_unknown};
use super::metrics::CqlMetrics;
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
    pub budget: Arc<RetryBudget>,
    pub speculative_after: Option<Duration>,
    pub metrics: Arc<CqlMetrics>,
}

type Attempt<F> = Pin<Box<F>>;

/// One request on its way.
struct Run<'a, M> {
    attempts: &'a Attempts,
    request: Request,
    make: M,
    routes: Vec<Arc<AttemptRoute>>,
    /// How many of the attempts found no node connected.
    unsent: usize,
    reconnect_until: Instant,
    /// Whether an attempt that failed may have been carried out.
    unknown: bool,
}

impl Attempts {
    /// Carries `request` out. `make` starts an attempt along a route.
    pub async fn run<T, F>(
        &self,
        request: Request,
        make: impl Fn(Arc<dyn LoadBalancingPolicy>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, ExecutionError>>,
    {
        let now = Instant::now();
        let time = request.deadline.saturating_duration_since(now);
        if time.is_zero() {
            return Err(StoreError::Timeout { outcome_unknown: false });
        }
        self.budget.earn();
        let _timer = self.metrics.start(request.statement);
        let reconnect_until = now + time / RECONNECT_PART;
        let routes = Vec::with_capacity(1);
        let run = Run { attempts: self, request, make, routes, unsent: 0, reconnect_until, unknown: false };
        run.finish().await
    }
}

impl<T, F, M> Run<'_, M>
where
    F: Future<Output = Result<T, ExecutionError>>,
    M: Fn(Arc<dyn LoadBalancingPolicy>) -> F,
{
    async fn finish(mut self) -> Result<T, StoreError> {
        let mut first = self.start();
        let patience = self.patience();
        let mut under_way = FuturesUnordered::new();
        match timeout_at(patience.min(self.request.deadline), &mut first).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                let failure = self.failed(&error);
                self.go_on(under_way, Some(failure), true).await
            }
            Err(_) => {
                under_way.push(first);
                let may_hedge = self.hedge(&mut under_way);
                self.go_on(under_way, None, may_hedge).await
            }
        }
    }

    /// What comes after the first attempt failed, or gave no answer for long.
    async fn go_on(
        &mut self,
        mut under_way: FuturesUnordered<Attempt<F>>,
        mut failure: Option<Failure>,
        mut may_hedge: bool,
    ) -> Result<T, StoreError> {
        let deadline = self.request.deadline;
        loop {
            if let Some(failed) = failure.take_if(|failed| !failed.retry || under_way.is_empty()) {
                let unsent = failed.kind == NO_CONNECTION;
                let pause = if unsent { self.reconnect_pause() } else { self.pause() };
                let may_retry = failed.retry && if unsent { self.may_reconnect(pause) } else { self.may_retry(pause) };
                if !may_retry {
                    return Err(after_unknown(failed.error, self.unknown));
                }
                tracing::debug!(statement = self.request.statement.as_str(), failure = failed.kind, "trying again");
                self.attempts.metrics.retried(self.request.statement, failed.kind);
                sleep(pause).await;
                under_way.push(self.start());
            }
            tokio::select! {
                biased;
                Some(outcome) = under_way.next() => match outcome {
                    Ok(done) => return Ok(done),
                    Err(error) => failure = Some(self.failed(&error)),
                },
                () = sleep_until(deadline) => return Err(self.out_of_time()),
                () = sleep_until(self.patience()), if may_hedge => may_hedge = self.hedge(&mut under_way),
            }
        }
    }

    /// Starts another attempt beside those that give no answer, if it may. Returns whether it did.
    fn hedge(&mut self, under_way: &mut FuturesUnordered<Attempt<F>>) -> bool {
        if self.sent() >= ATTEMPTS_MAX || Instant::now() >= self.request.deadline || !self.afforded() {
            return false;
        }
        let by_wish = self.speculates_after().is_some();
        if let Some(node) = self.routes.last().and_then(|route| route.at()).filter(|_| !by_wish) {
            self.attempts.health.strike(node);
        }
        self.attempts.metrics.retried(self.request.statement, if by_wish { "speculation" } else { "no_answer" });
        under_way.push(self.start());
        true
    }

    fn start(&mut self) -> Attempt<F> {
        let tried: Vec<Uuid> = self.routes.iter().filter_map(|route| route.at()).collect();
        let Attempts { plan, health, .. } = self.attempts;
        let route = AttemptRoute::new(Arc::clone(plan), Arc::clone(health), tried);
        self.routes.push(Arc::clone(&route));
        Box::pin((self.make)(route))
    }

    fn failed(&mut self, error: &ExecutionError) -> Failure {
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
    use std::future::pending;

    use prometheus::Registry;
    use scylla::errors::{ConnectionPoolError, DbError, RequestAttemptError, WriteType};
    use scylla::policies::load_balancing::DefaultPolicy;
    use scylla::statement::Consistency;

    use super::*;

    fn attempts() -> Attempts {
        Attempts {
            plan: DefaultPolicy::builder().build(),
            health: Arc::default(),
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
        let result = attempts.run(request, |_| {
            made.set(made.get() + 1);
            let outcome = outcome(made.get());
            async move {
                match outcome {
                    Some(outcome) => outcome,
                    None => pending().await,
                }
            }
        });
        (result.await, made.get())
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
