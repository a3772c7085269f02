//! Walks over many rows, for any page size of a cluster: ScyllaDB ends a page at a megabyte, and among many removed
//! rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use liststore::domain::{EntityId, FeatureKey, Identity, Keep, ListKey};
use liststore::items::SwapScan;
use liststore::items::cql::migrate;
use scylla::errors::DbError;
use scylla_proxy::{Condition, Reaction, RequestFrame, RequestReaction, RequestRule};

use crate::forger::{Forger, Sent, of};
use crate::keyspace::Keyspace;
use crate::permits::feedback;
use crate::probe::{Server, bare, fresh_list, fresh_set, now};
use crate::swaps::part;

/// Its form in a request for a page.
fn page_size(rows: i32) -> [u8; 4] {
    rows.to_be_bytes()
}

/// Pages of three rows instead of the requested size, and their number. The size of a page follows the bound values
/// (CQL binary protocol, section 4.1.4).
fn short_pages(asked: i32) -> (RequestReaction, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let cut = move |frame: RequestFrame| {
        let mut body = frame.body.to_vec();
        if let Some(place) = body.windows(4).rposition(|bytes| bytes == page_size(asked)) {
            counted.fetch_add(1, Ordering::Relaxed);
            body[place..place + 4].copy_from_slice(&page_size(3));
        }
        RequestFrame { body: body.into(), ..frame }
    };
    (RequestReaction::transform_frame(Arc::new(cut)), count)
}

/// In a separate keyspace: a walk passes over the lists of all features.
async fn begin() -> (Keyspace, Forger, Server) {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let forger = Forger::before(keyspace.options.clone()).await;
    let server = Server::open(forger.options.clone()).await;
    (keyspace, forger, server)
}

async fn filled(server: &Server, feature_key: &FeatureKey, lists: usize) -> Vec<EntityId> {
    let mut entities: Vec<_> = (0..lists).map(|n| EntityId::new(&format!("u-{n}")).unwrap()).collect();
    for entity in &entities {
        server.add(&ListKey::new(feature_key.clone(), entity.clone()), &[(now(), b"here")]).await;
    }
    entities.sort();
    entities
}

async fn walked(server: &Server, feature_key: &FeatureKey) -> Vec<EntityId> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = server.session.entities(&server.op(), feature_key, from.as_ref(), 100).await.unwrap();
        found.extend(page.entities);
        from = page.next;
        if from.is_none() {
            found.sort();
            return found;
        }
    }
}

#[tokio::test]
async fn a_short_page_is_not_the_end_of_a_walk() {
    let (_keyspace, mut forger, server) = begin().await;
    let feature_key = fresh_list().feature_key;
    let expected = filled(&server, &feature_key, 20).await;
    let (short, count) = short_pages(1_000);
    forger.on_requests(vec![RequestRule(of(Sent::Read), short)]);
    assert_eq!(walked(&server, &feature_key).await, expected);
    assert!(count.load(Ordering::Relaxed) >= 20 / 3, "{count:?}");
}

/// The lists of a set may be in two tables. An entity far off in one was returned again with each part of the other.
#[tokio::test]
async fn an_entity_of_two_tables_is_returned_once() {
    let (_keyspace, mut forger, server) = begin().await;
    let feature_key = fresh_set(Identity::Value(Keep::Newest)).feature_key;
    let expected = filled(&server, &feature_key, 3).await;
    let walks = || of(Sent::Read).and(Condition::BodyContainsCaseSensitive(page_size(1_000)[..].into()));
    let consistency = scylla::statement::Consistency::One;
    let in_vain = DbError::ReadTimeout { consistency, received: 0, required: 1, data_present: false };
    let (met, mut meetings) = feedback();
    let in_vain = RequestReaction::forge_with_error(in_vain).with_feedback_when_performed(met);
    forger.on_requests(vec![
        RequestRule(walks().and(Condition::TrueForLimitedTimes(1)), RequestReaction::noop()),
        RequestRule(walks().and(Condition::TrueForLimitedTimes(12)), in_vain),
    ]);
    assert_eq!(walked(&server, &feature_key).await, expected);
    assert!(meetings.try_recv().is_ok(), "no table was read in narrower parts");
}

const SWAPS: usize = 40;

/// Notes swaps in a shard of the present minute.
async fn noted(keyspace: &Keyspace) -> (i64, BTreeSet<uuid::Uuid>) {
    let bare = bare(&keyspace.options).await;
    let minute = now().as_micros().cast_signed() / 60_000_000;
    let insert = "INSERT INTO list_bag_swaps (minute, shard, id, feature_key, entity_id, removed, written) VALUES (?, 0, ?, \
                  ?, ?, 0x, 1)";
    let insert = bare.prepare(insert).await.unwrap();
    let bags = fresh_list().feature_key;
    let mut expected = BTreeSet::new();
    for n in 0..SWAPS {
        let id = uuid::Uuid::new_v4();
        bare.execute_unpaged(&insert, (minute, id, bags.as_str(), format!("e-{n}"))).await.unwrap();
        expected.insert(id);
    }
    (minute, expected)
}

#[tokio::test]
async fn a_short_page_of_unfinished_swaps_is_not_the_last() {
    let (keyspace, mut forger, server) = begin().await;
    let (_, expected) = noted(&keyspace).await;
    let (short, count) = short_pages(500);
    forger.on_requests(vec![RequestRule(of(Sent::Read), short)]);
    let page =
        server.session.swap_journal().unwrap().unfinished_swaps(&server.op(), SwapScan::default()).await.unwrap();
    assert!(page.scan.is_over(), "{:?}", page.scan);
    assert_eq!(
        page.swaps
            .iter()
            .map(|swap| uuid::Uuid::from_slice(&swap.id.as_bytes()[12..28]).unwrap())
            .collect::<BTreeSet<_>>(),
        expected
    );
    assert!(count.load(Ordering::Relaxed) >= SWAPS / 3, "{count:?}");
}

/// The result of earlier pages was lost once, and skipped until its minute came round again.
#[tokio::test]
async fn a_failed_page_of_unfinished_swaps_keeps_the_earlier_pages() {
    let (keyspace, mut forger, server) = begin().await;
    let (minute, expected) = noted(&keyspace).await;
    let pages = |times| {
        let asked = Condition::BodyContainsCaseSensitive(page_size(500)[..].into());
        of(Sent::Read).and(asked).and(Condition::TrueForLimitedTimes(times))
    };
    let (short, count) = short_pages(500);
    let (met, mut meetings) = feedback();
    let refused = RequestReaction::forge_with_error(DbError::Unauthorized).with_feedback_when_performed(met);
    forger.on_requests(vec![RequestRule(pages(3), short), RequestRule(pages(1), refused)]);
    let scan = SwapScan { number: 1, left: vec![part(minute, 0)] };
    let page = server.session.swap_journal().unwrap().unfinished_swaps(&server.op(), scan).await.unwrap();
    assert!(count.load(Ordering::Relaxed) == 3 && meetings.try_recv().is_ok(), "no page failed after others");
    assert!(page.scan.is_over(), "{:?}", page.scan);
    assert_eq!(
        page.swaps
            .iter()
            .map(|swap| uuid::Uuid::from_slice(&swap.id.as_bytes()[12..28]).unwrap())
            .collect::<BTreeSet<_>>(),
        expected
    );
}
