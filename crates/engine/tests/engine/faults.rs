//! A full disk, a failing fsync, a lagging flusher: writes are refused, reads continue, and no lost write was
//! acknowledged.

use std::time::Duration;

use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::{Bounds, ItemStore, Removal, StoreError};

use crate::harness::{
    Change, DEADLINE, Model, SECOND, START, carry_out, everything, item, list, newest, open, operation, random_change,
    runtime, small_options,
};
use crate::sim_disk::{Rng, SimDisk, WriteFault};

async fn until(mut condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("it never came true");
}

fn add(value: &[u8]) -> Change {
    Change::Add(vec![item(START, value, 60)])
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_reads_continue() {
    runtime().block_on(async {
        for seed in 0..6 {
            let mut rng = Rng(seed);
            let disk = SimDisk::default();
            let mut opened = open(&disk, small_options(Fsync::Group)).await;
            let mut model = Model::default();
            let op = operation(START, 600);
            for round in 0..3 {
                disk.leave_free(Some(rng.below(30_000) as usize));
                let mut refused = false;
                for _ in 0..600 {
                    let (list, change) = (rng.below(3), random_change(&mut rng, START));
                    match carry_out(&opened.session, &op, list, &change).await {
                        Ok(_) => model.apply(list, &change),
                        Err(StoreError::Unavailable { outcome_unknown, reason }) => {
                            assert!(!outcome_unknown, "{reason}");
                            refused = true;
                            break;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                assert!(refused, "the disk never filled up");
                // The blocking part may have succeeded in a retry since: then the next write fails.
                for i in 0..3 {
                    let page = opened.session.get(&op, &list(i), &everything()).await.unwrap();
                    assert_eq!(page, model.page(i, &op, &everything()));
                }
                if round == 1 {
                    // A refused add does not appear after a start, either.
                    drop(opened);
                    let lost_nothing = disk.killed();
                    lost_nothing.leave_free(None);
                    let reopened = open(&lost_nothing, small_options(Fsync::Group)).await;
                    for i in 0..3 {
                        let page = reopened.session.get(&op, &list(i), &everything()).await.unwrap();
                        assert_eq!(page, model.page(i, &op, &everything()));
                    }
                    drop(reopened);
                    disk.leave_free(None);
                    opened = open(&disk, small_options(Fsync::Group)).await;
                }
                disk.leave_free(None);
                until(|| opened.store.read_only().is_none()).await;
                let change = add(b"room again");
                carry_out(&opened.session, &op, 0, &change).await.unwrap();
                model.apply(0, &change);
            }
        }
    });
}

#[test]
fn a_full_disk_is_reported_as_read_only() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = operation(START, 600);
        disk.leave_free(Some(0));
        let mut n = 0;
        let error = loop {
            let change = Change::Add(vec![item(START - n, &[1; 2_000], 60)]);
            if let Err(error) = carry_out(&opened.session, &op, 0, &change).await {
                break error;
            }
            n += 1;
        };
        let reason = opened.store.read_only().expect("it says that it is read-only");
        assert!(error.to_string().contains(&reason), "{error}");
        assert!(error.is_retryable() && !error.outcome_unknown());
    });
}

#[test]
fn a_failed_fsync_is_never_followed_by_an_acknowledgement() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = operation(START, 600);
        carry_out(&opened.session, &op, 0, &add(b"before")).await.unwrap();
        disk.fail_syncs_once_written(b"during");
        let error = carry_out(&opened.session, &op, 0, &add(b"during")).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
        let error = carry_out(&opened.session, &op, 0, &add(b"after")).await.unwrap_err();
        assert!(!error.outcome_unknown(), "{error}");
        assert!(opened.store.read_only().unwrap().contains("restart the server"));
        let page = opened.session.get(&op, &list(0), &everything()).await.unwrap();
        assert_eq!(page.items.len(), 1, "what may be taken back must not be seen");
        assert!(opened.store.close().await.is_err());
        // A new start finds the acknowledged items, and accepts writes.
        let opened = open(&disk.crashed(&mut Rng(1)), small_options(Fsync::Group)).await;
        let page = opened.session.get(&op, &list(0), &everything()).await.unwrap();
        assert!(page.items.iter().any(|item| *item.value == *b"before"));
        carry_out(&opened.session, &op, 0, &add(b"again")).await.unwrap();
    });
}

