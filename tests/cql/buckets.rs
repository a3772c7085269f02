//! Lists in buckets, on a real Cassandra: the requests of a read, the bounds of long lists, and the rest of an
//! interrupted add.

use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{Bucket, ListKey, MaxItems, NewItem, Order, Timestamp};
use liststore::items::{Bounds, OpContext, Range, Reclaim, Removal, StoreError};
use scylla::client::session::Session;
use scylla::errors::{DbError, WriteType};
use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule};

use crate::cassandra::shared_options;
use crate::forger::Forger;
use crate::probe::{EVERYTHING, Server, bare, fresh_list, key, now, stored, ttl};

pub const DAY: u64 = 86_400;

pub fn fresh(bucket: Bucket) -> ListKey {
    let ListKey { feature_key, entity_id, .. } = fresh_list();
    ListKey::new(feature_key.with_bucket(Some(bucket)), entity_id)
}

pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub fn ago(days: u64) -> Timestamp {
    Timestamp::from_nanos(now().as_nanos() - days * DAY * 1_000_000_000).unwrap()
}

/// The partition of a bucket.
pub fn partition(list: &ListKey, name: &str) -> ListKey {
    ListKey::new(list.feature_key.in_bucket(name), list.entity_id.clone())
}

pub async fn directory(bare: &Session, list: &ListKey) -> Vec<String> {
    let text = "SELECT bucket FROM list_buckets WHERE feature_key = ? AND entity_id = ?";
    let rows = bare.query_unpaged(text, (list.feature_key.as_str(), list.entity_id.as_str())).await.unwrap();
    rows.into_rows_result().unwrap().rows::<(String,)>().unwrap().map(|row| row.unwrap().0).collect()
}

pub async fn add(
    server: &Server,
    op: &OpContext,
    list: &ListKey,
    items: &[(Timestamp, &str)],
) -> Result<(), StoreError> {
    let items: Vec<_> = items.iter().map(|(timestamp, value)| (*timestamp, value.as_bytes())).collect();
    server.try_add(list, op, &items).await
}

pub fn reads(server: &Server) -> f64 {
    let counted = |statement| server.metric("liststore_cql_request_duration_seconds", statement);
    counted("get") + counted("keys") + counted("find") + counted("buckets")
}

pub async fn page(server: &Server, op: &OpContext, list: &ListKey, range: &Range) -> Vec<Timestamp> {
    let page = server.session.get(op, list, range).await.unwrap();
    page.items.iter().map(|item| item.timestamp).collect()
}

/// With a query for each day there would be thousands, and with one for each bucket that there is, eleven.
#[tokio::test]
async fn one_item_a_year_is_read_with_three_queries() {
    let (server, list) = (Server::open(shared_options()).await, fresh(Bucket::Day));
    let op = server.op_with(ttl(3_700 * DAY));
    let times: Vec<_> = (0..10).map(|years| ago(365 * years)).collect();
    for (n, time) in times.iter().enumerate() {
        add(&server, &op, &list, &[(*time, &n.to_string())]).await.unwrap();
    }
    let fifty = Range { limit: 50, ..EVERYTHING };
    let oldest: Vec<_> = times.iter().rev().copied().collect();
    for (order, expected) in [(Order::Newest, &times), (Order::Oldest, &oldest)] {
        let before = reads(&server);
        assert_eq!(&page(&server, &op, &list, &Range { order, ..fifty }).await, expected);
        assert!(reads(&server) - before <= 3.0, "{order:?}: {}", reads(&server) - before);
    }
    let before = reads(&server);
    assert_eq!(server.session.count(&op, &list, &Bounds::ALL, 1_000).await.unwrap().items, 10);
    assert!(reads(&server) - before <= 3.0);
    let bounded = OpContext { max_items: MaxItems::new(4).ok(), ..op };
    let before = reads(&server);
    assert_eq!(page(&server, &bounded, &list, &Range { order: Order::Oldest, ..fifty }).await, oldest[6..]);
    assert!(reads(&server) - before <= 6.0, "where they end is found first: {}", reads(&server) - before);
}

