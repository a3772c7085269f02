//! Gets of lists that are not in memory: the blocks that they read, and their turns.

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use liststore::domain::{Item, Order};
use liststore::items::embedded::Fsync;
use liststore::items::{ItemPage, ItemStore, Range};

use crate::harness::{
    Change, Opened, START, carry_out, everything, item, list, newest, open, operation, runtime, small_options,
};
use crate::sim_disk::SimDisk;

const TTL: u64 = 600;

async fn add(opened: &Opened, list: u64, items: std::ops::Range<u64>, value_len: usize) {
    let items = items.map(|n| item(START - n, &vec![b'v'; value_len], TTL)).collect();
    carry_out(&opened.session, &operation(START, TTL), list, &Change::Add(items)).await.unwrap();
}

async fn count(opened: &Opened, number: u64) -> usize {
    opened.session.get(&operation(START, TTL), &list(number), &newest(10)).await.unwrap().items.len()
}

/// A large file in each partition, and three small ones: too few for a compaction.
#[test]
fn a_get_reads_blocks_only_of_files_with_the_list() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        for (lists, value_len) in [(0..1_000, 200), (1_000..1_100, 100), (1_100..1_200, 100), (1_200..1_300, 100)] {
            for list in lists {
                add(&opened, list, 0..1, value_len).await;
            }
            opened.store.flush().unwrap();
        }
        let before = disk.data_reads();
        for absent in 10_000..11_000 {
            assert_eq!(count(&opened, absent).await, 0);
        }
        let absent = disk.data_reads() - before;
        assert!(absent < 20, "{absent} blocks for 1,000 lists that are not there");
        for present in (0..1_300).step_by(10) {
            assert_eq!(count(&opened, present).await, 1, "{present}");
        }
        let present = disk.data_reads() - before - absent;
        assert!((130..140).contains(&present), "{present} blocks for 130 lists, each in one");
        opened.store.close().await.unwrap();
    });
}

/// All wait for one thread, which cannot read before the last one has come.
#[test]
fn a_get_is_answered_between_turns_of_earlier_walks() {
    const ITEMS: u64 = 20_000;
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        for n in (0..ITEMS).step_by(1_000) {
            add(&opened, 1, n..n + 1_000, 50).await;
        }
        add(&opened, 2, 0..10, 50).await;
        opened.store.flush().unwrap();
        let op = operation(START, TTL);
        disk.hold_data_reads(true);
        let walk = async || {
            let page = opened.session.get(&op, &list(1), &everything()).await.unwrap();
            assert_eq!(page.items.len() as u64, ITEMS);
            "walk"
        };
        let get = async || {
            assert_eq!(count(&opened, 2).await, 10);
            "get"
        };
        let release = async || {
            disk.hold_data_reads(false);
            "release"
        };
        // They begin in this order, and report the order in which they end.
        let reads: [LocalBoxFuture<'_, &str>; 5] =
            [Box::pin(walk()), Box::pin(walk()), Box::pin(walk()), Box::pin(get()), Box::pin(release())];
        let ended: Vec<_> = reads.into_iter().collect::<FuturesUnordered<_>>().collect().await;
        assert_eq!(ended[..2], ["release", "get"]);
        opened.store.close().await.unwrap();
    });
}

/// Pages from the oldest item are read in windows. An item that does not fit into a page begins the next one, also if
/// smaller items are above it in the same window.
#[test]
fn a_large_item_between_small_ones_is_not_skipped_oldest_first() {
    const ITEMS: u64 = 2_000;
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        for n in (0..ITEMS).step_by(1_000) {
            add(&opened, 1, n..n + 1_000, 50).await;
        }
        // The sixth from the end.
        add(&opened, 1, ITEMS - 6..ITEMS - 5, 400).await;
        opened.store.flush().unwrap();
        let op = operation(START, TTL);
        let oldest = |after| Range { order: Order::Oldest, after, value_bytes_max: 300, ..everything() };
        let first = opened.session.get(&op, &list(1), &oldest(None)).await.unwrap();
        let lengths = |page: &ItemPage| page.items.iter().map(|item| item.value.len()).collect::<Vec<_>>();
        assert!(first.more);
        let second = opened.session.get(&op, &list(1), &oldest(first.items.last().map(Item::key))).await.unwrap();
        let both = [lengths(&first), lengths(&second)].concat();
        assert_eq!(both[..7], [50, 50, 50, 50, 50, 50, 400][..], "{both:?}");
        opened.store.close().await.unwrap();
    });
}
