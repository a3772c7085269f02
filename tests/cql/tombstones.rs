//! More deletions than Cassandra lets a read pass: every layout is read all the same.

use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use liststore::domain::{ListKey, Order, Timestamp};
use liststore::items::cql::CqlOptions;
use liststore::items::{EntryChange, ItemPage, Range, StoreError, Swapped};
use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};
use tokio::time::{Instant, sleep};

use crate::bags::{fresh, put};
use crate::cassandra::shared_options;
use crate::probe::{EVERYTHING, Server, bare, fresh_list, key, now, now_micros};

/// More than Cassandra's `tombstone_failure_threshold`, 100,000.
const DELETIONS: u64 = 120_000;
/// Rows of one statement.
const AT_ONCE: u64 = 1_000;

/// Writes are settled sooner than operators have them: no operation of these tests is under way for so long.
fn options() -> CqlOptions {
    CqlOptions { settled_after: Duration::from_secs(1), ..shared_options() }
}

/// Waits until a read is no longer refused for its tombstones.
async fn until_read<T>(mut read: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match read().await {
            Err(StoreError::TooManyTombstones { .. }) if Instant::now() < until => {
                sleep(Duration::from_millis(50)).await
            }
            read => return read.unwrap(),
        }
    }
}

async fn until_page(server: &Server, list: &ListKey, order: Order) -> ItemPage {
    let range = Range { order, ..EVERYTHING };
    until_read(async || server.session.get(&server.op(), list, &range).await).await
}

/// Deletes rows of a list that are not there, so that only tombstones are.
async fn bury(bare: &Session, list: &ListKey, keys: impl Iterator<Item = String>, written: i64) {
    let text = "DELETE FROM list_items USING TIMESTAMP ? WHERE feature_key = ? AND entity_id = ? AND item_key = ?";
    let delete = bare.prepare(text).await.unwrap();
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let rows: Vec<_> = keys.map(|key| (written, feature_key, entity_id, key)).collect();
    let delete = &delete;
    let batches = rows.chunks(500).map(|rows| async move {
        let statements = rows.iter().map(|_| delete.clone().into()).collect();
        bare.batch(&Batch::new_with_statements(BatchType::Unlogged, statements), rows).await.map(drop)
    });
    stream::iter(batches).buffer_unordered(8).try_collect::<()>().await.unwrap();
}

/// As bags that are updated often leave them in an index without an order.
#[tokio::test]
async fn entries_that_move_often_are_found() {
    let server = Server::open(options()).await;
    let (bag, list) = (fresh(""), fresh("by_city"));
    let base = now().as_nanos();
    let places = |round: u64| (0..AT_ONCE).map(move |n| Timestamp::from_nanos(base + round * AT_ONCE + n).unwrap());
    for round in 0..=DELETIONS / AT_ONCE {
        let before = round.checked_sub(1).into_iter().flat_map(places);
        let removed = before.map(|place| (place, "e-1".into())).collect();
        let added = places(round).map(|place| crate::bags::item(&server, place, "e-1")).collect();
        let entries = vec![EntryChange { list: list.clone(), removed, added }];
        assert_eq!(put(&server, &bag, "{}", entries).await.unwrap(), Swapped::Done);
    }
    for order in [Order::Newest, Order::Oldest] {
        assert_eq!(until_page(&server, &list, order).await.items.len() as u64, AT_ONCE, "{order:?}");
    }
    assert!(server.metric("liststore_cql_sweeps_total", "") > 0.0);
}

/// A store that an older release has left, or whose sweeps a replica that was down has held up, is read again once a
/// read was refused.
#[tokio::test]
async fn a_list_whose_reads_are_refused_is_swept() {
    let options = options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let first = now();
    let times = |n: u64| Timestamp::from_nanos(first.as_nanos() - n * 1_000_000).unwrap();
    let items: Vec<(Timestamp, &[u8])> = (0..20).map(|n| (times(n * DELETIONS / 20), &b"live"[..])).collect();
    server.add(&list, &items).await;
    let gone = (0..DELETIONS).map(|n| key(times(n), b"gone"));
    bury(&bare, &list, gone, now_micros() - 5_000_000).await;
    let refused = server.session.get(&server.op(), &list, &EVERYTHING).await;
    assert!(matches!(refused, Err(StoreError::TooManyTombstones { .. })), "{refused:?}");
    for order in [Order::Newest, Order::Oldest] {
        assert_eq!(until_page(&server, &list, order).await.items.len(), 20, "{order:?}");
    }
}
