//! The table's content: keys, TTLs, write timestamps, and reads over rows of other writers.

use liststore::domain::{Code, Timestamp};
use liststore::items::{Range, StoreError};

use crate::cassandra::shared_options;
use crate::probe::{EVERYTHING, Server, bare, fresh_list, key, now, now_micros, stored, ttl, write_row};

fn earlier(from: Timestamp, secs: u64) -> Timestamp {
    Timestamp::from_nanos(from.as_nanos() - secs * 1_000_000_000).unwrap()
}

#[tokio::test]
async fn a_row_has_the_key_the_ttl_and_the_write_timestamp_of_its_item() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let (before, base) = (now_micros(), now());
    let items: [(Timestamp, &[u8]); 3] = [(base, b"a"), (earlier(base, 10), b"b"), (earlier(base, 3_540), b"c")];
    server.add(&list, &items).await;
    let rows = stored(&bare, &list).await;
    let after = now_micros();
    assert_eq!(rows.iter().map(|row| row.item_key.clone()).collect::<Vec<_>>(), items.map(|(t, v)| key(t, v)));
    assert_eq!(rows.iter().map(|row| &row.value[..]).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    // One timestamp for the whole batch, of this process's clock.
    assert!(rows.iter().all(|row| row.writetime == rows[0].writetime));
    assert!((before..=after).contains(&rows[0].writetime));
    // The remaining time, rounded up, plus one; the TTL that is read back has begun to run.
    let late = i32::try_from((after - before) / 1_000_000).unwrap() + 1;
    for (row, left) in rows.iter().zip([3_600, 3_590, 60]) {
        assert!((left + 1 - late..=left + 1).contains(&row.ttl), "{} of {left}", row.ttl);
    }
}

/// An item that a shorter TTL hides is removed with the others, and is not counted.
#[tokio::test]
async fn a_removal_counts_only_visible_items() {
    let (server, list, base) = (Server::open(shared_options()).await, fresh_list(), now());
    server.add(&list, &[(base, b"v"), (earlier(base, 600), b"v"), (earlier(base, 900), b"v")]).await;
    let removed = server.session.remove_value(&server.op_with(ttl(300)), &list, b"v").await.unwrap();
    assert_eq!(removed, 1);
    assert!(server.values(&list).await.is_empty(), "hidden ones are removed as well");
}

#[tokio::test]
async fn write_timestamps_of_a_process_only_grow() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now();
    let mut last = 0;
    for _ in 0..5 {
        // A replaced actor has a new session, and the same clock.
        let replaced = server.another_session().await;
        replaced.add(&list, &[(base, b"same")]).await;
        let writetime = stored(&bare, &list).await[0].writetime;
        assert!(writetime > last);
        last = writetime;
    }
}

#[tokio::test]
async fn an_item_that_has_expired_gets_no_row() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let op = server.op_with(ttl(600));
    let expired = earlier(op.now, 600);
    server.try_add(&list, &op, &[(expired, b"gone")]).await.unwrap();
    assert_eq!(stored(&bare, &list).await, []);
    server.try_add(&list, &op, &[(expired, b"gone"), (op.now, b"here")]).await.unwrap();
    let rows = stored(&bare, &list).await;
    assert_eq!(rows.len(), 1);
    assert!(rows[0].ttl > 0 && rows[0].value == b"here");
}

#[tokio::test]
async fn a_row_may_live_for_twenty_years() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let op = server.op_with(liststore::domain::Ttl::MAX);
    server.try_add(&list, &op, &[(op.now, b"long")]).await.unwrap();
    let left = stored(&bare, &list).await[0].ttl;
    assert!((630_719_400..=630_720_000).contains(&left), "{left}");
}

#[tokio::test]
async fn an_add_of_too_many_bytes_is_refused_completely() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let (base, value) = (now(), vec![b'x'; 64_000]);
    let items: Vec<_> = (0..70).map(|n| (earlier(base, n), &value[..])).collect();
    match server.try_add(&list, &server.op(), &items).await {
        Err(StoreError::Refused(invalid)) => {
            assert_eq!(invalid.code, Code::InvalidArgument);
            assert!(invalid.detail.contains("4194304"), "{}", invalid.detail);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stored(&bare, &list).await, []);
    // An allowed add succeeds, and reads return it in pages of about a megabyte.
    server.add(&list, &items[..65]).await;
    assert_eq!(server.get(&list).await.items.len(), 65);
    let range = Range { value_bytes_max: 64_000 * 3, ..EVERYTHING };
    let page = server.session.get(&server.op(), &list, &range).await.unwrap();
    assert_eq!((page.items.len(), page.more), (3, true));
}

#[tokio::test]
async fn a_hit_whose_key_has_another_value_stays() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now();
    server.add(&list, &[(base, b"v")]).await;
    // The index finds this row too, but its key belongs to another value.
    let text = "INSERT INTO list_items (feature_key, entity_id, item_key, value) VALUES (?, ?, ?, ?) USING TTL 600";
    let values = (list.feature_key.as_str(), list.entity_id.as_str(), key(base, b"w"), &b"v"[..]);
    bare.query_unpaged(text, values).await.unwrap();
    assert_eq!(server.remove(&list, b"v").await, 1);
    let left = stored(&bare, &list).await;
    assert_eq!(left.iter().map(|row| row.item_key.clone()).collect::<Vec<_>>(), [key(base, b"w")]);
}

