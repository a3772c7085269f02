//! Errors that a healthy cluster does not return, forged in front of a real node: the answer of each operation, and
//! the result of a later read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::domain::ListKey;
use liststore::items::StoreError;
use liststore::items::cql::CqlOptions;
use scylla::errors::{DbError, WriteType};
use scylla_proxy::{
    Condition, Reaction, RequestOpcode, RequestReaction, RequestRule, ResponseFrame, ResponseOpcode, ResponseReaction,
    ResponseRule,
};

use crate::forger::{Forger, Sent, of};
use crate::probe::{Server, fresh_list, now};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Get,
    Add,
    RemoveValue,
    RemoveAll,
}

const OPERATIONS: [(Operation, &[Sent]); 4] = [
    (Operation::Get, &[Sent::Read]),
    (Operation::Add, &[Sent::Add]),
    (Operation::RemoveValue, &[Sent::Read, Sent::Delete]),
    (Operation::RemoveAll, &[Sent::Delete]),
];

/// The name in metrics of an operation's statement.
fn statement(operation: Operation, sent: Sent) -> &'static str {
    match (operation, sent) {
        (Operation::Get, _) => "get",
        (Operation::Add, _) => "add",
        (Operation::RemoveValue, Sent::Read) => "find",
        (Operation::RemoveValue, _) => "delete",
        (Operation::RemoveAll, _) => "clear",
    }
}

async fn run(server: &Server, list: &ListKey, operation: Operation) -> Result<(), StoreError> {
    let op = server.op();
    match operation {
        Operation::Get => server.session.get(&op, list, &crate::probe::EVERYTHING).await.map(|_| ()),
        Operation::Add => server.try_add(list, &op, &[(now(), b"new"), (now(), b"newer")]).await,
        Operation::RemoveValue => server.session.remove_value(&op, list, b"old").await.map(|_| ()),
        Operation::RemoveAll => server.session.remove_all(&op, list).await,
    }
}

/// The content of a list of `old`, `other` after an operation that was carried out, or was not.
fn after(operation: Operation, done: bool) -> Vec<&'static [u8]> {
    match (operation, done) {
        (Operation::Add, true) => vec![b"new", b"newer", b"old", b"other"],
        (Operation::RemoveValue, true) => vec![b"other"],
        (Operation::RemoveAll, true) => vec![],
        _ => vec![b"old", b"other"],
    }
}

async fn assert_holds(server: &Server, list: &ListKey, expected: &[&[u8]], case: &str) {
    let mut values = server.values(list).await;
    values.sort();
    assert_eq!(values, expected, "{case}");
}

async fn filled(server: &Server) -> ListKey {
    let list = fresh_list();
    server.add(&list, &[(now(), b"old"), (now(), b"other")]).await;
    list
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Unavailable,
    Tombstones,
    Overloaded,
    Timeout,
    Refused,
    Internal,
}

fn kind(error: &StoreError) -> Kind {
    match error {
        StoreError::Unavailable { .. } => Kind::Unavailable,
        StoreError::TooManyTombstones { .. } => Kind::Tombstones,
        StoreError::Overloaded { .. } => Kind::Overloaded,
        StoreError::Timeout { .. } => Kind::Timeout,
        StoreError::Refused(_) => Kind::Refused,
        StoreError::Internal { .. } => Kind::Internal,
    }
}

/// The error, whether only a write can cause it, its kind, whether it is retried, and whether a write may have been
/// carried out.
fn errors() -> Vec<(DbError, bool, Kind, bool, bool)> {
    let consistency = scylla::statement::Consistency::LocalQuorum;
    let (received, required, numfailures, data_present) = (1, 2, 1, false);
    let write_type = WriteType::Batch;
    vec![
        (DbError::Unavailable { consistency, required: 2, alive: 1 }, false, Kind::Unavailable, true, false),
        (DbError::Overloaded, false, Kind::Overloaded, true, false),
        (DbError::IsBootstrapping, false, Kind::Unavailable, true, false),
        (DbError::ReadTimeout { consistency, received, required, data_present }, false, Kind::Timeout, true, true),
        (
            DbError::ReadFailure { consistency, received, required, numfailures, data_present },
            false,
            Kind::Unavailable,
            true,
            true,
        ),
        (
            DbError::WriteTimeout { consistency, received, required, write_type: write_type.clone() },
            true,
            Kind::Timeout,
            true,
            true,
        ),
        (
            DbError::WriteFailure { consistency, received, required, numfailures, write_type },
            true,
            Kind::Unavailable,
            true,
            true,
        ),
        (DbError::ServerError, false, Kind::Internal, true, true),
        (DbError::ProtocolError, false, Kind::Internal, false, false),
        (DbError::SyntaxError, false, Kind::Internal, false, false),
        (DbError::Invalid, false, Kind::Internal, false, false),
        (DbError::ConfigError, false, Kind::Internal, false, false),
        (DbError::Unauthorized, false, Kind::Unavailable, false, false),
        (DbError::Other(0x1600), false, Kind::Internal, false, true),
    ]
}

