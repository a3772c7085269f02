//! Removals by value concurrent with adds to the same list: each add comes before the removal or after it.

use std::time::Duration;

use liststore::domain::Item;
use liststore::items::embedded::Fsync;
use liststore::items::{OpContext, StoreError};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::Instant;

use crate::harness::{
    SECOND, START, everything, item, list, newest, open, operation, runtime, small_options, start_add,
};
use crate::sim_disk::SimDisk;

#[test]
fn a_removal_sees_adds_queued_before_it_and_no_later_ones() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let (op, session) = (operation(START, 600), &opened.session);
        let of_value = |age: u64| item(START - age, b"removed", 60);
        for i in 0..2 {
            session.add(&op, &list(i), vec![of_value(10)]).await.unwrap();
        }
        opened.store.flush().unwrap();

        let held = disk.hold_syncs();
        // It also adds existing items again. A removal that had only seen those would take half of the add.
        let (first, waits) = start_add(session, op, list(0), vec![of_value(10), of_value(20)]);
        assert!(waits.is_none(), "nothing is in its way");
        let here = list(0);
        let (removed, ()) = tokio::join!(session.remove_value(&op, &here, b"removed"), async {
            // The one thread that reads files would have searched the removal's items before.
            assert_eq!(session.get(&op, &list(1), &newest(9)).await.unwrap().items.len(), 1);
            let (second, waits) = start_add(session, op, list(0), vec![of_value(30)]);
            let waits = waits.expect("the removal has the list to itself");
            drop(held);
            waits.await;
            second.await.unwrap().unwrap();
        });
        assert_eq!(removed.unwrap(), 2);
        first.await.unwrap().unwrap();
        let page = session.get(&op, &list(0), &everything()).await.unwrap();
        assert_eq!(page.items, [Item { timestamp: of_value(30).timestamp, value: of_value(30).value }]);
    });
}

/// Adds once took their space in the queue and then waited for the removal. The removal, whose row may be larger than
/// the queue, waited for their space. None of them proceeded before its deadline, and neither did any other write.
#[test]
fn a_removal_larger_than_the_queue_completes_next_to_waiting_adds() {
    const ITEMS: u64 = 60_000;
    LocalSet::new().block_on(&runtime(), async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let (op, session) = (operation(START, 10 * ITEMS), &opened.session);
        for first in (0..ITEMS).step_by(10_000) {
            let items = (first..first + 10_000).map(|i| item(START - i * SECOND, b"removed", 10 * ITEMS)).collect();
            session.add(&op, &list(0), items).await.unwrap();
        }
        let large = |byte: u8| vec![item(START, &[byte; 50 << 10], 60)];

        let held = disk.hold_syncs();
        let (occupying, _) = start_add(session, op, list(1), vec![item(START, b"keeps the log's thread busy", 60)]);
        let here = list(0);
        let (removed, ()) = tokio::join!(session.remove_value(&op, &here, b"removed"), async {
            let (mut added, mut waiting) = (Vec::new(), JoinSet::new());
            for byte in 0..4 {
                let (outcome, waits) = start_add(session, op, list(0), large(byte));
                waiting.spawn_local(waits.expect("the removal has the list to itself"));
                added.push(outcome);
            }
            // They proceed until they block.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let (elsewhere, waits) = start_add(session, op, list(2), large(9));
            assert!(waits.is_none(), "writes that wait at the gate of another list take no room");
            drop(held);
            waiting.join_all().await;
            for outcome in added.into_iter().chain([occupying, elsewhere]) {
                outcome.await.unwrap().unwrap();
            }
        });
        assert_eq!(removed.unwrap(), ITEMS);
        assert_eq!(session.get(&op, &here, &newest(9)).await.unwrap().items.len(), 4);
    });
}

#[test]
fn a_removal_that_is_late_before_its_search_changes_nothing() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let (op, session) = (operation(START, 600), &opened.session);
        let held = disk.hold_syncs();
        let (added, _) = start_add(session, op, list(0), vec![item(START, b"stays", 60)]);
        let late = OpContext { deadline: Instant::now() + Duration::from_millis(20), ..op };
        let error = session.remove_value(&late, &list(0), b"stays").await.unwrap_err();
        assert!(matches!(error, StoreError::Timeout { outcome_unknown: false }), "{error:?}");
        drop(held);
        added.await.unwrap().unwrap();
        assert_eq!(session.get(&op, &list(0), &everything()).await.unwrap().items.len(), 1);
    });
}
