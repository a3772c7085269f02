//! Removals from lists in buckets, on a real Cassandra, and the life of their directories.

use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{Bucket, ListKey, Order, SystemClock, Timestamp, Ttl};
use liststore::items::cql::{migrate, rebuild_directories};
use liststore::items::{Bounds, OpContext, Range, Removal};
use scylla::client::session::Session;
use scylla::errors::DbError;
use scylla_proxy::{Condition, RequestReaction, RequestRule};

use crate::buckets::{DAY, add, ago, at, directory, fresh, page, partition, reads};
use crate::cassandra::shared_options;
use crate::forger::{Forger, Sent, of};
use crate::keyspace::Keyspace;
use crate::probe::{EVERYTHING, Server, bare, key, now_micros, stored, ttl};

async fn lose_directory(bare: &Session, list: &ListKey) {
    let text = "DELETE FROM list_buckets WHERE feature_key = ? AND entity_id = ?";
    bare.query_unpaged(text, (list.feature_key.as_str(), list.entity_id.as_str())).await.unwrap();
}

/// Beyond any other tombstone a read passes the hidden rows one by one.
#[tokio::test]
async fn buckets_between_two_moments_are_removed_by_partition_tombstones() {
    let (server, bare) = (Server::open(shared_options()).await, bare(&shared_options()).await);
    let list = fresh(Bucket::Month);
    let op = server.op_with(ttl(4_000 * DAY));
    let times = ["01-10T00:00:00Z", "01-20T00:00:00Z", "02-01T00:00:00Z", "02-29T23:59:59.999999999Z"];
    let later = ["03-15T00:00:00Z", "04-10T00:00:00Z", "04-20T00:00:00Z"];
    let times: Vec<_> = times.iter().chain(&later).map(|time| at(&format!("2024-{time}"))).collect();
    add(&server, &op, &list, &times.iter().map(|time| (*time, "v")).collect::<Vec<_>>()).await.unwrap();
    let sent = |what| server.metric("liststore_cql_request_duration_seconds", what);
    let before = (sent("clear"), sent("delete"));
    let within = Bounds { min_timestamp: times[1], max_timestamp: times[5] };
    assert_eq!(server.session.remove(&op, &list, &Removal::Between(within)).await.unwrap(), 5);
    assert_eq!((sent("clear") - before.0, sent("delete") - before.1), (2.0, 2.0));
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, [times[6], times[0]]);
    // A later add stays, and an add by a faster clock is removed as well.
    add(&server, &op, &list, &[(times[2], "again")]).await.unwrap();
    let ahead = now_micros() + 3_000_000;
    let february = partition(&list, "2024-02");
    let text = "INSERT INTO list_items (feature_key, entity_id, item_key, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?";
    let row = (february.feature_key.as_str(), "u-1", key(times[3], b"fast"), &b"fast"[..], ahead);
    bare.query_unpaged(text, row).await.unwrap();
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, [times[6], times[3], times[2], times[0]]);
    assert_eq!(server.session.remove(&op, &list, &Removal::Between(Bounds::ALL)).await.unwrap(), 4);
    assert!(page(&server, &op, &list, &EVERYTHING).await.is_empty());
}

/// The remains of a removal of all older items cost later reads nothing: reads find no names of buckets without items.
#[tokio::test]
async fn buckets_that_a_removal_by_time_empties_leave_the_directory() {
    let (server, bare) = (Server::open(shared_options()).await, bare(&shared_options()).await);
    let list = fresh(Bucket::Month);
    let op = server.op_with(ttl(4_000 * DAY));
    let times = ["01-20T00:00:00Z", "02-10T00:00:00Z", "03-05T00:00:00Z", "03-20T00:00:00Z"];
    let times: Vec<_> = times.iter().map(|time| at(&format!("2024-{time}"))).collect();
    // Servers rely on rows of the last ten minutes.
    let long_ago = now_micros() - 3_600_000_000;
    let note = "INSERT INTO list_buckets (feature_key, entity_id, bucket, until) VALUES (?, ?, ?, 7) USING TTL 86400 AND \
                TIMESTAMP ?";
    let add_row =
        "INSERT INTO list_items (feature_key, entity_id, item_key, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?";
    for time in &times {
        let name = Bucket::Month.name_of(*time);
        let row = (list.feature_key.as_str(), "u-1", name.as_str(), long_ago);
        bare.query_unpaged(note, row).await.unwrap();
        let bucket = partition(&list, &name);
        let row = (bucket.feature_key.as_str(), "u-1", key(*time, b"v"), &b"v"[..], long_ago);
        bare.query_unpaged(add_row, row).await.unwrap();
    }
    assert_eq!(directory(&bare, &list).await, ["2024-03", "2024-02", "2024-01"]);
    let within = Bounds { min_timestamp: Timestamp::MIN, max_timestamp: at("2024-03-10T00:00:00Z") };
    assert_eq!(server.session.remove(&op, &list, &Removal::Between(within)).await.unwrap(), 3);
    assert_eq!(directory(&bare, &list).await, ["2024-03"]);
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, [times[3]]);
    // An add enters its bucket again.
    add(&server, &op, &list, &[(times[0], "again")]).await.unwrap();
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, [times[3], times[0]]);
    assert_eq!(directory(&bare, &list).await, ["2024-03", "2024-01"]);
}