#[tokio::test]
async fn every_error_of_every_operation_is_answered_as_documented() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    for (operation, statements) in OPERATIONS {
        for &sent in statements {
            for (error, only_writes, expected, retried, unknown) in errors() {
                let writes = sent != Sent::Read;
                if only_writes && !writes {
                    continue;
                }
                let case = format!("{operation:?} at {sent:?}: {error}");
                let list = filled(&server).await;
                // Written lists are also checked in the background, by the statement `keys`.
                let retries = || server.metric("liststore_cql_retries_total", statement(operation, sent));
                let before = retries();
                forger.on_requests(vec![RequestRule(of(sent), RequestReaction::forge_with_error(error))]);
                let failed = run(&server, &list, operation).await.expect_err(&case);
                forger.heal();
                assert_eq!(kind(&failed), expected, "{case}");
                assert_eq!(failed.outcome_unknown(), unknown && writes, "{case}");
                assert_eq!((retries() - before) as u32, if retried { 3 } else { 0 }, "{case}");
                assert!(!format!("{failed:?}").contains("Proxy-triggered"), "{case}: the database's words got through");
                // The node never saw it.
                assert_holds(&server, &list, &after(operation, false), &case).await;
            }
        }
    }
}

#[tokio::test]
async fn a_transient_error_is_hidden_by_a_retry() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    for (operation, statements) in OPERATIONS {
        for &sent in statements {
            for (error, only_writes, _, retried, _) in errors() {
                if !retried || (only_writes && sent == Sent::Read) {
                    continue;
                }
                let case = format!("{operation:?} at {sent:?}: {error}");
                let list = filled(&server).await;
                let once = of(sent).and(Condition::TrueForLimitedTimes(1));
                forger.on_requests(vec![RequestRule(once, RequestReaction::forge_with_error(error))]);
                run(&server, &list, operation).await.expect(&case);
                forger.heal();
                assert_holds(&server, &list, &after(operation, true), &case).await;
            }
        }
    }
}

/// A write that the node carried out although the answer reports a timeout.
#[tokio::test]
async fn a_write_of_unknown_outcome_may_have_been_applied() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    for operation in [Operation::Add, Operation::RemoveValue, Operation::RemoveAll] {
        let list = filled(&server).await;
        // A write's answer is RESULT of the kind Void (CQL binary protocol, section 4.2.5.1).
        let lie = ResponseReaction::transform_frame(Arc::new(|frame: ResponseFrame| {
            if frame.opcode != ResponseOpcode::Result || frame.body[..] != [0, 0, 0, 1] {
                return frame;
            }
            let consistency = scylla::statement::Consistency::LocalQuorum;
            let error = DbError::WriteTimeout { consistency, received: 1, required: 2, write_type: WriteType::Simple };
            ResponseFrame::forged_error(frame.params, error, None).unwrap()
        }));
        forger.on_responses(vec![ResponseRule(Condition::True, lie)]);
        let failed = run(&server, &list, operation).await.unwrap_err();
        forger.heal();
        assert!(matches!(failed, StoreError::Timeout { outcome_unknown: true }), "{operation:?}: {failed:?}");
        assert_holds(&server, &list, &after(operation, true), &format!("{operation:?}")).await;
        // Doing it again is safe.
        run(&server, &list, operation).await.unwrap();
    }
}

/// The body of a BATCH begins with its kind, 0 for logged, and the number of its statements (CQL binary
/// protocol, section 4.1.7).
#[tokio::test]
async fn an_add_is_one_logged_batch() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sight = Arc::clone(&seen);
    let look = RequestReaction::transform_frame(Arc::new(move |frame: scylla_proxy::RequestFrame| {
        sight.lock().unwrap().push(frame.body[..3].to_vec());
        frame
    }));
    forger.on_requests(vec![RequestRule(Condition::RequestOpcode(RequestOpcode::Batch), look)]);
    let list = fresh_list();
    server.add(&list, &[(now(), b"one")]).await;
    server.add(&list, &[(now(), b"two"), (now(), b"three"), (now(), b"four")]).await;
    assert_eq!(*seen.lock().unwrap(), [[0, 0, 1], [0, 0, 3]]);
    assert_eq!(server.values(&list).await.len(), 4);
}

