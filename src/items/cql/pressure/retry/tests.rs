//! Attempts of requests that end as a test decides, or never.

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

fn request(statement: Statement, millis: u64) -> RetriedRequest {
    RetriedRequest { statement, deadline: Instant::now() + Duration::from_millis(millis) }
}

#[expect(clippy::result_large_err, reason = "it is the driver's error")]
fn failed(error: DbError) -> Result<u8, ExecutionError> {
    Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new())))
}

fn write_timeout() -> DbError {
    let (consistency, write_type) = (Consistency::LocalQuorum, WriteType::Batch);
    DbError::WriteTimeout { consistency, received: 1, required: 2, write_type }
}

/// Runs a request whose n-th attempt, from 1, ends as `outcome` says, or never. Returns the result and the number of
/// attempts.
async fn run(
    attempts: &Attempts,
    request: RetriedRequest,
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
        tokio::time::sleep(Duration::from_millis(1)).await;
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

#[tokio::test(start_paused = true)]
async fn a_sweep_has_one_attempt_and_does_not_measure_load() {
    let attempts = Attempts { speculative_after: Some(Duration::from_millis(10)), ..attempts() };
    let (result, made) = run(&attempts, request(Statement::Sweep, 5_000), |_| Some(failed(write_timeout()))).await;
    assert!(matches!(result, Err(StoreError::Timeout { .. })), "{result:?}");
    assert_eq!(made, 1);
    let (result, made) = run(&attempts, request(Statement::Sweep, 5_000), |_| None).await;
    assert!(matches!(result, Err(StoreError::Timeout { .. })), "{result:?}");
    assert_eq!(made, 1);
    assert_eq!(attempts.permits.limit(), 64);
}

/// The node still works on it when the caller has left.
#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn a_dropped_request_leaves_its_permit_with_its_attempt() {
    let (attempts, gate) = (attempts(), Arc::new(Semaphore::new(0)));
    let permit = attempts.permits.try_take().unwrap();
    let run = attempts.run(request(Statement::Add, 5_000), permit, |_| held(&gate));
    assert!(tokio::time::timeout(Duration::from_millis(20), run).await.is_err());
    tokio::task::yield_now().await;
    assert_eq!(in_use(&attempts), 1);
    gate.add_permits(1);
    until_in_use(&attempts, 0).await;
}

#[tokio::test]
async fn a_second_attempt_has_a_separate_permit_until_it_ends() {
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
#[tokio::test(start_paused = true)]
async fn a_second_attempt_waits_for_a_permit() {
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
            // It waits in the queue, so that no other caller takes the returned permit.
            drop(taken);
            assert!(attempts.permits.try_take().is_none());
        }
    );
    assert_eq!((result.unwrap(), made, waited), (7, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn at_most_four_attempts_are_made_without_an_answer() {
    let (result, made) = run(&attempts(), request(Statement::Get, 1_500), |_| None).await;
    assert!(matches!(result, Err(StoreError::Timeout { outcome_unknown: false })));
    assert_eq!(made, ATTEMPTS_MAX);
}

#[tokio::test(start_paused = true)]
async fn without_a_free_permit_there_is_no_second_attempt() {
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
async fn transient_errors_are_retried_up_to_four_attempts() {
    let passing = |n| Some(if n < 3 { failed(DbError::Overloaded) } else { Ok(7) });
    let (result, made) = run(&attempts(), request(Statement::Add, 5_000), passing).await;
    assert_eq!((result.unwrap(), made), (7, 3));
    let (result, made) = run(&attempts(), request(Statement::Add, 5_000), |_| Some(failed(DbError::Overloaded))).await;
    assert!(matches!(result, Err(StoreError::Overloaded { .. })));
    assert_eq!(made, ATTEMPTS_MAX);
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    let (result, made) = run(&attempts(), request(Statement::Add, 5_000), |_| Some(failed(DbError::Invalid))).await;
    assert!(matches!(result, Err(StoreError::Internal { outcome_unknown: false, .. })));
    assert_eq!(made, 1);
}

#[tokio::test]
async fn an_unknown_outcome_of_an_attempt_applies_to_the_request() {
    let outcome = |n| Some(failed(if n == 1 { write_timeout() } else { DbError::Overloaded }));
    let (result, _) = run(&attempts(), request(Statement::Add, 5_000), outcome).await;
    assert!(result.unwrap_err().outcome_unknown());
    let (result, _) = run(&attempts(), request(Statement::Get, 5_000), outcome).await;
    assert!(matches!(result, Err(StoreError::Overloaded { .. })), "a read leaves nothing behind");
}

#[tokio::test]
async fn a_swap_whose_commit_cannot_begin_may_have_been_made() {
    let unavailable = || DbError::Unavailable { consistency: Consistency::LocalQuorum, required: 2, alive: 1 };
    for (statement, unknown) in [(Statement::Swap, true), (Statement::Add, false)] {
        let outcome = |_| Some(failed(unavailable()));
        let (result, made) = run(&attempts(), request(statement, 5_000), outcome).await;
        assert_eq!((result.unwrap_err().outcome_unknown(), made), (unknown, ATTEMPTS_MAX), "{statement:?}");
    }
}

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn a_failure_waits_for_the_attempt_in_flight() {
    // The first never answers, the second fails, and the third starts after the usual patience.
    let outcome = |n| match n {
        1 => None,
        2 => Some(failed(DbError::Overloaded)),
        _ => Some(Ok(7)),
    };
    let (result, made) = run(&attempts(), request(Statement::Get, 1_200), outcome).await;
    assert_eq!((result.unwrap(), made), (7, 3));
}

#[tokio::test(start_paused = true)]
async fn a_missing_connection_is_awaited_for_half_of_the_time_without_an_attempt() {
    let attempts = Attempts { budget: Arc::new(RetryBudget::empty()), ..attempts() };
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
    let late = RetriedRequest { statement: Statement::Add, deadline: Instant::now() };
    let (result, made) = run(&attempts(), late, |_| Some(Ok(7))).await;
    assert!(matches!(result, Err(StoreError::Timeout { outcome_unknown: false })));
    assert_eq!(made, 0);
}

#[tokio::test(start_paused = true)]
async fn only_reads_are_speculative() {
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
    let attempts = Attempts { budget: Arc::new(RetryBudget::empty()), ..attempts() };
    let mut made = 0;
    for _ in 0..100 {
        let request = request(Statement::Get, 5_000);
        made += run(&attempts, request, |_| Some(failed(DbError::Overloaded))).await.1;
    }
    assert_eq!(made, 120);
}