/// Another server has written the directory lately and does not write it again: it must be there still.
#[tokio::test]
async fn items_of_another_server_after_a_removal_of_all_are_found() {
    let options = shared_options();
    let (one, two, bare) =
        (Server::open(options.clone()).await, Server::open(options.clone()).await, bare(&options).await);
    let list = fresh(Bucket::Day);
    let op = one.op_with(ttl(30 * DAY));
    for day in 0..20 {
        add(&one, &op, &list, &[(ago(day), "v")]).await.unwrap();
    }
    add(&two, &two.op_with(ttl(30 * DAY)), &list, &[(ago(3), "w")]).await.unwrap();
    // Of a bucket that was noted long ago.
    let text = "INSERT INTO list_buckets (feature_key, entity_id, bucket, until) VALUES (?, ?, '2020-01-01', 7) USING \
                TTL 86400 AND TIMESTAMP ?";
    let old = now_micros() - 3_600_000_000;
    bare.query_unpaged(text, (list.feature_key.as_str(), list.entity_id.as_str(), old)).await.unwrap();
    assert_eq!(directory(&bare, &list).await.len(), 21);
    for _ in 0..2 {
        one.session.remove_all(&op, &list).await.unwrap();
        assert!(page(&one, &op, &list, &EVERYTHING).await.is_empty());
        for name in directory(&bare, &list).await {
            assert!(stored(&bare, &partition(&list, &name)).await.is_empty(), "{name}");
        }
    }
    assert_eq!(directory(&bare, &list).await.len(), 20, "what others may rely on stays");
    let notes = two.metric("liststore_cql_request_duration_seconds", "note_buckets");
    let op = two.op_with(ttl(30 * DAY));
    add(&two, &op, &list, &[(ago(3), "after")]).await.unwrap();
    assert_eq!(two.metric("liststore_cql_request_duration_seconds", "note_buckets"), notes);
    assert_eq!(page(&one, &one.op_with(ttl(30 * DAY)), &list, &EVERYTHING).await.len(), 1);
}