#[test]
fn a_write_to_the_log_that_fails_is_undone_or_its_outcome_is_unknown() {
    runtime().block_on(async {
        let cases = [
            // All of it may be there, and is made void.
            (WriteFault::Fails { lost: 0 }, true),
            // It cannot be made void, and is not whole.
            (WriteFault::FailsForGood { lost: 16 }, true),
            // It cannot be made void, and counts.
            (WriteFault::FailsForGood { lost: 0 }, false),
        ];
        for (fault, known) in cases {
            let disk = SimDisk::default();
            let opened = open(&disk, small_options(Fsync::Group)).await;
            let op = operation(START, 600);
            carry_out(&opened.session, &op, 0, &add(b"before")).await.unwrap();
            disk.fail_write_of(b"during", fault);
            let error = carry_out(&opened.session, &op, 0, &add(b"during")).await.unwrap_err();
            assert_eq!(error.outcome_unknown(), !known, "{fault:?}: {error}");
            let page = opened.session.get(&op, &list(0), &everything()).await.unwrap();
            assert_eq!(page.items.len(), 1, "{fault:?}");
            disk.heal_writes();
            if known {
                until(|| opened.store.read_only().is_none()).await;
                carry_out(&opened.session, &op, 0, &add(b"after")).await.unwrap();
            } else {
                let error = carry_out(&opened.session, &op, 0, &add(b"after")).await.unwrap_err();
                assert!(!error.outcome_unknown(), "{error}");
                assert!(opened.store.read_only().unwrap().contains("restart the server"));
            }
            drop(opened);
            let opened = open(&disk.killed(), small_options(Fsync::Group)).await;
            let page = opened.session.get(&op, &list(0), &everything()).await.unwrap();
            let has = |value: &[u8]| page.items.iter().any(|item| *item.value == *value);
            assert_eq!((has(b"before"), has(b"during"), has(b"after")), (true, !known, known), "{fault:?}");
        }
    });
}

/// A removal that works in parts must not report that it removed nothing once a part is gone.
#[test]
fn a_removal_that_fails_after_its_first_part_has_an_unknown_outcome() {
    const ITEMS: u64 = 8_000;
    const OLDEST: &[u8] = b"the oldest item";
    const TTL_SECS: u64 = 10 * ITEMS;
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let (op, session) = (operation(START, TTL_SECS), &opened.session);
        for first in (0..ITEMS).step_by(1_000) {
            let items = (first..first + 1_000)
                .map(|n| item(START - n * SECOND, format!("item {n:011}").as_bytes(), TTL_SECS))
                .collect();
            session.add(&op, &list(0), items).await.unwrap();
        }
        session.add(&op, &list(0), vec![item(START - ITEMS * SECOND, OLDEST, TTL_SECS)]).await.unwrap();
        opened.store.flush().unwrap();
        // No compaction is due that would write the oldest item itself.
        opened.store.compact().unwrap();
        let stored = async || session.count(&op, &list(0), &Bounds::ALL, 2 * ITEMS).await.unwrap().items;
        assert_eq!(stored().await, ITEMS + 1);

        disk.fail_write_of(OLDEST, WriteFault::Fails { lost: 0 });
        let all = Removal::Between(Bounds::ALL);
        let error = session.remove(&op, &list(0), &all).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
        disk.heal_writes();
        until(|| opened.store.read_only().is_none()).await;
        let left = stored().await;
        assert!((1..=ITEMS).contains(&left), "{left} items are left");
        assert_eq!(session.remove(&op, &list(0), &all).await.unwrap(), left);
        assert_eq!(stored().await, 0);
    });
}

#[test]
fn a_panic_of_the_logs_thread_ends_writing_and_not_reading() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = operation(START, 600);
        carry_out(&opened.session, &op, 0, &add(b"before")).await.unwrap();
        disk.fail_write_of(b"during", WriteFault::Panics);
        let error = carry_out(&opened.session, &op, 0, &add(b"during")).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
        until(|| opened.store.read_only().is_some_and(|why| why.contains("restart the server"))).await;
        let error = carry_out(&opened.session, &op, 0, &add(b"after")).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { outcome_unknown: false, .. }), "{error}");
        let page = opened.session.get(&op, &list(0), &everything()).await.unwrap();
        assert_eq!(page.items.len(), 1);
    });
}

#[test]
fn a_failed_fsync_stops_interval_mode_too() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Interval(Duration::from_millis(1)))).await;
        disk.fail_syncs();
        let op = operation(START, 600);
        // It may be acknowledged before the fsync: this mode allows that.
        let _either = carry_out(&opened.session, &op, 0, &add(b"x")).await;
        until(|| opened.store.read_only().is_some()).await;
        let error = carry_out(&opened.session, &op, 0, &Change::RemoveAll).await.unwrap_err();
        assert!(!error.outcome_unknown(), "{error}");
    });
}

