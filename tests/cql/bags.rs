//! Bags of several servers on one cluster: swaps are compared regardless of their server, and their entries follow
//! them.

use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, Generation, ListKey, NewItem, SystemClock, Timestamp, Ttl,
    VersionLabel,
};
use liststore::items::cql::CqlOptions;
use liststore::items::{BagAfter, BagEntries, BagSwap, EntryChange, ReadBag, StoreError, Swapped};
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule, ResponseReaction, ResponseRule};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::bag_checker::call;
use crate::cassandra::shared_options;
use crate::cleaning::server_with;
use crate::clocks::OffClock;
use crate::forger::{Forger, Sent, of, swap_answer};
use crate::permits::feedback;
use crate::probe::{EVERYTHING, Server, now};
use crate::program::Server as Program;
use crate::servers::ok;

pub fn key(label: &str) -> FeatureKey {
    let id = FeatureId::of_bags(EntityType::new(&format!("t{}", uuid::Uuid::new_v4().simple())).unwrap());
    FeatureKey::new(&id, &VersionLabel::new(label).unwrap(), Generation::FIRST)
}

pub fn fresh(label: &str) -> ListKey {
    ListKey::new(key(label), EntityId::new("e-1").unwrap())
}

pub fn item(server: &Server, stamp: Timestamp, document: &str) -> NewItem {
    let expires_at = server.op().ttl.expiry_of(stamp);
    NewItem { timestamp: stamp, value: document.to_owned().into(), expires_at }
}

pub async fn read(server: &Server, bag: &ListKey) -> Option<(Timestamp, String)> {
    let found = server.session.bag(&server.op(), bag).await.unwrap().bag?;
    Some((found.timestamp, String::from_utf8(found.value.to_vec()).unwrap()))
}

/// Replaces an existing bag with another document, with changes of entries.
pub async fn put(
    server: &Server,
    bag: &ListKey,
    document: &str,
    entries: Vec<EntryChange>,
) -> Result<Swapped, StoreError> {
    let ReadBag { bag: found, row } = server.session.bag(&server.op(), bag).await?;
    let before = found.map(|found| found.timestamp);
    let stamp = before.map_or(0, |before| before.as_nanos() + 1).max(now().as_nanos());
    let after = BagAfter::Put(item(server, Timestamp::from_nanos(stamp).unwrap(), document));
    server.session.swap_bag(&server.op(), bag, BagSwap { before, row, after, entries, entered_in: None }).await
}

pub async fn entries(server: &Server, list: &ListKey) -> usize {
    let op = server.op_with(Ttl::ENDLESS);
    server.session.get(&op, list, &EVERYTHING).await.unwrap().items.len()
}

/// Each increments the number that it reads, and repeats a swap that found another bag.
async fn count(server: &Server, bag: &ListKey, times: usize) -> (usize, usize) {
    let (mut done, mut unknown) = (0, 0);
    while done + unknown < times {
        let op = server.op();
        let Ok(ReadBag { bag: found, row }) = server.session.bag(&op, bag).await else {
            // A request that is refused at once does not let others run.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (before, counted) = match found {
            Some(found) => (Some(found.timestamp), String::from_utf8(found.value.to_vec()).unwrap()),
            None => (None, "0".to_owned()),
        };
        let stamp = before.map_or(0, |before| before.as_nanos() + 1).max(now().as_nanos());
        let counted = counted.parse::<usize>().unwrap() + 1;
        let after = BagAfter::Put(item(server, Timestamp::from_nanos(stamp).unwrap(), &counted.to_string()));
        let swap = BagSwap { before, row, after, entries: Vec::new(), entered_in: None };
        match server.session.swap_bag(&op, bag, swap).await {
            Ok(Swapped::Done) => done += 1,
            Ok(Swapped::Lost) => {}
            Err(error) if error.outcome_unknown() => unknown += 1,
            Err(_) => {}
        }
    }
    (done, unknown)
}

/// Answers that are lost make attempts that are repeated: each finds out whether the one before was made, however
/// often the other server has counted since.
#[tokio::test]
async fn concurrent_counters_on_servers_lose_no_count() {
    let mut forger = Forger::start().await;
    let (one, mut two) = (Server::open(shared_options()).await, Server::open(forger.options.clone()).await);
    two.deadline = Duration::from_secs(3);
    for cuts in [false, true] {
        let lost = swap_answer().and(Condition::RandomWithProbability(0.1));
        let loses = if cuts { ResponseReaction::drop_connection() } else { ResponseReaction::drop_frame() };
        forger.on_responses(vec![ResponseRule(lost, loses)]);
        let bag = fresh("");
        let ((done, unknown), others) = tokio::join!(count(&one, &bag, 30), count(&two, &bag, 30));
        forger.heal();
        let (done, unknown) = (done + others.0, unknown + others.1);
        let (_, counted) = read(&one, &bag).await.unwrap();
        let counted: usize = counted.parse().unwrap();
        let case = if cuts { "connections break" } else { "answers are lost" };
        assert!((done..=done + unknown).contains(&counted), "{case}: {counted} of {done} and {unknown} unknown ones");
    }
}