/// A late attempt of an add must not restore an item that was removed after it.
#[tokio::test]
async fn an_attempt_that_arrives_late_does_not_outrank_a_later_removal() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let list = fresh_list();
    let slow = Condition::RequestOpcode(RequestOpcode::Batch).and(Condition::TrueForLimitedTimes(1));
    forger.on_requests(vec![RequestRule(slow, RequestReaction::delay(Duration::from_secs(10)))]);
    let began = Instant::now();
    let op =
        liststore::items::OpContext { deadline: tokio::time::Instant::now() + Duration::from_secs(9), ..server.op() };
    // The first attempt is delayed. The second, which begins after 3 s, is carried out.
    server.try_add(&list, &op, &[(op.now, b"v")]).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(server.remove(&list, b"v").await, 1);
    // By now the first attempt has arrived too.
    tokio::time::sleep_until((began + Duration::from_secs(11)).into()).await;
    assert!(server.values(&list).await.is_empty());
}

/// Another caller sees and removes an add whose answer was lost, before it is sent again: it must not return, so both
/// attempts have one write timestamp.
#[tokio::test]
async fn a_retry_does_not_outrank_a_removal_in_between() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let other = Server::open(crate::cassandra::shared_options()).await;
    let list = fresh_list();
    let first = Condition::ResponseOpcode(ResponseOpcode::Result)
        .and(Condition::not(Condition::ConnectionRegisteredAnyEvent))
        .and(Condition::TrueForLimitedTimes(1));
    forger.on_responses(vec![ResponseRule(first, ResponseReaction::drop_frame())]);
    let op =
        liststore::items::OpContext { deadline: tokio::time::Instant::now() + Duration::from_secs(6), ..server.op() };
    let items = [(op.now, b"v".as_slice())];
    let remove_when_seen = async {
        while other.values(&list).await.is_empty() {}
        other.remove(&list, b"v").await
    };
    let remove_when_seen = tokio::time::timeout(Duration::from_secs(60), remove_when_seen);
    let (added, removed) = tokio::join!(server.try_add(&list, &op, &items), remove_when_seen);
    added.unwrap();
    assert_eq!(removed.expect("it is never seen"), 1);
    assert!(other.values(&list).await.is_empty());
}

#[tokio::test]
async fn a_request_without_an_answer_is_repeated() {
    let mut forger = Forger::start().await;
    let server = Server { deadline: Duration::from_secs(5), ..Server::open(forger.options.clone()).await };
    for (operation, statements) in OPERATIONS {
        for &sent in statements {
            let list = filled(&server).await;
            let once = of(sent).and(Condition::TrueForLimitedTimes(1));
            forger.on_requests(vec![RequestRule(once, RequestReaction::drop_frame())]);
            run(&server, &list, operation).await.unwrap();
            forger.heal();
            assert_holds(&server, &list, &after(operation, true), &format!("{operation:?} at {sent:?}")).await;
        }
    }
}

#[tokio::test]
async fn without_any_answer_the_deadline_applies() {
    let mut forger = Forger::start().await;
    let server = Server { deadline: Duration::from_secs(2), ..Server::open(forger.options.clone()).await };
    for (operation, statements) in OPERATIONS {
        for &sent in statements {
            let list = filled(&server).await;
            forger.on_requests(vec![RequestRule(of(sent), RequestReaction::drop_frame())]);
            let began = Instant::now();
            let failed = run(&server, &list, operation).await.unwrap_err();
            let took = began.elapsed();
            forger.heal();
            let unknown = sent != Sent::Read;
            assert!(
                matches!(failed, StoreError::Timeout { outcome_unknown } if outcome_unknown == unknown),
                "{operation:?} at {sent:?}: {failed:?}"
            );
            assert!((Duration::from_millis(1_900)..Duration::from_secs(20)).contains(&took), "{took:?}");
            assert_holds(&server, &list, &after(operation, false), &format!("{operation:?} at {sent:?}")).await;
        }
    }
}

#[tokio::test]
async fn a_broken_connection_is_replaced_during_the_operation() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    for (operation, statements) in OPERATIONS {
        for &sent in statements {
            let list = filled(&server).await;
            let once = of(sent).and(Condition::TrueForLimitedTimes(1));
            forger.on_requests(vec![RequestRule(once, RequestReaction::drop_connection())]);
            run(&server, &list, operation).await.unwrap();
            forger.heal();
            assert_holds(&server, &list, &after(operation, true), &format!("{operation:?} at {sent:?}")).await;
        }
    }
}

