//! Removals by value beside adds to the same list: each add comes before the removal or after it.

use std::time::Duration;

use liststore::domain::Item;
use liststore::items::embedded::Fsync;
use liststore::items::{Operation, StoreError};
use tokio::time::Instant;

use crate::harness::{START, everything, item, list, newest, open, operation, runtime, small_options, start_add};
use crate::sim_disk::SimDisk;

#[test]
fn a_removal_sees_adds_that_were_queued_before_it_and_none_that_come_later() {
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
        // It adds again what is there, too: a removal that knew only of that would take half of it.
        let (first, waits) = start_add(session, op, list(0), vec![of_value(10), of_value(20)]);
        assert!(waits.is_none(), "nothing is in its way");
        let here = list(0);
        let (removed, ()) = tokio::join!(session.remove_value(&op, &here, b"removed"), async {
            // The one thread that reads files would have looked for the removal's items before.
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

#[test]
fn a_removal_that_comes_too_late_to_look_has_done_nothing() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let (op, session) = (operation(START, 600), &opened.session);
        let held = disk.hold_syncs();
        let (added, _) = start_add(session, op, list(0), vec![item(START, b"stays", 60)]);
        let late = Operation { deadline: Instant::now() + Duration::from_millis(20), ..op };
        let error = session.remove_value(&late, &list(0), b"stays").await.unwrap_err();
        assert!(matches!(error, StoreError::Timeout { outcome_unknown: false }), "{error:?}");
        drop(held);
        added.await.unwrap().unwrap();
        assert_eq!(session.get(&op, &list(0), &everything()).await.unwrap().items.len(), 1);
    });
}