#[test]
fn a_write_past_its_deadline_is_not_begun() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let mut late = operation(START, 600);
        late.deadline = tokio::time::Instant::now();
        let error = carry_out(&opened.session, &late, 0, &add(b"late")).await;
        assert!(matches!(error, Err(StoreError::Timeout { .. } | StoreError::Overloaded { .. })), "{error:?}");
    });
}

#[test]
fn a_closed_store_refuses_writes() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        opened.store.close().await.unwrap();
        let error = carry_out(&opened.session, &operation(START, 600), 0, &Change::RemoveAll).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { outcome_unknown: false, .. }), "{error}");
    });
}

#[test]
fn adds_wait_for_a_slow_flusher_within_bounds_and_reads_do_not() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let options = EmbeddedOptions { log_segment_bytes: 1 << 20, ..small_options(Fsync::Group) };
        let opened = open(&disk, options).await;
        disk.hold_data_files(true);
        let mut added = 0_u64;
        let refused = loop {
            let value = |i: u64| [vec![7; 100], i.to_string().into_bytes()].concat();
            let items = (0..100).map(|i| item(START - 100 * added - i, &value(i), 60)).collect();
            let mut op = operation(START, 600);
            op.deadline = tokio::time::Instant::now() + Duration::from_secs(3);
            match opened.session.add(&op, &list(0), items).await {
                Ok(()) => added += 1,
                Err(error) => break error,
            }
            // One map that is being flushed and twice that in the active one, of 256 KiB each.
            assert!(added * 100 * 100 < 4 << 20, "adds never wait");
        };
        assert!(matches!(refused, StoreError::Overloaded { .. } | StoreError::Timeout { .. }), "{refused}");
        let op = operation(START, 600);
        let page = opened.session.get(&op, &list(0), &newest(50)).await.unwrap();
        assert_eq!(page.items.len(), 50);
        disk.hold_data_files(false);
        for _ in 0..20 {
            opened.session.add(&op, &list(0), vec![item(START, b"goes on", 60)]).await.unwrap();
        }
    });
}

#[test]
fn a_data_file_without_room_leaves_nothing_behind() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = operation(START, 600);
        carry_out(&opened.session, &op, 0, &add(b"pending")).await.unwrap();
        let before = disk.files();
        disk.leave_free(Some(100));
        for _ in 0..3 {
            // It is tried again each second.
            let error = opened.store.flush().unwrap_err();
            assert!(error.to_string().contains("cannot write data files"), "{error}");
            assert_eq!(disk.files(), before);
        }
        disk.leave_free(None);
        until(|| opened.store.read_only().is_none()).await;
        opened.store.flush().unwrap();
    });
}

/// No other thread does the work of a thread that panicked: adds would wait for it until they time out.
#[test]
fn a_panic_of_a_background_thread_ends_writing_and_not_reading() {
    let slow = Fsync::Interval(Duration::from_secs(1));
    let cases: [(Fsync, &[u8], &str); 3] = [
        (Fsync::Group, b"LISTITEM", "items-flush"),
        (Fsync::Group, b"LISTITEM", "items-compact"),
        (slow, b"LISTLOG", "items-ahead"),
    ];
    for (fsync, written, thread) in cases {
        runtime().block_on(async {
            let disk = SimDisk::default();
            let opened = open(&disk, small_options(fsync)).await;
            let op = operation(START, 600);
            if thread != "items-ahead" {
                carry_out(&opened.session, &op, 0, &add(b"before")).await.unwrap();
            }
            if thread == "items-compact" {
                opened.store.flush().unwrap();
            }
            disk.fail_write_of(written, WriteFault::Panics);
            match thread {
                "items-flush" => drop(opened.store.flush().unwrap_err()),
                "items-compact" => drop(opened.store.compact().unwrap_err()),
                // More than half of a segment: the next one is made ready.
                _ => drop(carry_out(&opened.session, &op, 0, &add(&[b'v'; 2_500])).await.unwrap()),
            }
            until(|| opened.store.read_only().is_some_and(|why| why.contains(thread))).await;
            let error = carry_out(&opened.session, &op, 0, &add(b"after")).await.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { outcome_unknown: false, .. }), "{thread}: {error}");
            let page = opened.session.get(&op, &list(0), &everything()).await.unwrap();
            assert_eq!(page.items.len(), 1);
        });
    }
}