#[tokio::test]
async fn a_read_is_speculative_if_configured() {
    let mut forger = Forger::start().await;
    let options = CqlOptions { speculative_after: Some(Duration::from_millis(20)), ..forger.options.clone() };
    let server = Server::open(options).await;
    let list = filled(&server).await;
    let once = || Condition::TrueForLimitedTimes(1);
    forger.on_requests(vec![RequestRule(of(Sent::Read).and(once()), RequestReaction::drop_frame())]);
    let began = Instant::now();
    assert_eq!(server.values(&list).await.len(), 2);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(server.metric("liststore_cql_retries_total", "speculation") as u32, 1);
    // Writes are not.
    let before = server.metric("liststore_cql_retries_total", "add");
    forger
        .on_requests(vec![RequestRule(of(Sent::Add).and(once()), RequestReaction::delay(Duration::from_millis(300)))]);
    server.add(&list, &[(now(), b"v")]).await;
    assert_eq!(server.metric("liststore_cql_retries_total", "add") - before, 0.0);
}

#[tokio::test]
async fn requests_invalid_for_the_cluster_are_explained() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let list = filled(&server).await;
    let words = "Request on table a.list_items with ttl of 630720000 seconds exceeds maximum supported expiration date \
                 of 2038-01-19T03:14:06+00:00. In order to avoid this use a lower TTL";
    let invalid = RequestReaction::forge_with_error_and_message(DbError::Invalid, Some(words.to_owned()));
    forger.on_requests(vec![RequestRule(of(Sent::Add), invalid)]);
    match run(&server, &list, Operation::Add).await.unwrap_err() {
        StoreError::Refused(why) => assert!(why.detail.contains("storage_compatibility_mode"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Cassandra's error for a read that exceeds `tombstone_failure_threshold`.
#[tokio::test]
async fn too_many_tombstones_are_reported_without_a_retry() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let list = filled(&server).await;
    let words = "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000";
    let consistency = scylla::statement::Consistency::One;
    let (received, required, numfailures, data_present) = (0, 1, 1, false);
    let error = DbError::ReadFailure { consistency, received, required, numfailures, data_present };
    let failure = RequestReaction::forge_with_error_and_message(error, Some(words.to_owned()));
    forger.on_requests(vec![RequestRule(of(Sent::Read), failure)]);
    for (operation, statement) in [(Operation::Get, "get"), (Operation::RemoveValue, "find")] {
        let failed = run(&server, &list, operation).await.unwrap_err();
        assert_eq!((kind(&failed), failed.is_retryable()), (Kind::Tombstones, false), "{operation:?}");
        assert_eq!(server.metric("liststore_cql_retries_total", statement), 0.0, "{operation:?}");
    }
}

/// A removal has several requests. A certain refusal of one proves nothing about the earlier ones.
#[tokio::test]
async fn a_removal_that_fails_after_its_start_has_an_unknown_outcome() {
    let passes = |sent| RequestRule(of(sent).and(Condition::TrueForLimitedTimes(1)), RequestReaction::noop());
    let refused = |sent| RequestRule(of(sent), RequestReaction::forge_with_error(DbError::Unauthorized));
    // More rows than one search finds, and more than one delete has.
    for (case, rows, rules) in [
        ("the next search", 1_001, vec![passes(Sent::Read), refused(Sent::Read)]),
        ("another delete", 30, vec![passes(Sent::Delete), refused(Sent::Delete)]),
    ] {
        let mut forger = Forger::start().await;
        let (server, list, base) = (Server::open(forger.options.clone()).await, fresh_list(), now().as_nanos());
        let at = |n| liststore::domain::Timestamp::from_nanos(base - n).unwrap();
        let items: Vec<_> = (0..rows).map(|n| (at(n), b"v".as_slice())).collect();
        for part in items.chunks(1_000) {
            server.add(&list, part).await;
        }
        forger.on_requests(rules);
        let failed = server.session.remove_value(&server.op(), &list, b"v").await.unwrap_err();
        forger.heal();
        assert_eq!((kind(&failed), failed.outcome_unknown()), (Kind::Unavailable, true), "{case}: {failed:?}");
        assert!(server.values(&list).await.len() < items.len(), "{case}: something is gone");
    }
}

#[tokio::test]
async fn batches_have_the_consistency_level_of_writes() {
    let mut forger = Forger::start().await;
    let write_consistency = liststore::items::cql::Consistency::Quorum;
    let server = Server::open(CqlOptions { write_consistency, ..forger.options.clone() }).await;
    let level = Condition::RequestConsistency(scylla::statement::Consistency::Quorum, Default::default());
    let (arrived, mut arrivals) = crate::permits::feedback();
    let batch = Condition::RequestOpcode(RequestOpcode::Batch).and(level);
    forger.on_requests(vec![RequestRule(batch, RequestReaction::noop().with_feedback_when_performed(arrived))]);
    server.add(&fresh_list(), &[(now(), b"v")]).await;
    assert!(arrivals.try_recv().is_ok(), "it had another");
}
