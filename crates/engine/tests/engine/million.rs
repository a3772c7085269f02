//! One list of a million items, on the real disk: it grows, is walked, is read in its middle, and
//! gives up single values.

use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::domain::{ItemKey, ManualClock, ValueDigest};
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore, Fsync};
use liststore::items::{ItemSession, ItemStore, OpContext, Range};

use crate::harness::{SECOND, START, at, everything, item, list, newest, operation, runtime};

const ITEMS: u64 = 1_000_000;
const ADD: u64 = 1_000;
const PAGE: usize = 10_000;
/// Every so-many-th item has a value that comes again.
const REPEATED_EVERY: u64 = 5_000;
const TTL_SECS: u64 = 100_000_000;

fn value(n: u64) -> Vec<u8> {
    if n.is_multiple_of(REPEATED_EVERY) { b"repeated".to_vec() } else { format!("value-{n:07}").into_bytes() }
}

/// An operation that begins now.
fn now() -> OpContext {
    operation(START, TTL_SECS)
}

/// Walks the whole list, page by page, and returns its items, newest first.
async fn walk(session: &dyn ItemSession) -> Vec<u64> {
    let mut range = newest(PAGE);
    let mut numbers = Vec::new();
    loop {
        let page = session.get(&now(), &list(0), &range).await.unwrap();
        for item in &page.items {
            let n = (item.timestamp.as_nanos() - (START - ITEMS * SECOND)) / SECOND;
            assert_eq!(item.value, value(n));
            numbers.push(n);
        }
        if !page.more {
            return numbers;
        }
        let last = page.items.last().unwrap();
        range.after = Some(ItemKey::new(last.timestamp, ValueDigest::of(&last.value)));
    }
}

#[test]
fn a_list_of_a_million_items_behaves_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        fsync: Fsync::Interval(Duration::from_millis(100)),
        cache_bytes: 64 << 20,
        ..EmbeddedOptions::new(dir.path())
    };
    let clock = Arc::new(ManualClock::at(at(START)));
    runtime().block_on(async {
        let store = EmbeddedStore::open(options, clock, &prometheus::Registry::new()).unwrap();
        let session = store.open_session().await.unwrap();
        for add in 0..ITEMS / ADD {
            // Each add is among earlier ones in time.
            let numbers = (0..ADD).map(|i| (add / 10) * 10 * ADD + i * 10 + add % 10);
            let items = numbers.map(|n| item(START - ITEMS * SECOND + n * SECOND, &value(n), TTL_SECS)).collect();
            session.add(&now(), &list(0), items).await.unwrap();
        }
        let began = Instant::now();
        let walked = walk(&*session).await;
        let walk_took = began.elapsed();
        assert!(walked.iter().copied().eq((0..ITEMS).rev()), "{} items", walked.len());

        // A read that is bounded by a time deep in the list does not walk up to it.
        store.flush().unwrap();
        let middle = at(START - ITEMS / 2 * SECOND);
        let range = Range { max_timestamp: middle, limit: 100, ..everything() };
        let mut read_took = Duration::MAX;
        // The quickest of a few: others may have the cores for a while.
        for _ in 0..10 {
            let began = Instant::now();
            let page = session.get(&now(), &list(0), &range).await.unwrap();
            read_took = read_took.min(began.elapsed());
            assert_eq!((page.items.len(), page.items[0].timestamp, page.more), (100, middle, true));
        }
        assert!(read_took * 10 < walk_took, "100 items in the middle took {read_took:?}, all of them {walk_took:?}");

        assert_eq!(session.remove_value(&now(), &list(0), b"repeated").await.unwrap(), ITEMS / REPEATED_EVERY);
        assert_eq!(session.remove_value(&now(), &list(0), b"repeated").await.unwrap(), 0);
        assert_eq!(session.remove_value(&now(), &list(0), &value(ITEMS / 2 + 1)).await.unwrap(), 1);
        let left = walk(&*session).await;
        assert_eq!(left.len() as u64, ITEMS - ITEMS / REPEATED_EVERY - 1);
        store.close().await.unwrap();
    });
}
