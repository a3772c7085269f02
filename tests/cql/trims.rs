//! Items beyond the newest ones that lists show are removed from the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use liststore::domain::{ListKey, MaxItems, Timestamp};
use liststore::items::{OpContext, Reclaim};
use scylla::client::session::Session;

use crate::cassandra::shared_options;
use crate::probe::{EVERYTHING, Server, bare, fresh_list, key, now, now_micros, stored, write_row};

/// An operation on a list with this bound, which the store has as well.
fn showing(server: &Server, max_items: u64) -> OpContext {
    let op = OpContext { max_items: MaxItems::new(max_items).ok(), ..server.op() };
    server.store.bound(Arc::new(move |_| Some((op.ttl, op.max_items?))));
    op
}

fn numbered(base: Timestamp, count: u64) -> Vec<Timestamp> {
    (0..count).map(|n| Timestamp::from_nanos(base.as_nanos() - n * 1_000_000).unwrap()).collect()
}

async fn keys(bare: &Session, list: &ListKey) -> Vec<String> {
    stored(bare, list).await.into_iter().map(|row| row.item_key).collect()
}

/// Waits for the background to have cut a list.
async fn until_cut(bare: &Session, list: &ListKey, expected: &[String]) {
    for _ in 0..1_200 {
        if keys(bare, list).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(keys(bare, list).await, expected);
}

#[tokio::test]
async fn a_read_that_finds_hidden_items_trims_the_list() {
    let options = shared_options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    let times = numbered(now(), 30);
    let items: Vec<(Timestamp, &[u8])> = times.iter().map(|time| (*time, &b"v"[..])).collect();
    let shown: Vec<_> = times[..5].iter().map(|time| key(*time, b"v")).collect();
    // By a page that begins at the newest item, and by one that must find their end.
    for max_timestamp in [Timestamp::MAX, now()] {
        let list = fresh_list();
        server.add(&list, &items).await;
        // From a server whose clock is ahead, which wrote to the list after the check.
        let last = times[20];
        let range = liststore::items::Range { max_timestamp, ..EVERYTHING };
        let ahead = now_micros() + 3_600_000_000;
        write_row(&bare, &list, last, b"w", 3_600, ahead).await;
        let page = server.session.get(&showing(&server, 5), &list, &range).await.unwrap();
        assert_eq!((page.items.len(), page.more), (5, false));
        let expected: Vec<_> = shown.iter().cloned().chain([key(last, b"w")]).collect();
        until_cut(&bare, &list, &expected).await;
        // A later add behind the end is visible again.
        server.add(&list, &[(times[9], b"v")]).await;
        assert!(keys(&bare, &list).await.contains(&key(times[9], b"v")));
    }
}

#[tokio::test]
async fn a_list_without_reads_is_trimmed_as_well() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let times = numbered(now(), 200);
    let items: Vec<_> = times.iter().map(|time| (*time, b"v".to_vec())).collect();
    let op = showing(&server, 8);
    let items: Vec<_> = items
        .into_iter()
        .map(|(timestamp, value)| liststore::domain::NewItem {
            timestamp,
            value: value.into(),
            expires_at: op.ttl.expiry_of(timestamp),
        })
        .collect();
    // Enough to be checked for certain.
    server.session.add(&op, &list, items).await.unwrap();
    let shown: Vec<_> = times[..8].iter().map(|time| key(*time, b"v")).collect();
    until_cut(&bare, &list, &shown).await;
}

#[tokio::test]
async fn a_list_slightly_beyond_its_bound_is_not_trimmed() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let times = numbered(now(), 18);
    let items: Vec<(Timestamp, &[u8])> = times.iter().map(|time| (*time, &b"v"[..])).collect();
    server.add(&list, &items).await;
    let trims = || server.metric("liststore_cql_trims_total", "");
    let page = server.session.get(&showing(&server, 16), &list, &EVERYTHING).await.unwrap();
    assert_eq!(page.items.len(), 16);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((keys(&bare, &list).await.len(), trims()), (18, 0.0));
    // One more than an eighth: checked once a second.
    let one = Timestamp::from_nanos(times[0].as_nanos() + 1).unwrap();
    server.add(&list, &[(one, b"v")]).await;
    let shown: Vec<_> = std::iter::once(one).chain(times).take(16).map(|time| key(time, b"v")).collect();
    for _ in 0..1_200 {
        server.session.get(&showing(&server, 16), &list, &EVERYTHING).await.unwrap();
        if keys(&bare, &list).await == shown {
            // It is counted after it can be seen.
            let counted = async {
                while trims() < 1.0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            return tokio::time::timeout(Duration::from_secs(10), counted).await.expect("it is not counted");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", keys(&bare, &list).await);
}

/// Adds under a larger bound would push out items that were never beyond the bound.
#[tokio::test]
async fn a_bound_raised_during_a_trim_removes_nothing() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let op = OpContext { max_items: MaxItems::new(5).ok(), ..server.op() };
    // Raised during the check of the list: between the first query and the second.
    let asked = AtomicBool::new(false);
    let asked_twice = Arc::new(AtomicBool::new(false));
    let reported = Arc::clone(&asked_twice);
    server.store.bound(Arc::new(move |_| {
        if asked.swap(true, Ordering::SeqCst) {
            reported.store(true, Ordering::SeqCst);
            return Some((op.ttl, MaxItems::MAX));
        }
        Some((op.ttl, op.max_items?))
    }));
    let items: Vec<_> = numbered(now(), 30).into_iter().map(|time| (time, &b"v"[..])).collect();
    server.add(&list, &items).await;
    server.session.get(&op, &list, &EVERYTHING).await.unwrap();
    let is_asked = async {
        while !asked_twice.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_asked).await.expect("the list is not looked at");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((keys(&bare, &list).await.len(), server.metric("liststore_cql_trims_total", "")), (30, 0.0));
}
