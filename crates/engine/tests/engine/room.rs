//! A nearly full disk. Adds end while a reserve is left; removals are accepted, also then; and their space is freed,
//! so that adds are accepted again, without a new start. A compaction without room stops nothing.

use std::time::Duration;

use liststore::items::embedded::{EmbeddedOptions, Fsync, ListHash};
use liststore::items::{ItemStore, StoreError};

use crate::harness::{DEADLINE, Opened, START, everything, item, list, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;

const VALUE_BYTES: usize = 2_000;
/// A list of these many items is twice as large as the room that is left then.
const ROOM_BYTES: usize = 6 << 20;

fn options() -> EmbeddedOptions {
    EmbeddedOptions { data_file_bytes: 64 << 10, log_segment_bytes: 64 << 10, ..small_options(Fsync::Group) }
}

/// Neighbours have different values, so that each is stored.
const VALUES: u64 = 300;

fn value(n: u64) -> Vec<u8> {
    let mut value = vec![b'x'; VALUE_BYTES];
    value[..8].copy_from_slice(&(n % VALUES).to_le_bytes());
    value
}

async fn add(opened: &Opened, n: u64) -> Result<(), StoreError> {
    opened.session.add(&operation(START, 600), &list(0), vec![item(START - n, &value(n), 600)]).await
}

/// Adds to one list until a refusal, and returns the number of added items.
async fn fill(disk: &SimDisk, opened: &Opened) -> u64 {
    disk.leave_free(Some(ROOM_BYTES));
    let mut n = 0;
    loop {
        let Err(refused) = add(opened, n).await else {
            n += 1;
            continue;
        };
        let reported = refused.to_string();
        assert!(
            reported.contains("adds are refused, removals are accepted") && reported.contains("KiB left"),
            "{reported}"
        );
        assert!(matches!(refused, StoreError::Unavailable { outcome_unknown: false, .. }) && refused.is_retryable());
        // The room is measured again, and a compaction may have freed enough for more adds.
        let Some(reason) = opened.store.read_only() else { continue };
        assert!(reason.contains("adds are refused") && reason.contains("KiB left"), "{reason}");
        return n;
    }
}

async fn adds_are_accepted_again(opened: &Opened, n: u64) {
    let taken = tokio::time::timeout(DEADLINE, async {
        while add(opened, n).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    taken.await.expect("adds are never taken again");
    assert_eq!(opened.store.read_only(), None);
}

async fn count(opened: &Opened) -> u64 {
    opened.session.get(&operation(START, 600), &list(0), &everything()).await.unwrap().items.len() as u64
}

#[test]
fn a_list_larger_than_the_free_space_is_removed_and_its_space_is_freed() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let mut opened = open(&disk, options()).await;
        for round in 0..3 {
            let added = fill(&disk, &opened).await;
            assert!(added as usize * VALUE_BYTES > ROOM_BYTES / 2, "{added}");
            assert_eq!(count(&opened).await, added, "round {round}");
            if round == 1 {
                drop(opened);
                opened = open(&disk, options()).await;
                assert_eq!(count(&opened).await, added);
            }
            opened.session.remove_all(&operation(START, 600), &list(0)).await.unwrap();
            assert_eq!(count(&opened).await, 0);
            adds_are_accepted_again(&opened, 0).await;
            opened.session.remove_all(&operation(START, 600), &list(0)).await.unwrap();
        }
    });
}

#[test]
fn removals_by_value_of_a_part_of_a_list_free_space() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, options()).await;
        let added = fill(&disk, &opened).await;
        let op = operation(START, 600);
        let mut left = added;
        for n in (0..VALUES).step_by(2) {
            let removed = opened.session.remove_value(&op, &list(0), &value(n)).await.unwrap();
            assert_eq!(removed, (n..added).step_by(VALUES as usize).count() as u64);
            left -= removed;
        }
        assert_eq!(count(&opened).await, left);
        adds_are_accepted_again(&opened, added).await;
        assert_eq!(count(&opened).await, left + 1);
    });
}

/// Other programs can use the store's reserve. Then only compactions wait, while a partition has few runs.
#[test]
fn a_compaction_without_room_blocks_no_write_and_continues_later() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, EmbeddedOptions { list_hash: ListHash::Of(|_| 42), ..options() }).await;
        for round in 0..6 {
            for n in 0..40 {
                add(&opened, round * 40 + n).await.unwrap();
            }
            opened.store.flush().unwrap();
        }
        disk.fail_compactions(true);
        opened.store.compact().unwrap_err();
        assert_eq!(opened.store.read_only(), None);
        for round in 6..9 {
            for n in 0..40 {
                add(&opened, round * 40 + n).await.unwrap();
            }
            opened.store.flush().unwrap();
            assert_eq!(opened.store.read_only(), None);
        }
        assert_eq!(count(&opened).await, 9 * 40);
        disk.fail_compactions(false);
        opened.store.compact().unwrap();
        assert_eq!(count(&opened).await, 9 * 40);
    });
}
