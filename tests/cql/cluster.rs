//! Three nodes with three replicas: a node killed, paused and restored under load, a quorum lost and regained, and two
//! servers that act as one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use liststore::domain::{ListKey, Timestamp};
use liststore::items::cql::{CqlOptions, inspect, migrate};
use liststore::items::{OwnPermits, Range, StoreError};
use scylla_proxy::{Reaction, RequestReaction, RequestRule};

use crate::cassandra::{self, Cluster};
use crate::forger::{Forger, Sent, of};
use crate::probe::{Server, fresh_list, now};

/// Concurrent calls, and their outcomes.
#[derive(Default)]
struct Load {
    stop: Cell<bool>,
    succeeded: Cell<u64>,
    failed: RefCell<Vec<StoreError>>,
    slowest: Cell<Duration>,
}

impl Load {
    fn note<T>(&self, began: Instant, outcome: Result<T, StoreError>) -> Option<T> {
        self.slowest.set(self.slowest.get().max(began.elapsed()));
        match outcome {
            Ok(done) => {
                self.succeeded.set(self.succeeded.get() + 1);
                Some(done)
            }
            Err(error) => {
                self.failed.borrow_mut().push(error);
                None
            }
        }
    }

    fn total(&self) -> u64 {
        self.succeeded.get() + self.failed.borrow().len() as u64
    }

    /// Load, but less than the machine can bear: nodes must start at the same time.
    const PAUSE: Duration = Duration::from_millis(20);

    /// One caller: adds to its list through one server and reads it through the other, which must show everything
    /// acknowledged.
    async fn call(&self, writer: &Server, reader: &Server) -> (ListKey, Vec<Vec<u8>>) {
        let list = fresh_list();
        let mut acknowledged = Vec::new();
        // The newest items are checked each time, and all of them at the end.
        let newest = Range { limit: 50, ..crate::probe::EVERYTHING };
        for n in 0.. {
            if self.stop.get() {
                break;
            }
            let value = format!("v{n}").into_bytes();
            let began = Instant::now();
            let added = writer.try_add(&list, &writer.op(), &[(now(), &value)]).await;
            if self.note(began, added).is_some() {
                acknowledged.push(value);
            }
            let began = Instant::now();
            let page = reader.session.get(&reader.op(), &list, &newest).await;
            if let Some(page) = self.note(began, page) {
                let seen: BTreeSet<Vec<u8>> = page.items.iter().map(|item| item.value.to_vec()).collect();
                // Among the newest there may be some of unknown outcome as well.
                let mut last = acknowledged.iter().rev().take(newest.limit / 2);
                assert!(last.all(|value| seen.contains(value)), "an acknowledged item is missing");
            }
            tokio::time::sleep(Self::PAUSE).await;
        }
        (list, acknowledged)
    }
}

/// Runs a function on a separate thread, so that the load continues.
async fn aside(cluster: &std::sync::Arc<Cluster>, what: impl FnOnce(&Cluster) + Send + 'static) {
    let cluster = std::sync::Arc::clone(cluster);
    tokio::task::spawn_blocking(move || what(&cluster)).await.unwrap();
}