/// A page that fits its newest bucket reads only that one.
#[tokio::test]
async fn a_page_of_the_newest_items_reads_only_the_newest_bucket() {
    let (server, bare, list) =
        (Server::open(shared_options()).await, bare(&shared_options()).await, fresh(Bucket::Month));
    let op = server.op_with(ttl(400 * DAY));
    for month in 0..12 {
        let items: Vec<_> =
            (0..60).map(|n| (Timestamp::from_nanos(ago(31 * month).as_nanos() - n).unwrap(), "v")).collect();
        add(&server, &op, &list, &items).await.unwrap();
    }
    assert!(directory(&bare, &list).await.len() >= 11);
    let before = reads(&server);
    let shown = server.session.get(&op, &list, &Range { limit: 50, ..EVERYTHING }).await.unwrap();
    assert_eq!((shown.items.len(), shown.more), (50, true));
    // A month that began within these 60 nanoseconds would take one more.
    assert!(reads(&server) - before <= 3.0, "{}", reads(&server) - before);
}

#[tokio::test]
async fn walks_cross_borders_both_ways_with_ties_on_them() {
    let server = Server { deadline: Duration::from_secs(300), ..Server::open(shared_options()).await };
    let bare = bare(&shared_options()).await;
    for bucket in Bucket::ALL {
        let list = fresh(bucket);
        let op = server.op_with(ttl(4_000 * DAY));
        let border = at("2024-01-01T00:00:00Z").as_nanos();
        let near = |offset: i64| Timestamp::from_nanos(border.checked_add_signed(offset).unwrap()).unwrap();
        let days = [0, 1, 6, 7, 8, 30, 31, 32, 200, 366, 700];
        let mut items: Vec<(Timestamp, String)> =
            days.iter().map(|day| (near(day * DAY as i64 * 1_000_000_000), "v".to_owned())).collect();
        items.extend([-1, 0, 1].iter().flat_map(|offset| (0..4).map(|n| (near(*offset), n.to_string()))));
        // Many in one bucket, so that a round of several includes a dense one.
        items.extend((0..120).map(|n| (near(-5_000_000_000 - n), format!("d{n}"))));
        let mut texts: Vec<(Timestamp, &str)> = items.iter().map(|(time, value)| (*time, value.as_str())).collect();
        for some in texts.chunks(40) {
            add(&server, &op, &list, some).await.unwrap();
        }
        assert!(stored(&bare, &list).await.is_empty(), "nothing stands outside of buckets");
        texts.sort_by_key(|(time, value)| key(*time, value.as_bytes()));
        let oldest: Vec<_> = texts.iter().map(|(time, value)| key(*time, value.as_bytes())).collect();
        for (order, limit) in [(Order::Newest, 1), (Order::Newest, 7), (Order::Oldest, 3), (Order::Oldest, 50)] {
            let (mut walked, mut after) = (Vec::new(), None);
            loop {
                let range = Range { after, limit, order, ..EVERYTHING };
                let page = server.session.get(&op, &list, &range).await.unwrap();
                walked.extend(page.items.iter().map(|item| item.key().to_string()));
                after = page.items.last().map(|item| item.key());
                if !page.more {
                    break;
                }
            }
            if order == Order::Newest {
                walked.reverse();
            }
            assert!(walked == oldest, "{bucket} {order:?} {limit}");
        }
        let within = Bounds { min_timestamp: near(-1), max_timestamp: near(1) };
        assert_eq!(server.session.count(&op, &list, &within, 100).await.unwrap().items, 13);
        assert_eq!(server.session.remove(&op, &list, &Removal::Between(within)).await.unwrap(), 13);
        assert_eq!(server.session.remove_value(&op, &list, b"v").await.unwrap(), 10);
        let named = vec![(near(-5_000_000_000), "d0".into()), (near(366 * DAY as i64 * 1_000_000_000), "v".into())];
        assert_eq!(server.session.remove(&op, &list, &Removal::Items(named)).await.unwrap(), 1);
        assert_eq!(server.session.count(&op, &list, &Bounds::ALL, 1_000).await.unwrap().items, 119, "{bucket}");
    }
}

