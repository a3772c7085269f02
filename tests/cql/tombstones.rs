//! More deletions than Cassandra permits a read to pass: every layout is still readable.

use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{Identity, Keep, ListKey, MaxItems, MemberKey, NewItem, Order, Timestamp};
use liststore::items::cql::CqlOptions;
use liststore::items::{Bounds, EntryChange, ItemPage, OpContext, Range, Reclaim, Removal, StoreError, Swapped};
use scylla::client::session::Session;
use tokio::time::{Instant, sleep};

use crate::bags::{fresh, put};
use crate::cassandra::shared_options;
use crate::clocks::OffClock;
use crate::probe::{EVERYTHING, Server, bare, fresh_list, fresh_set, key, now, now_micros};

/// More than Cassandra's `tombstone_failure_threshold`, 100,000.
const DELETIONS: u64 = 120_000;
/// Members of a set that are written one after the other, and removed by one removal.
const LONG: u64 = 3_000;
/// Rows of one write.
const AT_ONCE: u64 = 1_000;

/// Writes are settled sooner than operators have them: no operation of these tests is in progress for so long.
fn options() -> CqlOptions {
    CqlOptions { settled_after: Duration::from_secs(1), ..shared_options() }
}

/// Waits until a read is no longer refused for its tombstones.
async fn until_read<T>(mut read: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        match read().await {
            Err(StoreError::TooManyTombstones { .. }) if Instant::now() < until => {
                sleep(Duration::from_millis(500)).await
            }
            read => return read.unwrap(),
        }
    }
}

async fn until_page(server: &Server, list: &ListKey, order: Order) -> ItemPage {
    let range = Range { order, ..EVERYTHING };
    until_read(async || server.session.get(&server.op(), list, &range).await).await
}

/// Deletes rows of a list that are not there, so that only tombstones are: rows of a table by a column.
async fn bury(bare: &Session, list: &ListKey, (table, column): (&str, &str), keys: impl Iterator<Item = String>) {
    let text =
        format!("DELETE FROM {table} USING TIMESTAMP ? WHERE feature_key = ? AND entity_id = ? AND {column} IN ?");
    let delete = bare.prepare(text).await.unwrap();
    let written = now_micros() - 5_000_000;
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let keys: Vec<_> = keys.collect();
    for keys in keys.chunks(5_000) {
        let until = Instant::now() + Duration::from_secs(60);
        // A node that is busy times out.
        while let Err(error) = bare.execute_unpaged(&delete, (written, feature_key, entity_id, keys)).await {
            assert!(Instant::now() < until, "{error}");
        }
    }
}

/// Often updated bags leave such entries in an index, ordered or not: places of ordered ones are far beyond all
/// timestamps.
#[tokio::test]
async fn entries_that_move_often_are_found() {
    let options = options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    let (now, far) = (now().as_nanos(), 6_000_000_000_000_000_000);
    for (first, apart) in [(now, 1_000), (far, 1_000)] {
        let (bag, list) = (fresh(""), fresh("by_city"));
        let place = |n: u64| Timestamp::from_nanos(first + n * apart).unwrap();
        let gone = (0..DELETIONS).map(|n| key(place(n), &n.to_be_bytes()));
        bury(&bare, &list, ("list_items", "item_key"), gone).await;
        let expires_at = server.op().ttl.expiry_of(Timestamp::from_nanos(now).unwrap());
        let entry = |n| NewItem { timestamp: place(n * DELETIONS / 20), value: format!("e-{n}").into(), expires_at };
        let entries =
            vec![EntryChange { list: list.clone(), removed: Vec::new(), added: (0..20).map(entry).collect() }];
        assert_eq!(put(&server, &bag, "{}", entries).await.unwrap(), Swapped::Done);
        for order in [Order::Newest, Order::Oldest] {
            let page = until_page(&server, &list, order).await;
            assert_eq!(page.items.len(), 20, "{order:?} from {first}, {apart} apart");
        }
    }
    assert!(server.metric("liststore_cql_sweeps_total", "") > 0.0);
}

/// A store that an older release has left, or whose sweeps a replica that was down has held up, is read again once a
/// read was refused. A clock that is ahead hides nothing that others add then.
#[tokio::test]
async fn a_list_whose_reads_are_refused_is_swept() {
    let options = options();
    let fast = Arc::new(OffClock { millis: 60_000 });
    let (server, bare, list) = (Server::open_with(options.clone(), fast).await, bare(&options).await, fresh_list());
    let first = now();
    let times = |n: u64| Timestamp::from_nanos(first.as_nanos() - n * 1_000_000).unwrap();
    let items: Vec<(Timestamp, &[u8])> = (0..20).map(|n| (times(n * DELETIONS / 20), &b"live"[..])).collect();
    server.add(&list, &items).await;
    let gone = (0..DELETIONS).map(|n| key(times(n), b"gone"));
    bury(&bare, &list, ("list_items", "item_key"), gone).await;
    let refused = server.session.get(&server.op(), &list, &EVERYTHING).await;
    assert!(matches!(refused, Err(StoreError::TooManyTombstones { .. })), "{refused:?}");
    for order in [Order::Newest, Order::Oldest] {
        assert_eq!(until_page(&server, &list, order).await.items.len(), 20, "{order:?}");
    }
    let other = Server::open(options).await;
    for at in [now(), times(DELETIONS / 40)] {
        other.add(&list, &[(at, b"late")]).await;
    }
    assert_eq!(other.values(&list).await.len(), 22);
}