#[tokio::test]
async fn entries_follow_the_order_of_swaps_with_any_clocks() {
    let options = CqlOptions { clock_skew_max: Duration::ZERO, ..shared_options() };
    let fast = Server::open_with(options.clone(), Arc::new(OffClock { millis: 60_000 })).await;
    let (bag, list) = (fresh(""), fresh("by_city"));
    let entry = item(&fast, now(), "e-1");
    let comes = || vec![EntryChange { list: list.clone(), removed: Vec::new(), added: vec![entry.clone()] }];
    let goes = || {
        let removed = vec![(entry.timestamp, entry.value.clone())];
        vec![EntryChange { list: list.clone(), removed, added: Vec::new() }]
    };
    for taken_out in [false, true] {
        assert_eq!(put(&fast, &bag, "{}", comes()).await.unwrap(), Swapped::Done);
        assert_eq!(entries(&fast, &list).await, 1);
        // A server that has encountered nothing of the fast one.
        let slow = Server::open_with(options.clone(), Arc::new(SystemClock)).await;
        if taken_out {
            let before = read(&slow, &bag).await.map(|(stamp, _)| stamp);
            let swap = BagSwap { before, after: BagAfter::Gone, entries: goes(), row: None, entered_in: None };
            assert_eq!(slow.session.swap_bag(&slow.op(), &bag, swap).await.unwrap(), Swapped::Done);
        } else {
            assert_eq!(put(&slow, &bag, "[]", goes()).await.unwrap(), Swapped::Done);
        }
        assert_eq!(entries(&slow, &list).await, 0, "taken out: {taken_out}");
        let slow = Server::open_with(options.clone(), Arc::new(SystemClock)).await;
        assert_eq!(put(&slow, &bag, "again", comes()).await.unwrap(), Swapped::Done);
        assert_eq!(entries(&slow, &list).await, 1, "taken out: {taken_out}");
    }
}

/// The bag is swapped first. The answer reports the missing entries.
#[tokio::test]
async fn a_bag_whose_entries_cannot_be_written_is_stored() {
    let mut forger = Forger::start().await;
    let mut server = Server::open(forger.options.clone()).await;
    server.deadline = Duration::from_secs(8);
    let (bag, list) = (fresh(""), fresh("by_city"));
    let batches = Condition::RequestOpcode(scylla_proxy::RequestOpcode::Batch);
    forger.on_requests(vec![RequestRule(batches, RequestReaction::drop_frame())]);
    let change = EntryChange { list: list.clone(), removed: Vec::new(), added: vec![item(&server, now(), "e-1")] };
    let failed = put(&server, &bag, "{}", vec![change]).await.unwrap_err();
    assert!(failed.outcome_unknown(), "{failed:?}");
    forger.heal();
    let server = Server::open(shared_options()).await;
    assert_eq!(read(&server, &bag).await.map(|(_, document)| document), Some("{}".to_owned()));
    assert_eq!(entries(&server, &list).await, 0);
}

/// A builder of an index has read a bag, and its write of the entry arrives once another server has changed the bag.
#[tokio::test]
async fn an_entry_that_is_added_late_does_not_outlive_its_bag() {
    let mut forger = Forger::start().await;
    // Its clock counts for nothing either.
    let options = CqlOptions { clock_skew_max: Duration::ZERO, ..forger.options.clone() };
    let late = Server::open_with(options, Arc::new(OffClock { millis: 60_000 })).await;
    let other = Server::open(shared_options()).await;
    for taken_out in [false, true] {
        let (bag, list) = (fresh(""), fresh("by_city"));
        assert_eq!(put(&other, &bag, "{}", Vec::new()).await.unwrap(), Swapped::Done);
        let (stamp, _) = read(&late, &bag).await.unwrap();
        let entry = |value: &str| EntryChange {
            list: list.clone(),
            removed: Vec::new(),
            added: vec![item(&late, stamp, value)],
        };
        let of_bag = |stamp, value| vec![BagEntries { bag: bag.clone(), stamp, entries: vec![entry(value)] }];
        let (arrived, mut arrivals) = feedback();
        let held = RequestReaction::delay(Duration::from_secs(1)).with_feedback_when_performed(arrived);
        forger.on_requests(vec![RequestRule(of(Sent::Add), held)]);
        let op = late.op();
        let enter = late.session.enter_bags(&op, of_bag(stamp, "e-1"));
        let change = async {
            timeout(late.deadline, arrivals.recv()).await.expect("a write").unwrap();
            let removed = vec![(stamp, "e-1".into())];
            let goes = vec![EntryChange { list: list.clone(), removed, added: Vec::new() }];
            let changed = if taken_out {
                let swap =
                    BagSwap { before: Some(stamp), after: BagAfter::Gone, entries: goes, row: None, entered_in: None };
                other.session.swap_bag(&other.op(), &bag, swap).await
            } else {
                put(&other, &bag, "[]", goes).await
            };
            assert_eq!(changed.unwrap(), Swapped::Done);
            assert!(arrivals.is_empty(), "one write");
        };
        let (entered, ()) = tokio::join!(enter, change);
        assert_eq!(entered.unwrap(), [Swapped::Done], "it was the bag that was read");
        forger.heal();
        assert_eq!(entries(&other, &list).await, 0, "taken out: {taken_out}");
        // By now it is another one, or none.
        assert_eq!(late.session.enter_bags(&op, of_bag(stamp, "e-1")).await.unwrap(), [Swapped::Lost]);
        let Some((stamp, _)) = read(&late, &bag).await else { continue };
        assert_eq!(late.session.enter_bags(&op, of_bag(stamp, "e-2")).await.unwrap(), [Swapped::Done]);
        assert_eq!(entries(&other, &list).await, 1);
    }
}

