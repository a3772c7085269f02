//! What stands in the table: keys, TTLs, write timestamps, and reads over rows that others wrote.

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
    let items: [(Timestamp, &[u8]); 3] = [(base, b"a"), (earlier(base, 10), b"b"), (earlier(base, 3_599), b"c")];
    server.add(&list, &items).await;
    let rows = stored(&bare, &list).await;
    let after = now_micros();
    assert_eq!(rows.iter().map(|row| row.item_key.clone()).collect::<Vec<_>>(), items.map(|(t, v)| key(t, v)));
    assert_eq!(rows.iter().map(|row| &row.value[..]).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    // One timestamp for the whole batch, of this process's clock.
    assert!(rows.iter().all(|row| row.writetime == rows[0].writetime));
    assert!((before..=after).contains(&rows[0].writetime));
    // What is left, rounded up, plus one; the TTL that is read back has begun to run.
    let late = i32::try_from((after - before) / 1_000_000).unwrap() + 1;
    for (row, left) in rows.iter().zip([3_600, 3_590, 1]) {
        assert!((left + 1 - late..=left + 1).contains(&row.ttl), "{} of {left}", row.ttl);
    }
}

#[tokio::test]
async fn write_timestamps_of_a_process_only_grow() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now();
    let mut last = 0;
    for n in 0..20 {
        // A replaced actor has a new session, and the same clock.
        let session = server.store.open_session_for_test(n).await;
        let session = session.unwrap_or_else(|| server.session.clone());
        let replaced =
            Server { store: server.store.clone(), session, registry: Default::default(), deadline: server.deadline };
        replaced.add(&list, &[(base, b"same")]).await;
        let writetime = stored(&bare, &list).await[0].writetime;
        assert!(writetime > last);
        last = writetime;
    }
}