/// Two months, and the rest of an add to both after a forged failure.
#[tokio::test]
async fn an_add_over_several_buckets_is_all_or_nothing() {
    let mut forger = Forger::start().await;
    let (server, list) = (Server::open(forger.options.clone()).await, fresh(Bucket::Month));
    let op = server.op_with(ttl(4_000 * DAY));
    let times = [at("2024-01-31T23:00:00Z"), at("2024-02-01T01:00:00Z")];
    let both = |value| [(times[0], value), (times[1], value)];
    let batch = || Condition::RequestOpcode(RequestOpcode::Batch);
    let error = || DbError::WriteTimeout {
        consistency: scylla::statement::Consistency::LocalQuorum,
        received: 0,
        required: 1,
        write_type: WriteType::BatchLog,
    };
    // The directory cannot be written: nothing was done.
    forger.on_requests(vec![RequestRule(batch(), RequestReaction::forge_with_error(error()))]);
    let failed = add(&server, &op, &list, &both("never")).await.unwrap_err();
    assert!(!failed.outcome_unknown(), "{failed:?}");
    forger.heal();
    assert!(page(&server, &op, &list, &EVERYTHING).await.is_empty());
    // The directory is written, and the items are not.
    add(&server, &op, &list, &both("first")).await.unwrap();
    forger.on_requests(vec![RequestRule(batch(), RequestReaction::forge_with_error(error()))]);
    let failed = add(&server, &op, &list, &both("second")).await.unwrap_err();
    assert!(failed.outcome_unknown());
    forger.heal();
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, [times[1], times[0]]);
    add(&server, &op, &list, &both("second")).await.unwrap();
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await.len(), 4);
}

/// A database refuses batches over several partitions that are large: then each bucket is whole.
#[tokio::test]
async fn a_large_add_over_several_buckets_is_complete_in_each_and_repeatable() {
    let mut forger = Forger::start().await;
    let (server, list) = (Server::open(forger.options.clone()).await, fresh(Bucket::Year));
    let op = server.op_with(ttl(4_000 * DAY));
    let items: Vec<_> = (0..300)
        .map(|n| {
            let year = if n % 2 == 0 { "2023-05-01T00:00:00Z" } else { "2024-05-01T00:00:00Z" };
            let timestamp = Timestamp::from_nanos(at(year).as_nanos() + n).unwrap();
            NewItem { timestamp, value: vec![b'v'; 1_000].into(), expires_at: op.ttl.expiry_of(timestamp) }
        })
        .collect();
    server.session.add(&op, &list, items[..2].to_vec()).await.unwrap();
    let passed = Condition::RequestOpcode(RequestOpcode::Batch).and(Condition::TrueForLimitedTimes(1));
    let others = Condition::RequestOpcode(RequestOpcode::Batch);
    forger.on_requests(vec![
        RequestRule(passed, RequestReaction::noop()),
        RequestRule(others, RequestReaction::forge_with_error(DbError::Overloaded)),
    ]);
    let failed = server.session.add(&op, &list, items.clone()).await.unwrap_err();
    assert!(failed.outcome_unknown(), "{failed:?}");
    forger.heal();
    assert_eq!(server.session.count(&op, &list, &Bounds::ALL, 1_000).await.unwrap().items, 151);
    server.session.add(&op, &list, items).await.unwrap();
    assert_eq!(server.session.count(&op, &list, &Bounds::ALL, 1_000).await.unwrap().items, 300);
}

#[tokio::test]
async fn a_list_beyond_its_bound_is_trimmed_in_all_buckets() {
    let options = shared_options();
    // One operation has the time of all later ones.
    let server = Server { deadline: Duration::from_secs(300), ..Server::open(options.clone()).await };
    let (bare, list) = (bare(&options).await, fresh(Bucket::Day));
    let op = OpContext { max_items: MaxItems::new(5).ok(), ..server.op_with(ttl(60 * DAY)) };
    server.store.bound(Arc::new(move |_| Some((op.ttl, op.max_items?))));
    let times: Vec<_> = (0..30).map(ago).collect();
    for time in &times {
        add(&server, &op, &list, &[(*time, "v")]).await.unwrap();
    }
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, times[..5]);
    let left = async || {
        let mut left = 0;
        for time in &times {
            left += stored(&bare, &partition(&list, &Bucket::Day.name_of(*time))).await.len();
        }
        left
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    while left().await > 5 {
        assert!(tokio::time::Instant::now() < until, "{} rows are left", left().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
        // A check without a free permit leaves it to the next one.
        page(&server, &op, &list, &EVERYTHING).await;
    }
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, times[..5]);
}

