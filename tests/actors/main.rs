//! The pool under faults that a real store will not produce on demand: operations that panic, an
//! actor that dies, a store that stalls, sessions that do not open. `definitions`, `doubtful` and `stored_catalog` have
//! the metadata actor under such faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod definitions;
mod doubtful;
mod elsewhere;
mod faulty;
mod resizing;
mod stored_catalog;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use faulty::{Faults, FaultyStore};
use liststore::actors::{AddOutcome, ListError, ListPool, PoolOptions, SlotState};
use liststore::domain::{
    AheadMax, EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ListKey, Order, Timestamp, Ttl,
    Value, VersionLabel,
};
use liststore::items::{ItemPage, Range};
use prometheus::Registry;
use tokio::time::Instant;

const OPTIONS: PoolOptions = PoolOptions {
    actors: 2,
    permits_per_actor: 3,
    permit_wait: Duration::from_millis(20),
    timestamp_ahead_max: AheadMax::DAY,
};

fn list(entity: &str) -> ListKey {
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
    let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
    ListKey::new(key, EntityId::new(entity).unwrap())
}

fn ttl() -> Ttl {
    Ttl::parse("7300d").unwrap()
}

fn everything() -> Range {
    Range {
        min_timestamp: Timestamp::MIN,
        max_timestamp: Timestamp::MAX,
        after: None,
        limit: 100,
        value_bytes_max: usize::MAX,
        order: Order::Newest,
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn one_item() -> Vec<(Timestamp, Value)> {
    vec![(faulty::NOW, Value::new(Bytes::from_static(b"v")).unwrap())]
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < patience, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn started(faults: &Arc<Faults>, options: PoolOptions) -> ListPool {
    let store = Arc::new(FaultyStore::new(Arc::clone(faults)));
    let pool = ListPool::start(store, Arc::clone(faults) as Arc<_>, options, &Registry::new()).unwrap();
    until("all actors live", || pool.states().iter().all(|state| *state == SlotState::Live)).await;
    pool
}

async fn get(pool: &ListPool, list: &ListKey, deadline: Instant) -> Result<ItemPage, ListError> {
    pool.get(list, ttl(), everything(), deadline).await.map(|(page, _)| page)
}

/// Entities whose lists go to the same actor as `entity`, that one included.
fn neighbours(entity: &str, count: usize) -> Vec<ListKey> {
    let bucket = list(entity).token().bucket(OPTIONS.actors);
    let others = (0..).map(|i| list(&format!("n-{i}"))).filter(|l| l.token().bucket(OPTIONS.actors) == bucket);
    std::iter::once(list(entity)).chain(others).take(count).collect()
}

#[actix::test]
async fn a_panic_in_an_operation_fails_that_operation_alone() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    faults.panic_on("bad");
    let failed = get(&pool, &list("bad"), soon()).await;
    assert!(matches!(failed, Err(ListError::Panicked { outcome_unknown: false })), "{failed:?}");
    let failed = pool.add(list("bad"), ttl(), None, one_item(), soon()).await;
    assert!(matches!(failed, Err(ListError::Panicked { outcome_unknown: true })), "{failed:?}");
    // More panics than there are permits: none may leak.
    for _ in 0..2 * OPTIONS.permits_per_actor {
        let _ = get(&pool, &list("bad"), soon()).await;
    }
    for list in neighbours("bad", 4).into_iter().skip(1) {
        assert!(get(&pool, &list, soon()).await.is_ok());
    }
    assert_eq!(faults.sessions_opened(), OPTIONS.actors, "a panic in a future must not cost the actor");
    assert!(pool.stop(Duration::from_secs(60)).await);
}

#[actix::test]
async fn a_dead_actor_is_replaced_and_the_pool_reports_it() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    assert_eq!(
        pool.add(list("a"), ttl(), None, one_item(), soon()).await.unwrap(),
        AddOutcome { added: 1, already_expired: 0, mistaken_unit: None }
    );
    faults.refuse_sessions(true);
    // The clock is read inside the actor's own turn: a panic there kills the actor itself.
    faults.panic_in_clock(true);
    let killed = pool.add(list("a"), ttl(), None, one_item(), soon()).await;
    faults.panic_in_clock(false);
    assert!(matches!(killed, Err(ListError::Panicked { outcome_unknown: true })), "{killed:?}");
    until("the pool shows the loss", || {
        pool.states().iter().any(|state| matches!(state, SlotState::Failed { was_live: true, .. }))
    })
    .await;
    let refused = get(&pool, &list("a"), soon()).await;
    assert!(matches!(&refused, Err(ListError::NoSession { reason }) if reason.contains("refused")), "{refused:?}");
    faults.refuse_sessions(false);
    until("the actor is replaced", || pool.states().iter().all(|state| *state == SlotState::Live)).await;
    assert_eq!(get(&pool, &list("a"), soon()).await.unwrap().items.len(), 1);
    assert!(pool.stop(Duration::from_secs(60)).await);
}

#[actix::test]
async fn a_stall_is_bounded_by_permits_until_the_store_has_finished() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    let lists = neighbours("stalled", 2 + OPTIONS.permits_per_actor);
    faults.stall(true);
    // The callers leave after 50 ms, but the store is still at work for them.
    let patience = Instant::now() + Duration::from_secs(60);
    for (begun, list) in lists[..OPTIONS.permits_per_actor].iter().enumerate() {
        while faults.operations_begun() == begun {
            assert!(Instant::now() < patience, "none is begun");
            let left = get(&pool, list, Instant::now() + Duration::from_millis(50)).await;
            // An operation that the actor has not reached retains its permit until then.
            assert!(
                matches!(left, Err(ListError::DeadlineExceeded { outcome_unknown: false } | ListError::Overloaded)),
                "{left:?}"
            );
        }
    }
    let begun = Instant::now();
    let refused = get(&pool, &lists[OPTIONS.permits_per_actor], soon()).await;
    assert!(matches!(refused, Err(ListError::Overloaded)), "{refused:?}");
    assert!(begun.elapsed() >= OPTIONS.permit_wait);
    // The other actor's lists are not held up.
    let elsewhere = (0..)
        .map(|i| list(&format!("e-{i}")))
        .find(|l| l.token().bucket(OPTIONS.actors) != lists[0].token().bucket(OPTIONS.actors))
        .unwrap();
    faults.stall_only(&lists);
    assert!(get(&pool, &elsewhere, soon()).await.is_ok());
    faults.stall(false);
    // The actor gives the permits back when it has its turn.
    let until = soon();
    let got = loop {
        match get(&pool, &lists[0], soon()).await {
            Err(ListError::Overloaded) if Instant::now() < until => {}
            got => break got,
        }
    };
    assert!(got.is_ok(), "{got:?}");
    assert!(pool.stop(Duration::from_secs(60)).await);
}

