//! Permits bound the cluster's work, also after callers have left: in front of a node that is held up for longer than
//! any caller waits.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use liststore::items::cql::CqlOptions;
use liststore::items::{ItemStore, OpContext, OwnPermits, PermitCounts, StoreError};
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule};

use crate::cassandra::shared_options;
use crate::forger::{Forger, Sent, of};
use crate::probe::{EVERYTHING, Server, fresh_list, now};

const PERMITS: usize = 4;
/// Longer than all callers of a test together wait. The node answers all other requests.
const HELD: Duration = Duration::from_secs(8);

fn few(options: &CqlOptions) -> CqlOptions {
    CqlOptions { permits: PERMITS, permit_wait: Duration::from_millis(20), ..options.clone() }
}

fn counts(server: &Server) -> PermitCounts {
    server.store.permits().0
}

async fn until_idle(server: &Server) {
    let patience = Instant::now() + Duration::from_secs(30);
    while counts(server).in_use > 0 {
        assert!(Instant::now() < patience, "{:?}", counts(server));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One call of each of 60 callers, which leave after 50 ms.
async fn crowd(server: &Server, sent: Sent) -> Vec<Result<(), StoreError>> {
    join_all((0..60).map(|_| async {
        let list = fresh_list();
        let op = OpContext { deadline: tokio::time::Instant::now() + Duration::from_millis(50), ..server.op() };
        match sent {
            Sent::Read => server.session.get(&op, &list, &EVERYTHING).await.map(|_| ()),
            Sent::Add => server.try_add(&list, &op, &[(now(), b"v")]).await,
            Sent::Delete => server.session.remove_all(&op, &list).await,
        }
    }))
    .await
}

/// With 4 permits there once were 228 requests at a node, of callers that had left after 50 ms.
#[tokio::test]
async fn requests_of_lost_callers_on_a_node_are_bounded() {
    let mut forger = Forger::start().await;
    for sent in [Sent::Read, Sent::Add, Sent::Delete] {
        // Each has a separate one: in the background a server reads lists with recent adds.
        let server = Server::open(few(&forger.options)).await;
        let before = server.metric("liststore_cql_request_duration_seconds", "") as usize;
        let (arrived, mut arrivals) = feedback();
        let held = RequestReaction::delay(HELD).with_feedback_when_performed(arrived);
        forger.on_requests(vec![RequestRule(of(sent), held)]);
        let began = Instant::now();
        for _ in 0..4 {
            let ended = crowd(&server, sent).await;
            assert!(ended.iter().all(Result::is_err), "{sent:?}");
        }
        assert!(began.elapsed() < HELD, "too slow for a verdict");
        let requests = server.metric("liststore_cql_request_duration_seconds", "") as usize - before;
        assert_eq!(requests, PERMITS, "{sent:?}");
        assert_eq!(counts(&server).in_use, PERMITS, "{sent:?}: the node is still at work");
        let (_, refused) = server.store.permits();
        assert!(refused > 0);
        until_idle(&server).await;
        forger.heal();
        let mut seen = 0;
        while arrivals.try_recv().is_ok() {
            seen += 1;
        }
        assert_eq!(seen, PERMITS, "{sent:?}");
        server.add(&fresh_list(), &[(now(), b"v")]).await;
    }
}

#[tokio::test]
async fn a_broken_connection_gives_its_permits_back() {
    let mut forger = Forger::start().await;
    let server = Server::open(few(&forger.options)).await;
    forger.on_requests(vec![RequestRule(of(Sent::Read), RequestReaction::drop_frame())]);
    // Callers leave so soon that on a busy machine not all of a crowd take a permit.
    while counts(&server).in_use < PERMITS {
        assert!(crowd(&server, Sent::Read).await.iter().all(Result::is_err));
    }
    // The next request breaks the connection: here the driver's keep-alive.
    let next = Condition::not(Condition::ConnectionRegisteredAnyEvent);
    forger.on_requests(vec![RequestRule(next, RequestReaction::drop_connection())]);
    until_idle(&server).await;
    forger.heal();
}

/// An operation that waits for a permit while the cluster goes away gets that error, and sends nothing.
#[tokio::test]
async fn operations_that_wait_for_a_permit_fail_when_the_cluster_is_lost() {
    for (permit_wait, holder_has) in [(5, 20), (30, 10)] {
        let mut forger = Forger::start().await;
        let options =
            CqlOptions { permits: 1, permit_wait: Duration::from_secs(permit_wait), ..forger.options.clone() };
        let server = Server::open(options).await;
        let statements = || server.metric("liststore_cql_request_duration_seconds", "");
        let before = statements();
        forger.on_requests(vec![RequestRule(Condition::True, RequestReaction::drop_connection())]);
        let (lists, items) = ([fresh_list(), fresh_list()], [(now(), b"v".as_slice())]);
        let op = |secs| OpContext { deadline: tokio::time::Instant::now() + Duration::from_secs(secs), ..server.op() };
        // It waits for a connection with the one permit, during half of its time.
        let (holder, waiting) = (op(holder_has), op(60));
        let (_, waited) =
            tokio::join!(server.try_add(&lists[0], &holder, &items), server.try_add(&lists[1], &waiting, &items));
        match waited {
            Err(StoreError::Unavailable { reason, outcome_unknown: false }) => {
                assert!(reason.contains("nothing was done"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(statements() - before, 1.0, "the other was not even tried");
        forger.heal();
    }
}

/// The condition that a stop waits for.
#[tokio::test]
async fn a_store_is_idle_once_abandoned_requests_have_ended() {
    let mut forger = Forger::start().await;
    let server = Server::open(few(&forger.options)).await;
    server.store.idle().await;
    forger.on_requests(vec![RequestRule(of(Sent::Read), RequestReaction::delay(HELD))]);
    // On a busy machine a caller may have left before its request.
    let patience = Instant::now() + Duration::from_secs(60);
    while counts(&server).in_use == 0 {
        assert!(Instant::now() < patience, "none is begun");
        assert!(crowd(&server, Sent::Read).await.iter().all(Result::is_err));
    }
    let mut idle = std::pin::pin!(server.store.idle());
    assert!(futures_util::poll!(&mut idle).is_pending(), "the node is at work");
    idle.await;
    assert_eq!(counts(&server).in_use, 0);
    forger.heal();
}

/// A removal's deletes are requests as well, and run one after another without further permits.
#[tokio::test]
async fn a_removal_takes_at_most_the_existing_permits() {
    let options = CqlOptions { permits: 1, ..shared_options() };
    let (server, list) = (Server::open(options).await, fresh_list());
    let base = now().as_nanos();
    let timestamps = (0..300).map(|n| liststore::domain::Timestamp::from_nanos(base - n).unwrap());
    let items: Vec<_> = timestamps.map(|timestamp| (timestamp, b"v".as_slice())).collect();
    server.add(&list, &items).await;
    assert_eq!(server.remove(&list, b"v").await, 300);
    assert!(server.values(&list).await.is_empty());
    assert_eq!(counts(&server), PermitCounts { bound: 1, limit: 1, in_use: 0, waiting: 0 });
}

/// The proxy's notifications.
#[expect(clippy::disallowed_methods, reason = "the proxy asks for a channel without bound")]
pub fn feedback<T>() -> (tokio::sync::mpsc::UnboundedSender<T>, tokio::sync::mpsc::UnboundedReceiver<T>) {
    tokio::sync::mpsc::unbounded_channel()
}
