//! Erased bytes leave data files, the log and its spare segments until a date, also of a store without writes.

use std::time::Duration;

use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::{ByteErasure, ItemStore};

use crate::harness::{Opened, SECOND, START, at, everything, item, list, open, operation, runtime, small_options};
use crate::sim_disk::{SimDisk, WriteFault};

const ERASED: &[u8] = b"these bytes are erased";

fn within(erase_within: Duration) -> EmbeddedOptions {
    EmbeddedOptions { erase_within, ..small_options(Fsync::Group) }
}

/// Two lists in files and in the log, and other lists.
async fn fill(opened: &Opened) {
    for number in 0..40 {
        let value = if number < 2 { ERASED } else { b"these stay" };
        for n in 0..10 {
            let items = vec![item(START + n, value, 3_600), item(START + n, &[value, b"!"].concat(), 3_600)];
            opened.session.add(&operation(START, 3_600), &list(number), items).await.unwrap();
            if n == 5 {
                opened.store.flush().unwrap();
            }
        }
    }
}

async fn remove(opened: &Opened) {
    for number in 0..2 {
        opened.session.remove_all(&operation(START, 3_600), &list(number)).await.unwrap();
    }
}

fn holds(disk: &SimDisk) -> bool {
    disk.contents().iter().any(|(_, content)| content.windows(ERASED.len()).any(|bytes| bytes == ERASED))
}

/// Below the minute after which erasure looks for bytes that nothing announced.
const PATIENCE: Duration = Duration::from_secs(45);

async fn until_erased(disk: &SimDisk) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while holds(disk) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("a file still holds erased bytes");
}

async fn assert_others_remain(opened: &Opened) {
    for number in 0..40 {
        let page = opened.session.get(&operation(START, 3_600), &list(number), &everything()).await.unwrap();
        assert_eq!(page.items.len(), if number < 2 { 0 } else { 20 }, "list {number}");
    }
}

#[test]
fn erased_bytes_leave_all_files_until_the_promised_date() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, within(Duration::from_millis(200))).await;
        for _ in 0..2 {
            fill(&opened).await;
            remove(&opened).await;
            assert!(holds(&disk));
            let by = opened.store.erase_in_time().unwrap();
            assert_eq!(by, Some(at(START + SECOND / 5)));
            until_erased(&disk).await;
            assert_others_remain(&opened).await;
        }
        opened.store.close().await.unwrap();
    });
}

#[test]
fn a_start_keeps_the_promise_of_a_store_that_was_closed_or_killed() {
    runtime().block_on(async {
        for is_killed in [true, false] {
            let mut disk = SimDisk::default();
            let opened = open(&disk, within(Duration::from_secs(3_600))).await;
            fill(&opened).await;
            remove(&opened).await;
            assert_eq!(opened.store.erase_in_time().unwrap(), Some(at(START + 3_600 * SECOND)));
            if is_killed {
                disk = disk.killed();
            } else {
                opened.store.close().await.unwrap();
            }
            drop(opened);
            assert!(holds(&disk));
            let opened = open(&disk, within(Duration::from_millis(200))).await;
            until_erased(&disk).await;
            assert_others_remain(&opened).await;
            opened.store.close().await.unwrap();
        }
    });
}

/// Without a stored date, a restart would not know of the promise.
#[test]
fn a_date_is_promised_only_once_it_is_stored() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, within(Duration::from_secs(3_600))).await;
        fill(&opened).await;
        remove(&opened).await;
        disk.fail_write_of(b"erase-by", WriteFault::Fails { lost: 0 });
        let error = opened.store.erase_in_time().unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert_eq!(opened.store.erase_in_time().unwrap(), Some(at(START + 3_600 * SECOND)));
        opened.store.close().await.unwrap();
    });
}
