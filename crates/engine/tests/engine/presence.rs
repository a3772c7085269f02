//! Finds the lists that the store holds, in memory or in files.

use std::time::Duration;

use liststore::domain::{Identity, Keep, ListKey};
use liststore::items::embedded::Fsync;
use liststore::items::{ByteErasure, ItemStore, StoreError};
use tokio::time::Instant;

use crate::harness::{Opened, SECOND, START, item, list, open, operation, runtime, small_options, start_add};
use crate::sim_disk::SimDisk;

const LISTS: u64 = 300;

fn set(i: u64) -> ListKey {
    let list = list(i);
    ListKey::new(list.feature_key.with_identity(Identity::Value(Keep::Newest)), list.entity_id)
}

/// Like an erasure: by keys of lists and sets.
fn held(opened: &Opened) -> Vec<u64> {
    let lists: Vec<_> =
        (0..LISTS).map(|i| ListKey::new(list(i).feature_key.of_any_identity(), list(i).entity_id)).collect();
    let deadline = operation(START, 3_600).deadline;
    let held = opened.store.held(&lists, deadline).unwrap().unwrap();
    (0..).zip(held).filter_map(|(i, held)| held.then_some(i)).collect()
}

async fn add(opened: &Opened, list: ListKey) {
    let op = operation(START, 3_600);
    opened.session.add(&op, &list, vec![item(START, b"value", 3_600)]).await.unwrap();
}

async fn clear(opened: &Opened, list: &ListKey) {
    opened.session.remove_all(&operation(START, 3_600), list).await.unwrap();
}

#[test]
fn lists_with_items_are_reported_from_memory_and_files() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        assert!(held(&opened).is_empty());
        for i in [3, 7, 20] {
            add(&opened, list(i)).await;
        }
        add(&opened, set(9)).await;
        assert_eq!(held(&opened), [3, 7, 9, 20], "in memory");
        opened.store.flush().unwrap();
        assert_eq!(held(&opened), [3, 7, 9, 20], "in files");
        clear(&opened, &list(3)).await;
        clear(&opened, &set(9)).await;
        add(&opened, list(8)).await;
        assert_eq!(held(&opened), [7, 8, 20], "removed from files, in memory");
        opened.store.flush().unwrap();
        assert_eq!(held(&opened), [7, 8, 20], "removed from one file by another");
        opened.store.compact().unwrap();
        assert_eq!(held(&opened), [7, 8, 20], "compacted");
        add(&opened, list(3)).await;
        assert_eq!(held(&opened), [3, 7, 8, 20], "there again");
        drop(opened);
        assert_eq!(held(&open(&disk, small_options(Fsync::Group)).await), [3, 7, 8, 20], "after a start");
    });
}

/// No reader sees them, and their bytes exist until a flush or a compaction drops them.
#[test]
fn lists_of_expired_items_exist_until_they_are_dropped() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        opened.session.add(&operation(START, 60), &list(5), vec![item(START, b"value", 60)]).await.unwrap();
        opened.clock.set(liststore::domain::Timestamp::from_nanos(START + 100 * SECOND).unwrap());
        assert_eq!(held(&opened), [5]);
    });
}

/// The log's thread waits for the disk, without a time limit.
#[test]
fn a_delayed_scan_ends_at_its_deadline() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let held = disk.hold_syncs();
        let added = vec![item(START, b"value", 60)];
        let (added, _) = start_add(&opened.session, operation(START, 60), list(0), added);
        let error = opened.store.held(&[list(0)], Instant::now() + Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, StoreError::Timeout { outcome_unknown: false }), "{error:?}");
        drop(held);
        added.await.unwrap().unwrap();
    });
}

/// Only a closed log makes the answer unknown. Anything else is an error.
#[test]
fn only_a_closed_log_cannot_report() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let error = opened.store.held(&[list(0)], Instant::now()).unwrap_err();
        assert!(matches!(error, StoreError::Timeout { outcome_unknown: false }), "{error:?}");
        opened.store.close().await.unwrap();
        assert_eq!(opened.store.held(&[list(0)], operation(START, 60).deadline).unwrap(), None);
    });
}
