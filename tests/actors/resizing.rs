//! A pool whose size changes during operations.

use std::sync::Arc;
use std::time::Duration;

use liststore::actors::{ListError, ListPool, PoolOptions, PoolSize, Resize, SlotState};
use liststore::domain::ListKey;
use tokio::time::Instant;

use crate::faulty::Faults;
use crate::{OPTIONS, get, list, one_item, soon, started, ttl, until};

fn actors(actors: usize) -> Resize {
    Resize { actors: Some(actors), permits_per_actor: None }
}

/// A list that another actor has with `to` of them, and one that keeps its actor.
fn moved_and_kept(from: usize, to: usize) -> (ListKey, ListKey) {
    let moves = |list: &ListKey| list.token().bucket(from) != list.token().bucket(to);
    let lists = || (0..).map(|i| list(&format!("m-{i}")));
    (lists().find(moves).unwrap(), lists().find(|list| !moves(list)).unwrap())
}

fn live(pool: &ListPool) -> usize {
    pool.states().iter().filter(|state| **state == SlotState::Live).count()
}

#[actix::test]
async fn a_pool_grows_and_shrinks_and_its_sessions_with_it() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    for size in [8, 1, 4, 4] {
        pool.resize(actors(size), soon()).await.unwrap();
        assert_eq!((pool.view().size.actors, live(&pool), faults.sessions_alive()), (size, size, size));
        assert_eq!(pool.view().permits.bound, size * OPTIONS.permits_per_actor);
    }
    assert!(pool.stop(Duration::from_secs(60)).await);
    assert_eq!(faults.sessions_alive(), 0);
    assert!(matches!(pool.resize(actors(2), soon()).await, Err(ListError::Draining)));
}

#[actix::test]
async fn a_moving_list_waits_for_its_operations_and_others_continue() {
    for (from, to) in [(2, 3), (3, 2)] {
        let faults = Arc::new(Faults::default());
        let pool = started(&faults, PoolOptions { actors: from, ..OPTIONS }).await;
        let (moved, kept) = moved_and_kept(from, to);
        faults.stall_only(std::slice::from_ref(&moved));
        let begun = {
            let (pool, moved) = (pool.clone(), moved.clone());
            actix::spawn(async move { pool.add(moved, ttl(), None, one_item(), soon()).await })
        };
        until("an add is at work", || faults.operations_begun() == 1).await;
        let resizing = {
            let pool = pool.clone();
            actix::spawn(async move { pool.resize(actors(to), soon()).await })
        };
        until("the pool has its new size", || pool.view().size.actors == to).await;
        assert_eq!(pool.view().resizing_to.map(|size| size.actors), Some(to));
        assert!(get(&pool, &kept, soon()).await.is_ok(), "{from} to {to}");
        // Another list that moves does not wait for it.
        let moves = |list: &ListKey| list.token().bucket(from) != list.token().bucket(to);
        let other = (0..).map(|i| list(&format!("o-{i}"))).find(moves).unwrap();
        assert!(get(&pool, &other, soon()).await.is_ok(), "{from} to {to}");
        let begun_before = faults.operations_begun();
        let waits = get(&pool, &moved, Instant::now() + Duration::from_millis(50)).await;
        assert!(matches!(waits, Err(ListError::DeadlineExceeded { outcome_unknown: false })), "{waits:?}");
        assert_eq!(faults.operations_begun(), begun_before, "the new actor began while the old one was at work");
        assert!(!resizing.is_finished());
        faults.stall(false);
        assert!(begun.await.unwrap().is_ok());
        resizing.await.unwrap().unwrap();
        assert_eq!(get(&pool, &moved, soon()).await.unwrap().items.len(), 1);
        assert_eq!((pool.view().resizing_to, faults.sessions_alive()), (None, to));
        assert!(pool.stop(Duration::from_secs(60)).await);
    }
}

