//! Compactions drop exactly the items that lists do not show.

use std::sync::{Arc, Mutex};

use liststore::domain::{MaxItems, Retention};
use liststore::items::embedded::Fsync;
use liststore::items::{ItemStore, OpContext, Reclaim};

use crate::bounded_list::BoundedList;
use crate::harness::{Opened, SECOND, START, at, everything, item, list, open, operation, runtime, small_options};
use crate::sim_disk::{Rng, SimDisk};

/// The retention of all lists.
type Bound = Arc<Mutex<Retention>>;

fn bind(opened: &Opened, bound: &Bound) {
    let bound = Arc::clone(bound);
    opened.store.bound(Arc::new(move |_| {
        let Retention { ttl, max_items } = *bound.lock().unwrap();
        Some((ttl, max_items?))
    }));
}

fn showing(max_items: u64) -> OpContext {
    OpContext { max_items: MaxItems::new(max_items).ok(), ..operation(START, 3_600) }
}

/// The timestamps, counted from the start, of all items that a list shows.
async fn times(opened: &Opened, op: &OpContext) -> Vec<u64> {
    let page = opened.session.get(op, &list(0), &everything()).await.unwrap();
    page.items.iter().map(|item| item.timestamp.as_nanos() - START).collect()
}

#[test]
fn a_compaction_omits_items_beyond_the_bound_and_ignores_removed_ones() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = showing(10);
        let bound = Arc::new(Mutex::new(Retention { ttl: op.ttl, max_items: op.max_items }));
        // Long enough for several files, ties among them.
        let items: Vec<_> = (0..600).map(|n| item(START + n / 2, format!("value-{n}").as_bytes(), 3_600)).collect();
        for items in items.chunks(100) {
            opened.session.add(&op, &list(0), items.to_vec()).await.unwrap();
            opened.store.flush().unwrap();
        }
        // Removed after the compaction's runs were written: the visible part begins below them.
        for n in 590..600 {
            let removed = opened.session.remove_value(&op, &list(0), format!("value-{n}").as_bytes()).await.unwrap();
            assert_eq!(removed, 1);
        }
        let expected = [294, 294, 293, 293, 292, 292, 291, 291, 290, 290];
        assert_eq!(times(&opened, &op).await, expected);
        bind(&opened, &bound);
        opened.store.compact().unwrap();
        assert_eq!(times(&opened, &op).await, expected);
        assert_eq!(times(&opened, &operation(START, 3_600)).await, expected, "all else is gone");
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        assert_eq!(times(&opened, &op).await, expected);
        opened.store.close().await.unwrap();
        drop(opened);
        let opened = open(&disk, small_options(Fsync::Group)).await;
        assert_eq!(times(&opened, &operation(START, 3_600)).await, expected);
    });
}

#[test]
fn a_compaction_that_ends_a_step_within_a_list_omits_its_rest() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = showing(700);
        let bound = Arc::new(Mutex::new(Retention { ttl: op.ttl, max_items: op.max_items }));
        bind(&opened, &bound);
        let items: Vec<_> = (0..2_000).map(|n| item(START + n, format!("value-{n}").as_bytes(), 3_600)).collect();
        for items in items.chunks(500) {
            opened.session.add(&op, &list(0), items.to_vec()).await.unwrap();
            opened.store.flush().unwrap();
        }
        opened.store.compact().unwrap();
        let expected: Vec<_> = (1_300..2_000).rev().collect();
        assert_eq!(times(&opened, &op).await, expected);
        assert_eq!(times(&opened, &operation(START, 3_600)).await, expected);
    });
}

#[test]
fn a_store_without_bounds_frees_no_items() {
    runtime().block_on(async {
        let opened = open(&SimDisk::default(), small_options(Fsync::Group)).await;
        let items: Vec<_> = (0..100).map(|n| item(START + n, b"value", 3_600)).collect();
        opened.session.add(&showing(5), &list(0), items).await.unwrap();
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        assert_eq!(times(&opened, &showing(5)).await.len(), 5);
        assert_eq!(times(&opened, &operation(START, 3_600)).await.len(), 100, "a raised bound shows them again");
    });
}

async fn run(seed: u64) {
    let mut rng = Rng(seed);
    let disk = SimDisk::default();
    let options = small_options(Fsync::Group);
    let mut opened = open(&disk, options.clone()).await;
    let mut lists: Vec<_> = (0..3).map(|_| BoundedList::new(&[60, 4, 15], &[4, 15, 60])).collect();
    let bound = Arc::new(Mutex::new(lists[0].retention));
    bind(&opened, &bound);
    let mut now = START;
    for _ in 0..400 {
        match rng.below(12) {
            0 => opened.store.flush().unwrap(),
            1 => opened.store.compact().unwrap(),
            2 => {
                opened.store.close().await.unwrap();
                opened = open(&disk, options.clone()).await;
                opened.clock.set(at(now));
                bind(&opened, &bound);
            }
            3 => {
                now += rng.below(6) * SECOND;
                opened.clock.set(at(now));
            }
            _ => {
                let n = rng.below(lists.len() as u64);
                let one = &mut lists[n as usize];
                one.step(&opened.session, &list(n), at(now), &mut |below| rng.below(below)).await;
                // All lists are of one feature version.
                let retention = one.retention;
                for list in &mut lists {
                    list.retention = retention;
                    list.note(at(now));
                }
                *bound.lock().unwrap() = retention;
            }
        }
    }
    for (n, one) in lists.iter_mut().enumerate() {
        one.read(&opened.session, &list(n as u64), at(now)).await;
    }
}

#[test]
fn items_that_were_never_beyond_the_bound_stay_visible() {
    for seed in 1..=24 {
        runtime().block_on(run(seed * 7_919));
    }
}
