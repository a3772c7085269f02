//! Long lists, concurrent readers and writers, and the real disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use liststore::domain::{Item, Order, SystemClock};
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore, Fsync, OpenError};
use liststore::items::{ItemStore, MemoryReads, Range};

use crate::harness::{START, at, everything, item, list, newest, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;

const MANY: u64 = 100_000;

fn value(i: u64) -> Vec<u8> {
    format!("value-{:06}", i % 1_000).into_bytes()
}

#[test]
fn a_list_of_many_items_is_read_by_pages_and_searched() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let options = EmbeddedOptions { log_segment_bytes: 256 << 10, ..small_options(Fsync::Group) };
        let opened = open(&disk, options).await;
        let op = operation(START, 3_600);
        for chunk in 0..MANY / 1_000 {
            let items = (0..1_000).map(|i| chunk * 1_000 + i).map(|i| item(START - i, &value(i), 3_600));
            opened.session.add(&op, &list(0), items.collect()).await.unwrap();
        }
        for compacted in [false, true] {
            if compacted {
                opened.store.flush().unwrap();
                opened.store.compact().unwrap();
            }
            let page = opened.session.get(&op, &list(0), &newest(50)).await.unwrap();
            assert_eq!((page.items.len(), page.more), (50, true));
            let (mut walked, mut after) = (0, None);
            loop {
                let page = opened.session.get(&op, &list(0), &Range { after, ..newest(10_000) }).await.unwrap();
                for (i, Item { timestamp, value: stored }) in (walked..).zip(&page.items) {
                    assert_eq!((*timestamp, stored.to_vec()), (at(START - i), value(i)));
                }
                walked += page.items.len() as u64;
                after = page.items.last().map(Item::key);
                if !page.more {
                    break;
                }
            }
            assert_eq!(walked, MANY);
            let (mut walked, mut after) = (0, None);
            let oldest = Range { order: Order::Oldest, ..newest(9_999) };
            loop {
                let page = opened.session.get(&op, &list(0), &Range { after, ..oldest }).await.unwrap();
                for (i, Item { timestamp, value: stored }) in (walked..).zip(&page.items) {
                    let i = MANY - 1 - i;
                    assert_eq!((*timestamp, stored.to_vec()), (at(START - i), value(i)));
                }
                walked += page.items.len() as u64;
                after = page.items.last().map(Item::key);
                if !page.more {
                    break;
                }
            }
            assert_eq!(walked, MANY);
            let deep = Range { max_timestamp: at(START - 90_000), limit: 3, ..everything() };
            let page = opened.session.get(&op, &list(0), &deep).await.unwrap();
            assert_eq!(page.items[0].timestamp, at(START - 90_000));
        }
        assert_eq!(opened.session.remove_value(&op, &list(0), &value(7)).await.unwrap(), MANY / 1_000);
        assert_eq!(opened.session.remove_value(&op, &list(0), &value(7)).await.unwrap(), 0);
        opened.session.remove_all(&op, &list(0)).await.unwrap();
        opened.store.flush().unwrap();
        assert_eq!(opened.session.get(&op, &list(0), &everything()).await.unwrap().items, []);
    });
}

#[test]
fn one_value_at_many_moments_is_removed_at_once() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = operation(START, 3_600);
        let large = vec![9; 20_000];
        for i in 0..200 {
            opened.session.add(&op, &list(0), vec![item(START - i, &large, 3_600)]).await.unwrap();
        }
        opened.store.flush().unwrap();
        assert_eq!(opened.session.remove_value(&op, &list(0), &large).await.unwrap(), 200);
        opened.store.flush().unwrap();
        assert_eq!(opened.session.get(&op, &list(0), &everything()).await.unwrap().items, []);
    });
}

#[test]
fn readers_see_complete_adds_during_flushes_and_compactions() {
    let disk = SimDisk::default();
    let runtime = runtime();
    let opened = runtime.block_on(open(&disk, small_options(Fsync::Group)));
    let (done, added) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let store = &opened.store;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (done, added) = (done.clone(), added.clone());
            scope.spawn(move || {
                crate::harness::runtime().block_on(async {
                    let session = store.open_session().await.unwrap();
                    let mut reads = 0;
                    while !done.load(Ordering::Acquire) || reads == 0 {
                        let acknowledged = added.load(Ordering::Acquire);
                        let op = operation(START, 3_600);
                        let page = session.get(&op, &list(reads % 3), &everything()).await.unwrap();
                        assert!(page.items.len() as u64 >= acknowledged * 5, "acknowledged items are missing");
                        assert_eq!(page.items.len() % 5, 0, "an add is seen in part");
                        assert!(page.items.is_sorted_by_key(|item| std::cmp::Reverse(item.timestamp)));
                        reads += 1;
                    }
                });
            });
        }
        runtime.block_on(async {
            let op = operation(START, 3_600);
            for round in 0..300_u64 {
                for i in 0..3 {
                    let items = (0..5).map(|j| item(START - round * 5 - j, &value(j), 3_600)).collect();
                    opened.session.add(&op, &list(i), items).await.unwrap();
                }
                added.store(round + 1, Ordering::Release);
                match round % 20 {
                    5 | 10 => opened.store.flush().unwrap(),
                    15 => opened.store.compact().unwrap(),
                    _ => {}
                }
            }
            done.store(true, Ordering::Release);
        });
    });
}

#[test]
fn the_real_disk_stores_and_locks_files() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = EmbeddedOptions::new(dir.path());
        EmbeddedStore::open(options, Arc::new(SystemClock), &prometheus::Registry::new())
    };
    runtime().block_on(async {
        let op = operation(START, 3_600);
        for round in 0..3 {
            let store = open().unwrap();
            assert!(matches!(open(), Err(OpenError::Locked { .. })));
            let session = store.open_session().await.unwrap();
            session.add(&op, &list(0), vec![item(START - round, &value(round), 3_600_000_000 / 10)]).await.unwrap();
            if round == 1 {
                store.flush().unwrap();
            }
            let page = session.get(&op, &list(0), &newest(50)).await.unwrap();
            assert_eq!(page.items.len() as u64, round + 1);
            let in_memory = store.get_from_memory(&op, &list(0), &newest(50));
            assert_eq!(in_memory.map(|found| found.page), Some(page));
            store.close().await.unwrap();
        }
    });
}