/// A change that continued after a minute left lists with two sessions at work, because the next change waited only
/// for its predecessor.
#[actix::test]
async fn a_resize_waits_without_a_limit_and_so_does_the_next() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    let (moved, _) = moved_and_kept(2, 3);
    faults.stall_only(std::slice::from_ref(&moved));
    let begun = {
        let (pool, moved) = (pool.clone(), moved.clone());
        actix::spawn(async move { pool.add(moved, ttl(), None, one_item(), soon()).await })
    };
    until("an add is at work", || faults.operations_begun() == 1).await;
    let resizing = {
        let pool = pool.clone();
        actix::spawn(async move { pool.resize(actors(3), Instant::now() + Duration::from_secs(86_400)).await })
    };
    until("the pool has its new size", || pool.view().size.actors == 3).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    let left = begun.await.unwrap();
    assert!(matches!(left, Err(ListError::DeadlineExceeded { outcome_unknown: true })), "{left:?}");
    let refused = pool.resize(actors(2), Instant::now() + Duration::from_millis(200)).await;
    assert!(matches!(refused, Err(ListError::Resizing)), "{refused:?}");
    assert!(!resizing.is_finished());
    assert_eq!((pool.view().size.actors, pool.view().resizing_to.map(|size| size.actors)), (3, Some(3)));
    let warning = pool.warning().unwrap();
    let secs =
        warning.split_once("resizing to 3 actors for ").and_then(|(_, rest)| rest.split_once(" s")?.0.parse().ok());
    assert!(secs.is_some_and(|secs: u64| (3_600..3_660).contains(&secs)), "{warning}");
    faults.stall(false);
    resizing.await.unwrap().unwrap();
    assert_eq!(pool.warning(), None);
    // A refused change is not made later.
    pool.resize(actors(4), soon()).await.unwrap();
    assert_eq!((pool.view().size.actors, faults.sessions_alive()), (4, 4));
    assert_eq!(get(&pool, &moved, soon()).await.unwrap().items.len(), 1);
    assert!(pool.stop(Duration::from_secs(60)).await);
}

#[actix::test]
async fn a_pool_whose_new_actors_get_no_session_keeps_its_size() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    faults.refuse_sessions(true);
    let refused = pool.resize(actors(5), soon()).await;
    assert!(matches!(&refused, Err(ListError::NotResized { reason }) if reason.contains("refused")), "{refused:?}");
    assert_eq!((pool.view().size.actors, live(&pool), faults.sessions_alive()), (2, 2, 2));
    assert!(get(&pool, &list("a"), soon()).await.is_ok());
    faults.refuse_sessions(false);
    pool.resize(actors(5), soon()).await.unwrap();
    assert_eq!(faults.sessions_alive(), 5);
    assert!(pool.stop(Duration::from_secs(60)).await);
}

#[actix::test]
async fn permits_change_and_running_operations_keep_theirs() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, PoolOptions { actors: 1, ..OPTIONS }).await;
    faults.stall(true);
    let begin = |count: usize| -> Vec<_> {
        let add = |i| {
            let pool = pool.clone();
            actix::spawn(async move { pool.add(list(&format!("p-{i}")), ttl(), None, one_item(), soon()).await })
        };
        (0..count).map(add).collect()
    };
    let first = begin(3);
    until("all permits are taken", || pool.view().permits.in_use == 3).await;
    let resizing = {
        let pool = pool.clone();
        let more = Resize { actors: None, permits_per_actor: Some(5) };
        actix::spawn(async move { pool.resize(more, soon()).await })
    };
    until("there are more", || pool.view().permits.bound == 5).await;
    let second = begin(5);
    until("all of them are taken, too", || pool.view().permits.in_use == 5).await;
    assert!(matches!(get(&pool, &list("one more"), soon()).await, Err(ListError::Overloaded)));
    faults.stall(false);
    for add in first.into_iter().chain(second) {
        assert!(add.await.unwrap().is_ok());
    }
    resizing.await.unwrap().unwrap();
    assert_eq!(pool.view().size, PoolSize { actors: 1, permits_per_actor: 5 });
    assert!(pool.stop(Duration::from_secs(60)).await);
}

#[actix::test]
async fn stopping_does_not_wait_for_a_change_that_cannot_end() {
    let faults = Arc::new(Faults::default());
    let pool = started(&faults, OPTIONS).await;
    faults.stall(true);
    let adding = {
        let pool = pool.clone();
        actix::spawn(async move { pool.add(list("a"), ttl(), None, one_item(), soon()).await })
    };
    until("an add is at work", || faults.operations_begun() == 1).await;
    let resizing = {
        let pool = pool.clone();
        actix::spawn(async move { pool.resize(actors(3), soon()).await })
    };
    until("the pool has its new size", || pool.view().size.actors == 3).await;
    assert!(!pool.stop(Duration::from_millis(50)).await);
    assert_eq!(faults.sessions_alive(), 0);
    adding.abort();
    resizing.abort();
}