/// The reported number of items, in one partition; a list in buckets may have them.
#[tokio::test]
async fn a_long_list_without_buckets_is_logged() {
    let server = Server::open(shared_options()).await;
    let (whole, by_day) = (fresh_list(), fresh(Bucket::Day));
    let base = now().as_nanos();
    for list in [&whole, &by_day] {
        for some in (0..100).collect::<Vec<u64>>().chunks(8) {
            let adds = some.iter().map(|add| {
                let time = |n: u64| Timestamp::from_nanos(base - add * 1_000 - n).unwrap();
                let items: Vec<_> = (0..1_000).map(|n| (time(n), &b"v"[..])).collect();
                let server = &server;
                async move { server.add(list, &items).await }
            });
            futures_util::future::join_all(adds).await;
        }
        let counted = server.session.count(&server.op(), list, &Bounds::ALL, 1_000_000).await.unwrap();
        assert_eq!(counted.items, 100_000);
    }
    assert_eq!(server.metric("liststore_cql_wide_lists_total", ""), 1.0);
    assert_eq!(server.metric("liststore_cql_widest_list_items", ""), 100_000.0);
}

/// Measures the newest 50 items, and a page from the middle, of three lists: one with `LISTSTORE_TEST_LONG_LIST` items
/// (two million) in buckets of a day, one of the same length in one partition, and one of 200 items.
#[tokio::test]
#[ignore = "it takes minutes, and measures"]
#[expect(clippy::print_stdout, reason = "what was measured is what it is run for")]
async fn long_lists_are_measured() {
    let count: u64 = std::env::var("LISTSTORE_TEST_LONG_LIST").map_or(2_000_000, |text| text.parse().unwrap());
    let server = Server::open(shared_options()).await;
    let (by_day, whole, short) = (fresh(Bucket::Day), fresh_list(), fresh_list());
    let base = now().as_nanos();
    // Over a hundred days.
    let time = |n: u64| Timestamp::from_nanos(base - n * (100 * DAY * 1_000_000_000 / count)).unwrap();
    for (list, count) in [(&by_day, count), (&whole, count), (&short, 200)] {
        let began = std::time::Instant::now();
        let adds: Vec<u64> = (0..count.div_ceil(1_000)).collect();
        for some in adds.chunks(4) {
            let adds = some.iter().map(|add| {
                let op = server.op_with(ttl(400 * DAY));
                let numbers = add * 1_000..(add * 1_000 + 1_000).min(count);
                let item = |n| NewItem {
                    timestamp: time(n),
                    value: format!("value-{n:032}").into(),
                    expires_at: op.ttl.expiry_of(time(n)),
                };
                let items = numbers.map(item).collect();
                let session = &server.session;
                async move { session.add(&op, list, items).await.unwrap() }
            });
            futures_util::future::join_all(adds).await;
        }
        println!("{count} items added in {:.1?}", began.elapsed());
    }
    let middle = Range { max_timestamp: time(count / 2), limit: 50, ..EVERYTHING };
    for (what, list, range) in [
        ("by day, newest 50", &by_day, Range { limit: 50, ..EVERYTHING }),
        ("one partition, newest 50", &whole, Range { limit: 50, ..EVERYTHING }),
        ("200 items, newest 50", &short, Range { limit: 50, ..EVERYTHING }),
        ("by day, 50 from the middle", &by_day, middle),
        ("one partition, 50 from the middle", &whole, middle),
        ("by day, oldest 50", &by_day, Range { limit: 50, order: Order::Oldest, ..EVERYTHING }),
        ("one partition, oldest 50", &whole, Range { limit: 50, order: Order::Oldest, ..EVERYTHING }),
    ] {
        let mut took = Vec::new();
        for _ in 0..1_000 {
            let (op, began) = (server.op_with(ttl(400 * DAY)), std::time::Instant::now());
            assert_eq!(server.session.get(&op, list, &range).await.unwrap().items.len(), 50);
            took.push(began.elapsed());
        }
        took.sort();
        println!("{what}: median {:.2?}, p99 {:.2?}", took[500], took[990]);
    }
}