/// An add that the stalled store has begun when its caller leaves, and not the add of an earlier caller.
async fn leave_an_add_behind(pool: &ListPool, faults: &Faults) {
    let (patience, mut is_unknown) = (Instant::now() + Duration::from_secs(60), false);
    while faults.operations_begun() == 0 {
        assert!(Instant::now() < patience, "none is begun");
        let left = pool.add(list("a"), ttl(), None, one_item(), Instant::now() + Duration::from_millis(30)).await;
        match left {
            // The outcome is known for operations that the actor has not begun, or begins too late.
            Err(error @ (ListError::DeadlineExceeded { .. } | ListError::Overloaded)) => {
                is_unknown |= error.outcome_unknown();
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(is_unknown);
}

#[actix::test]
async fn a_write_that_outlasts_its_caller_is_applied_with_an_unknown_outcome() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    faults.stall(true);
    leave_an_add_behind(&pool, &faults).await;
    faults.stall(false);
    assert!(pool.stop(Duration::from_secs(60)).await, "stopping waits for work whose caller has left");
    assert_eq!(faults.adds_done(), faults.operations_begun());
    assert!(faults.adds_done() >= 1);
}

#[actix::test]
async fn work_whose_deadline_has_passed_is_not_begun() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    let late = pool.add(list("a"), ttl(), None, one_item(), Instant::now() - Duration::from_millis(1)).await;
    assert!(matches!(late, Err(ListError::DeadlineExceeded { .. })), "{late:?}");
    assert!(pool.stop(Duration::from_secs(60)).await);
    assert_eq!(faults.adds_done(), 0);
}

#[actix::test]
async fn stopping_reports_aborted_work() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    faults.stall(true);
    leave_an_add_behind(&pool, &faults).await;
    assert!(!pool.stop(Duration::from_millis(50)).await);
    assert_eq!(faults.sessions_alive(), 0);
}

/// A request in a cluster continues after its caller has left. Sessions outlast it, within bounds.
#[actix::test]
async fn stopping_waits_for_operations_of_lost_callers() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    faults.be_busy(true);
    let mut stopping = std::pin::pin!(pool.stop(Duration::from_secs(60)));
    tokio::select! {
        _ = &mut stopping => panic!("it did not wait"),
        () = until("the store is waited for", || faults.idle_awaited()) => {}
    }
    assert_eq!(faults.sessions_alive(), 2);
    faults.be_busy(false);
    assert!(stopping.await);
    assert_eq!(faults.sessions_alive(), 0);

    let pool = started(&faults, OPTIONS).await;
    faults.be_busy(true);
    assert!(!pool.stop(Duration::from_millis(50)).await, "and no longer than it may");
}

#[actix::test]
async fn a_stopped_pool_answers_draining_and_drops_its_sessions() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    assert!(pool.stop(Duration::from_secs(60)).await);
    let refused = get(&pool, &list("a"), soon()).await;
    assert!(matches!(refused, Err(ListError::Draining)), "{refused:?}");
    assert_eq!(faults.sessions_alive(), 0);
    assert!(pool.states().iter().all(|state| *state == SlotState::Stopped));
}

#[actix::test]
async fn sessions_run_on_separate_threads() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, PoolOptions { actors: 4, ..OPTIONS }).await;
    assert_eq!(faults.threads().len(), 4);
    assert!(!faults.threads().contains(&std::thread::current().id()));
    assert!(pool.stop(Duration::from_secs(60)).await);
}