async fn until(load: &Load, more: u64) {
    let wanted = load.total() + more;
    let patience = Instant::now() + Duration::from_secs(60);
    while load.total() < wanted {
        assert!(Instant::now() < patience, "the load stands still");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A live node that answers no read retains the permits of its requests. The other nodes must continue with the
/// remaining permits before any server detects that it hangs. Only its requests may fail, if no permit is free to send
/// them to another node.
async fn one_node_never_has_all_permits(options: &CqlOptions) {
    let mut forger = Forger::before(options.clone()).await;
    let options = CqlOptions { permits: 16, permit_wait: Duration::from_secs(10), ..forger.options.clone() };
    let server = Server { deadline: Duration::from_secs(10), ..Server::open(options).await };
    forger.on_requests_to(2, vec![RequestRule(of(Sent::Read), RequestReaction::drop_frame())]);
    let (answered, failed) = (Cell::new(0), Cell::new(0));
    let callers = (0..40).map(|_| async {
        while answered.get() < 500 {
            match server.session.get(&server.op(), &fresh_list(), &crate::probe::EVERYTHING).await {
                Ok(_) => answered.set(answered.get() + 1),
                Err(_) => failed.set(failed.get() + 1),
            }
            assert!(failed.get() <= 8, "after {} answers", answered.get());
        }
    });
    join_all(callers).await;
    let (permits, _) = server.store.permits();
    assert!((1..=permits.bound / 2).contains(&permits.in_use), "{permits:?}");
}

#[tokio::test]
async fn three_nodes_lose_and_regain_one_and_then_two() {
    let _turn = cassandra::turn().await;
    let began = Instant::now();
    let reported = |what: &str| eprintln!("{:>6.1} s: {what}", began.elapsed().as_secs_f64());
    let cluster = std::sync::Arc::new(Cluster::start(&["--nodes", "3", "--durable"]));
    let options = cassandra::options(cluster.contact_points.clone(), 3);
    reported("three nodes run");
    // Three migrations at once, each through another node, make one schema.
    let through = |node: usize| cassandra::options(vec![cluster.contact_points[node].clone()], 3);
    let all = join_all((0..3).map(|node| async move { migrate(&through(node), false).await })).await;
    for done in all {
        done.unwrap();
    }
    let found = inspect(&options).await.unwrap();
    assert_eq!((found.nodes.len(), found.replicas, found.problems.len()), (3, Some(3), 0));
    // Nodes start during the load.
    let deadline = Duration::from_secs(12);
    let one = Server { deadline, ..Server::open(options.clone()).await };
    let two = Server { deadline, ..Server::open(options.clone()).await };

    for (case, lose, regain) in [
        ("killed", Cluster::kill as fn(&Cluster, usize), Cluster::start_node as fn(&Cluster, usize)),
        ("paused", Cluster::pause, Cluster::resume),
    ] {
        let load = Rc::new(Load::default());
        let callers = join_all((0..8).map(|n| {
            let (load, one, two) = (Rc::clone(&load), &one, &two);
            async move { if n % 2 == 0 { load.call(one, two).await } else { load.call(two, one).await } }
        }));
        let events = async {
            until(&load, 500).await;
            reported("a node goes");
            aside(&cluster, move |cluster| lose(cluster, 2)).await;
            until(&load, 2_000).await;
            reported("it is to come back");
            aside(&cluster, move |cluster| regain(cluster, 2)).await;
            reported("it is back");
            until(&load, 500).await;
            load.stop.set(true);
        };
        let (lists, ()) = tokio::join!(callers, events);
        let (total, failed) = (load.total(), load.failed.take());
        reported(&format!("{case}: {total} operations, {} failed, slowest {:?}", failed.len(), load.slowest.get()));
        assert!(
            failed.len() as u64 * 1_000 <= total,
            "{case}: {} of {total} failed: {:?}",
            failed.len(),
            failed.first()
        );
        for (list, acknowledged) in lists {
            let seen: BTreeSet<_> = one.values(&list).await.into_iter().collect();
            assert!(acknowledged.iter().all(|value| seen.contains(value)), "{case}: an acknowledged item is lost");
        }
    }

    one_node_never_has_all_permits(&options).await;
    reported("a node that hangs has had no more than its share");

    // Two of three are gone: no quorum, and nothing was begun.
    let list = fresh_list();
    one.add(&list, &[(now(), b"kept")]).await;
    aside(&cluster, |cluster| {
        cluster.kill(2);
        cluster.kill(3);
    })
    .await;
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let failed = one.try_add(&list, &one.op(), &[(now(), b"unsure")]).await.unwrap_err();
        assert!(failed.is_retryable(), "{failed:?}");
        if matches!(&failed, StoreError::Unavailable { reason, outcome_unknown: false } if reason.contains("1 of 2")) {
            break;
        }
        assert!(Instant::now() < patience, "{failed:?}");
    }
    reported("the quorum is known to be lost");
    aside(&cluster, Cluster::start_dead_nodes).await;
    reported("the quorum is there again");
    let patience = Instant::now() + Duration::from_secs(60);
    while let Err(error) = two.try_add(&list, &two.op(), &[(now(), b"again")]).await {
        assert!(Instant::now() < patience, "{error:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let values = one.values(&list).await;
    assert!(values.contains(&b"kept".to_vec()) && values.contains(&b"again".to_vec()), "{values:?}");
    // A removal reaches replicas that slept through it.
    assert_eq!(one.remove(&list, b"kept").await, 1);
    for _ in 0..20 {
        assert!(!two.values(&list).await.contains(&b"kept".to_vec()));
    }
    let far = Timestamp::from_nanos(now().as_nanos() + 1).unwrap();
    two.add(&list, &[(far, b"kept")]).await;
    assert!(one.values(&list).await.contains(&b"kept".to_vec()));
}