/// Members with these numbers, which are microseconds from a moment, too.
fn members(op: &OpContext, base: Timestamp, numbers: std::ops::Range<u64>) -> Vec<NewItem> {
    let member = |n: u64| {
        let timestamp = Timestamp::from_nanos(base.as_nanos() + n * 1_000).unwrap();
        NewItem { timestamp, value: format!("m-{n:07}").into(), expires_at: op.ttl.expiry_of(timestamp) }
    };
    numbers.map(member).collect()
}

async fn count(server: &Server, list: &ListKey, op: impl Fn() -> OpContext) -> u64 {
    until_read(async || server.session.count(&op(), list, &Bounds::ALL, u64::MAX).await).await.items
}

#[tokio::test]
async fn a_bounded_set_with_many_former_members_is_read() {
    let options = options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    let (list, base) = (fresh_set(Identity::Value(Keep::Newest)), now());
    let passed = members(&server.op(), base, 0..DELETIONS);
    let rows = passed.iter().map(|item| key(item.timestamp, &item.value));
    bury(&bare, &list, ("list_members", "kind = 'item' AND sort"), rows).await;
    let entries = passed.iter().map(|item| String::from_utf8(item.value.to_vec()).unwrap());
    bury(&bare, &list, ("list_members", "kind = 'member' AND sort"), entries).await;
    let (ttl, max_items) = (server.op().ttl, MaxItems::new(100).unwrap());
    server.store.bound(Arc::new(move |_| Some((ttl, max_items))));
    let op = || OpContext { max_items: Some(max_items), ..server.op() };
    let last = DELETIONS + 1_000;
    server.session.add(&op(), &list, members(&op(), base, DELETIONS..last)).await.unwrap();
    assert_eq!(count(&server, &list, op).await, 100);
    // Hidden items are deleted in the background, once a read has encountered them.
    let is_trimmed = async {
        while count(&server, &list, || server.op()).await > 112 {
            server.session.get(&op(), &list, &EVERYTHING).await.unwrap();
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_trimmed).await.expect("it is not trimmed");
    let value = |n: u64| bytes::Bytes::from(format!("m-{n:07}"));
    for (order, first) in [(Order::Newest, last - 1), (Order::Oldest, last - 100)] {
        let range = Range { order, ..EVERYTHING };
        let page = until_read(async || server.session.get(&op(), &list, &range).await).await;
        assert_eq!((page.items.len(), &page.items[0].value), (100, &value(first)), "{order:?}");
    }
    let wanted = [value(last - 5), value(7)];
    let found = until_read(async || server.session.contains(&op(), &list, &Bounds::ALL, &wanted).await).await;
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    let from = members(&op(), base, last - 20..last - 10);
    let between = Bounds::of(Some(from[0].timestamp), Some(from[9].timestamp));
    for (removal, removed) in [(Removal::Value(value(last - 1)), 1), (Removal::Between(between), 10)] {
        assert_eq!(until_read(async || server.session.remove(&op(), &list, &removal).await).await, removed);
    }
}

#[tokio::test]
async fn a_slice_of_a_long_set_is_removed() {
    let (mut server, list, base) = (Server::open(options()).await, fresh_set(Identity::Value(Keep::Newest)), now());
    server.deadline = Duration::from_secs(120);
    for part in 0..=LONG / AT_ONCE {
        let some = members(&server.op(), base, part * AT_ONCE..(part + 1) * AT_ONCE);
        server.session.add(&server.op(), &list, some).await.unwrap();
    }
    // Writes are settled then.
    sleep(options().settled_after).await;
    let deletes = || server.metric("liststore_cql_request_duration_seconds", "delete");
    let before = deletes();
    let gone = members(&server.op(), base, 0..LONG);
    let between = Bounds::of(None, gone.last().map(|last| last.timestamp));
    let removed = server.session.remove(&server.op(), &list, &Removal::Between(between)).await.unwrap();
    assert_eq!(removed, LONG);
    // Entries, of which 500 go at once, and one range of rows.
    let requests = deletes() - before;
    assert!(requests <= (LONG / AT_ONCE * 2 + 1) as f64, "{requests}");
    for order in [Order::Newest, Order::Oldest] {
        assert_eq!(until_page(&server, &list, order).await.items.len() as u64, AT_ONCE, "{order:?}");
    }
    assert_eq!(count(&server, &list, || server.op()).await, AT_ONCE);
    let again = server.session.remove(&server.op(), &list, &Removal::Between(between)).await.unwrap();
    assert_eq!(again, 0);
}

/// For example of expired members: no sweep replaces them.
#[tokio::test]
async fn a_set_with_many_removed_entries_is_read_by_its_rows() {
    let options = options();
    let (server, bare, list) =
        (Server::open(options.clone()).await, bare(&options).await, fresh_set(Identity::Key(Keep::Newest)));
    let gone = (0..DELETIONS).map(|n| format!("m-{n:07}"));
    bury(&bare, &list, ("list_members", "kind = 'member' AND sort"), gone).await;
    let base = now().as_nanos();
    for n in 0..20 {
        let stored = MemberKey::new(&format!("k-{n}")).unwrap().store(if n % 2 == 0 { b"even" } else { b"odd" });
        server.add(&list, &[(Timestamp::from_nanos(base + n).unwrap(), &stored)]).await;
    }
    let op = || server.op();
    assert_eq!(server.session.count(&op(), &list, &Bounds::ALL, u64::MAX).await.unwrap().items, 20);
    let wanted = ["odd", "none"].map(bytes::Bytes::from);
    let found = server.session.contains(&op(), &list, &Bounds::ALL, &wanted).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    assert_eq!(server.session.remove(&op(), &list, &Removal::Value("odd".into())).await.unwrap(), 10);
    assert_eq!(server.session.count(&op(), &list, &Bounds::ALL, u64::MAX).await.unwrap().items, 10);
}