/// A server process of such an entity type. Its reads and writes have different consistency levels, for the rules of
/// the proxy.
pub fn program(contact_points: &[String], entity_type: &str) -> Program {
    let settings = [("LISTSTORE__ITEMS__CQL__READ_CONSISTENCY", "ONE".to_owned())];
    let server = server_with(contact_points, &settings);
    ok(&server, "POST", "/v1/entity-types", &json!({"entity_type": entity_type}));
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_a_bag_reads_its_row_once() {
    let mut forger = Forger::start().await;
    let name = format!("t{}", uuid::Uuid::new_v4().simple());
    let server = program(&forger.options.contact_points, &name);
    for (method, expected) in [("PUT", 201), ("PUT", 200), ("PATCH", 200), ("DELETE", 204)] {
        let (met, mut meetings) = feedback();
        let reads = of(Sent::Read).and(Condition::BodyContainsCaseSensitive(name.clone().into_bytes().into()));
        forger.on_requests(vec![RequestRule(reads, RequestReaction::noop().with_feedback_when_performed(met))]);
        let path = format!("/v1/entities/{name}/e-1{}", if method == "DELETE" { "/bag" } else { "" });
        let body = if method == "DELETE" { Value::Null } else { json!({"a": 1}) };
        let (address, sent) = (server.address().to_owned(), path.clone());
        let calling = tokio::task::spawn_blocking(move || call(&address, method, &sent, &body));
        let (status, answer) = calling.await.unwrap().unwrap();
        assert_eq!(status, expected, "{method} {path}: {answer}");
        forger.heal();
        assert!(meetings.try_recv().is_ok(), "{method}: it is read");
        assert!(meetings.try_recv().is_err(), "{method}: it is read again");
    }
}

/// A swap that leaves its bag as it is writes the row again, from the row that was read with the bag.
#[tokio::test]
async fn a_change_of_only_entries_reads_its_row_once() {
    let mut forger = Forger::start().await;
    let server = Server::open(forger.options.clone()).await;
    let (bag, list) = (fresh(""), fresh("by_city"));
    assert_eq!(put(&server, &bag, "{}", Vec::new()).await.unwrap(), Swapped::Done);
    let entry = item(&server, now(), "e-1");
    for (is_named, expected) in [(true, 0), (false, 1)] {
        let ReadBag { bag: found, row } = server.session.bag(&server.op(), &bag).await.unwrap();
        let (met, mut meetings) = feedback();
        let key = bag.feature_key.as_str().as_bytes().to_vec();
        let reads = of(Sent::Read).and(Condition::BodyContainsCaseSensitive(key.into()));
        forger.on_requests(vec![RequestRule(reads, RequestReaction::noop().with_feedback_when_performed(met))]);
        let entries = vec![EntryChange { list: list.clone(), removed: Vec::new(), added: vec![entry.clone()] }];
        let (before, row) = (found.map(|found| found.timestamp), row.filter(|_| is_named));
        let swap = BagSwap { before, row, after: BagAfter::Same, entries, entered_in: None };
        assert_eq!(server.session.swap_bag(&server.op(), &bag, swap).await.unwrap(), Swapped::Done);
        forger.heal();
        assert_eq!(std::iter::from_fn(|| meetings.try_recv().ok()).count(), expected, "is the row named? {is_named}");
    }
    assert_eq!(entries(&server, &list).await, 1);
}