#[tokio::test]
async fn a_value_found_thousands_of_times_is_removed_completely() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now().as_nanos();
    for add in 0..3 {
        let items: Vec<_> =
            (0..1_000).map(|n| (Timestamp::from_nanos(base - add * 1_000 - n).unwrap(), &b"again"[..])).collect();
        server.add(&list, &items).await;
    }
    server.add(&list, &[(now(), b"other")]).await;
    assert_eq!(server.get(&list).await.items.len(), 3_001);
    assert_eq!(server.remove(&list, b"again").await, 3_000);
    let deletes = server.metric("liststore_cql_request_duration_seconds", "delete");
    assert_eq!(deletes, 300.0, "ten keys in each");
    assert_eq!(server.values(&list).await, [b"other"]);
    assert_eq!(stored(&bare, &list).await.len(), 1);
    assert_eq!(server.remove(&list, b"again").await, 0);
}

#[tokio::test]
async fn overlapping_removals_count_each_item_once() {
    let (server, list) = (Server::open(shared_options()).await, fresh_list());
    let base = now().as_nanos();
    for round in 0..5 {
        let items: Vec<_> =
            (0..30).map(|n| (Timestamp::from_nanos(base + round * 30 + n).unwrap(), &b"v"[..])).collect();
        server.add(&list, &items).await;
        let counts = futures_util::future::join_all((0..4).map(|_| server.remove(&list, b"v"))).await;
        assert_eq!(counts.iter().sum::<u64>(), 30, "{counts:?}");
    }
}

#[tokio::test]
async fn foreign_rows_cause_an_error_and_no_panic() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let text = "INSERT INTO list_items (feature_key, entity_id, item_key, value) VALUES (?, ?, '2short', 0x00)";
    bare.query_unpaged(text, (list.feature_key.as_str(), list.entity_id.as_str())).await.unwrap();
    // Within the bounds as text, but no valid key.
    let range = Range { min_timestamp: Timestamp::MIN, ..EVERYTHING };
    let error = server.session.get(&server.op_with(liststore::domain::Ttl::MAX), &list, &range).await.unwrap_err();
    assert!(matches!(error, StoreError::Internal { outcome_unknown: false, .. }), "{error:?}");
    assert_eq!(server.remove(&list, b"\0").await, 0);
    server.remove_all(&list).await;
    assert_eq!(stored(&bare, &list).await, []);
}

#[tokio::test]
async fn a_page_among_thousands_of_tombstones_is_complete() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now().as_nanos();
    let at = |n: u64| Timestamp::from_nanos(base - n).unwrap();
    for add in 0..3 {
        let values: Vec<_> = (0..1_000).map(|n| (add * 1_000 + n, format!("v{n}"))).collect();
        let items: Vec<_> = values.iter().map(|(n, value)| (at(*n), value.as_bytes())).collect();
        server.add(&list, &items).await;
    }
    // Each row has its own tombstone, but for one in a hundred.
    let keys: Vec<_> =
        (0..3_000).filter(|n| n % 100 != 0).map(|n| key(at(n), format!("v{}", n % 1_000).as_bytes())).collect();
    for keys in keys.chunks(100) {
        let text = "DELETE FROM list_items WHERE feature_key = ? AND entity_id = ? AND item_key IN ?";
        bare.query_unpaged(text, (list.feature_key.as_str(), list.entity_id.as_str(), keys)).await.unwrap();
    }
    let range = Range { limit: 10, ..EVERYTHING };
    let page = server.session.get(&server.op(), &list, &range).await.unwrap();
    assert_eq!(
        page.items.iter().map(|item| item.timestamp).collect::<Vec<_>>(),
        (0..10).map(|n| at(n * 100)).collect::<Vec<_>>()
    );
    assert!(page.more);
    assert_eq!(server.get(&list).await.items.len(), 30);
}

#[tokio::test]
async fn another_server_of_the_same_clock_sees_every_write_at_once() {
    let options = shared_options();
    let (one, two, list) = (Server::open(options.clone()).await, Server::open(options).await, fresh_list());
    let base = now();
    for n in 0..20_u64 {
        let value = format!("v{n}");
        let (writer, reader) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        writer.add(&list, &[(Timestamp::from_nanos(base.as_nanos() + n).unwrap(), value.as_bytes())]).await;
        assert_eq!(reader.values(&list).await[0], value.as_bytes());
        if n % 5 == 4 {
            assert_eq!(reader.remove(&list, value.as_bytes()).await, 1);
            assert!(!writer.values(&list).await.contains(&value.into_bytes()));
        }
    }
    two.remove_all(&list).await;
    assert!(one.values(&list).await.is_empty());
}

/// Checks that the store's own rows equal another program's.
#[tokio::test]
async fn rows_of_another_program_of_the_same_design_are_read() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now();
    write_row(&bare, &list, base, b"theirs", 600, now_micros()).await;
    assert_eq!(server.values(&list).await, [b"theirs"]);
    assert_eq!(server.remove(&list, b"theirs").await, 1);
}