/// An interrupted Remove All leaves whole buckets, which every read shows alike, and which the next one removes. Empty
/// buckets in the directory then cost reads of several buckets at once.
#[tokio::test]
async fn an_interrupted_removal_of_all_leaves_complete_buckets_and_can_be_repeated() {
    const DAYS: u64 = 40;
    let mut forger = Forger::start().await;
    let (server, bare) = (Server::open(forger.options.clone()).await, bare(&shared_options()).await);
    let list = fresh(Bucket::Day);
    let op = || server.op_with(ttl(90 * DAY));
    let times: Vec<_> = (0..DAYS).map(ago).collect();
    for time in &times {
        let later = Timestamp::from_nanos(time.as_nanos() - 1).unwrap();
        add(&server, &op(), &list, &[(*time, "v"), (*time, "w"), (later, "v")]).await.unwrap();
    }
    let name = |time: &Timestamp| Bucket::Day.name_of(*time);
    let kept: Vec<_> = times[..30].iter().step_by(10).copied().collect();
    let refused = || RequestReaction::forge_with_error(DbError::Unauthorized);
    let clears = |time: &Timestamp| {
        let text = format!("@{}", name(time)).into_bytes();
        of(Sent::Delete).and(Condition::BodyContainsCaseSensitive(text.into()))
    };
    forger.on_requests(kept.iter().map(|time| RequestRule(clears(time), refused())).collect());
    let failed = server.session.remove_all(&op(), &list).await.unwrap_err();
    assert!(failed.outcome_unknown(), "{failed:?}");
    let left = page(&server, &op(), &list, &EVERYTHING).await;
    // Each bucket that failed is whole, and so is each that was not reached.
    for time in &times {
        let here = left.iter().filter(|found| name(found) == name(time)).count();
        let all = if left.iter().any(|found| name(found) == name(time)) { here >= 2 } else { here == 0 };
        assert!(all, "a part of {}", name(time));
    }
    assert!(kept.iter().all(|time| left.contains(time)));
    assert_eq!(server.session.count(&op(), &list, &Bounds::ALL, 1_000).await.unwrap().items, left.len() as u64);
    let oldest = page(&server, &op(), &list, &Range { order: Order::Oldest, ..EVERYTHING }).await;
    assert_eq!(oldest, left.iter().rev().copied().collect::<Vec<_>>());
    let sought = server.session.contains(&op(), &list, &Bounds::ALL, &["w".into()]).await.unwrap();
    assert_eq!(sought, [left.first().copied()]);
    // Another removal that fails, at the directory: all items are gone. The test finds its bound in the request by its
    // length prefix, because a write timestamp sometimes contains the byte.
    forger.on_requests(vec![RequestRule(
        of(Sent::Delete).and(Condition::BodyContainsCaseSensitive(b"\0\0\0\x01~"[..].into())),
        refused(),
    )]);
    let failed = server.session.remove_all(&op(), &list).await.unwrap_err();
    assert!(failed.outcome_unknown(), "{failed:?}");
    forger.heal();
    assert!(page(&server, &op(), &list, &EVERYTHING).await.is_empty());
    server.session.remove_all(&op(), &list).await.unwrap();
    assert!(directory(&bare, &list).await.len() >= DAYS as usize - 1, "others may rely on them");
    let before = reads(&server);
    assert!(page(&server, &op(), &list, &Range { limit: 50, ..EVERYTHING }).await.is_empty());
    // The directory twice, the newest bucket, and the others 16 at once.
    assert!(reads(&server) - before <= 6.0, "{}", reads(&server) - before);
    add(&server, &op(), &list, &[(times[20], "again")]).await.unwrap();
    assert_eq!(page(&server, &op(), &list, &EVERYTHING).await, [times[20]]);
}

/// An add writes a directory row again that this session has not written recently. Items of other buckets are found
/// once the directory was rebuilt from the items.
#[tokio::test]
async fn a_lost_directory_is_created_again() {
    // A walk over all partitions takes longer with other tests' partitions.
    let keyspace = Keyspace::new();
    let options = keyspace.options.clone();
    migrate(&options, false).await.unwrap();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh(Bucket::Month));
    let op = server.op_with(ttl(400 * DAY));
    let times: Vec<_> = (0..5).map(|n| ago(40 * n)).collect();
    for time in &times {
        add(&server, &op, &list, &[(*time, "v")]).await.unwrap();
    }
    lose_directory(&bare, &list).await;
    assert!(page(&server, &op, &list, &EVERYTHING).await.is_empty());
    let other = Server::open(options.clone()).await;
    add(&other, &op, &list, &[(times[2], "w")]).await.unwrap();
    assert_eq!(page(&server, &op, &list, &EVERYTHING).await, [times[2], times[2]]);
    assert!(rebuild_directories(&options, Arc::new(SystemClock)).await.unwrap() == 5);
    let found = page(&server, &op, &list, &EVERYTHING).await;
    assert_eq!(found.len(), 6);
    assert!(times.iter().all(|time| found.contains(time)));
}

/// A row of the directory lives as long as an item of its bucket can: no longer, and no shorter for an add that comes
/// after the TTL was shortened.
#[tokio::test]
async fn a_directory_expires_with_its_items() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh(Bucket::Day));
    // As it is a second before the end of a day; of another one, items live longer.
    let (brief, long) = (at("2026-03-01T23:59:59Z"), at("2026-03-03T12:00:00Z"));
    let op = |now, ttl: u64| OpContext::new(now, Ttl::from_secs(ttl).unwrap(), server.op().deadline);
    add(&server, &op(brief, 1), &list, &[(brief, "brief")]).await.unwrap();
    add(&server, &op(long, DAY), &list, &[(long, "long")]).await.unwrap();
    let other = Server::open(options.clone()).await;
    add(&other, &op(long, 1), &list, &[(long, "shorter")]).await.unwrap();
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    while directory(&bare, &list).await.contains(&"2026-03-01".to_owned())
        || page(&server, &op(long, DAY), &list, &EVERYTHING).await != [long]
    {
        assert!(tokio::time::Instant::now() < until, "they are there still");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(directory(&bare, &list).await, ["2026-03-03", "2026-03-03"], "by each TTL");
}
