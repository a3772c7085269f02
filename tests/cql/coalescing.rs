//! Identical reads that overlap share requests, in front of a delayed node: the number of requests, and each reader's
//! result and waiting time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use liststore::domain::ListKey;
use liststore::items::{OpContext, StoreError};
use scylla::errors::DbError;
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule, ResponseOpcode, ResponseReaction, ResponseRule};

use crate::cassandra::shared_options;
use crate::forger::{Forger, Sent, of};
use crate::probe::{EVERYTHING, Server, fresh_list, now};

const HELD: Duration = Duration::from_millis(400);

/// Lets reads reach the node that much later.
fn hold_up_requests(forger: &mut Forger, time: Duration) {
    forger.on_requests(vec![RequestRule(of(Sent::Read), RequestReaction::delay(time))]);
}

fn requests(server: &Server) -> u32 {
    server.metric("liststore_cql_request_duration_seconds", "get") as u32
}

/// Values of a page, or why there is none.
async fn read(server: &Server, list: &ListKey, within: Duration) -> Result<Vec<Vec<u8>>, StoreError> {
    let op = OpContext { deadline: tokio::time::Instant::now() + within, ..server.op() };
    let page = server.session.get(&op, list, &EVERYTHING).await?;
    Ok(page.items.into_iter().map(|item| item.value.to_vec()).collect())
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_hundred_identical_reads_make_two_requests() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let (list, other) = (fresh_list(), fresh_list());
    server.add(&list, &[(now(), b"v")]).await;
    server.add(&other, &[(now(), b"w")]).await;
    hold_up_requests(&mut forger, HELD);
    let reads = (0..100).map(|_| read(&server, &list, LONG));
    let (read_alike, elsewhere) = tokio::join!(join_all(reads), read(&server, &other, LONG));
    for values in read_alike {
        assert_eq!(values.unwrap(), [b"v"]);
    }
    assert_eq!(elsewhere.unwrap(), [b"w"]);
    assert_eq!(requests(&server), 2 + 1, "two for the one list, one for the other");
    assert_eq!(server.metric("liststore_cql_reads_joined_total", "") as u32, 98);
}

#[tokio::test]
async fn a_read_sees_writes_acknowledged_before_it_began() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    // Another server, which is not held up.
    let writer = Server::open(shared_options()).await;
    let list = fresh_list();
    // Answers come late, and the test is notified when the node has sent them.
    let (given, mut answers) = feedback();
    let held = ResponseReaction::delay(12 * HELD).with_feedback_when_performed(given);
    let results =
        Condition::ResponseOpcode(ResponseOpcode::Result).and(Condition::not(Condition::ConnectionRegisteredAnyEvent));
    forger.on_responses(vec![ResponseRule(results, held)]);
    let late = async {
        answers.recv().await.unwrap();
        writer.add(&list, &[(now(), b"acknowledged")]).await;
        join_all((0..3).map(|_| read(&server, &list, LONG))).await
    };
    let (early, late) = tokio::join!(read(&server, &list, LONG), late);
    assert!(early.unwrap().is_empty(), "it had looked before the add");
    for values in late {
        assert_eq!(values.unwrap(), [b"acknowledged"]);
    }
    assert_eq!(requests(&server), 2);
}

/// The proxy's notifications.
#[expect(clippy::disallowed_methods, reason = "the proxy asks for a channel without bound")]
fn feedback<T>() -> (tokio::sync::mpsc::UnboundedSender<T>, tokio::sync::mpsc::UnboundedReceiver<T>) {
    tokio::sync::mpsc::unbounded_channel()
}

#[tokio::test]
async fn many_readers_see_every_earlier_write_of_another_server() {
    let (reader, writer, list) =
        (Server::open(shared_options()).await, Server::open(shared_options()).await, fresh_list());
    let acknowledged = std::cell::RefCell::new(BTreeSet::new());
    let done = std::cell::Cell::new(false);
    let write = async {
        for n in 0..100 {
            let value = format!("v{n}").into_bytes();
            writer.add(&list, &[(now(), &value)]).await;
            acknowledged.borrow_mut().insert(value);
        }
        done.set(true);
    };
    let readers = join_all((0..20).map(|_| async {
        while !done.get() {
            let before = acknowledged.borrow().clone();
            let seen: BTreeSet<_> = reader.values(&list).await.into_iter().collect();
            assert!(seen.is_superset(&before), "an acknowledged item is missing");
        }
    }));
    tokio::join!(write, readers);
    assert!(reader.metric("liststore_cql_reads_joined_total", "") > 0.0);
}

/// Twelve gets once waited up to 600 ms for the one before them, which alone was slow.
#[tokio::test]
async fn one_slow_answer_delays_no_other_caller() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    let once = of(Sent::Read).and(Condition::TrueForLimitedTimes(1));
    forger.on_requests(vec![RequestRule(once, RequestReaction::delay(15 * HELD))]);
    let others = async {
        let answers = join_all((0..12).map(|_| read(&server, &list, LONG))).await;
        (answers, Instant::now())
    };
    let slow = async {
        let answer = read(&server, &list, LONG).await;
        (answer, Instant::now())
    };
    let ((slow, slow_ended), (others, others_ended)) = tokio::join!(slow, others);
    assert_eq!(slow.unwrap(), [b"v"]);
    for values in others {
        assert_eq!(values.unwrap(), [b"v"]);
    }
    assert!(others_ended < slow_ended, "they waited for the one that was slow");
    assert_eq!(requests(&server), 2);
}

#[tokio::test]
async fn a_failure_reaches_all_joined_callers() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let list = fresh_list();
    let error = Box::new(|| DbError::SyntaxError);
    let broken = RequestReaction::forge_with_error_lazy_delay(error, Some(HELD / 4));
    forger.on_requests(vec![RequestRule(of(Sent::Read), broken)]);
    for failed in join_all((0..20).map(|_| read(&server, &list, LONG))).await {
        assert!(matches!(failed, Err(StoreError::Internal { outcome_unknown: false, .. })), "{failed:?}");
    }
    assert_eq!(requests(&server), 2);
    forger.heal();
    assert!(read(&server, &list, LONG).await.unwrap().is_empty(), "and the next read is well");
}

#[tokio::test]
async fn each_reader_keeps_its_deadline() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    hold_up_requests(&mut forger, 10 * HELD);
    let began = Instant::now();
    let hasty = async {
        let outcome = read(&server, &list, HELD / 2).await;
        (outcome, began.elapsed())
    };
    let (first, (hasty, took), patient) = tokio::join!(read(&server, &list, LONG), hasty, read(&server, &list, LONG));
    assert!(matches!(hasty, Err(StoreError::Timeout { outcome_unknown: false })), "{hasty:?}");
    assert!((HELD / 2..10 * HELD).contains(&took), "{took:?}");
    assert_eq!((first.unwrap(), patient.unwrap()), (vec![b"v".to_vec()], vec![b"v".to_vec()]));
}

#[tokio::test]
async fn a_lost_reader_blocks_no_other() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    hold_up_requests(&mut forger, HELD);
    let leaves = tokio::time::timeout(HELD / 4, read(&server, &list, LONG));
    let (left, stayed) = tokio::join!(leaves, join_all((0..5).map(|_| read(&server, &list, LONG))));
    assert!(left.is_err(), "the first reader did not leave");
    for values in stayed {
        assert_eq!(values.unwrap(), [b"v"]);
    }
}
