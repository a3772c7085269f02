//! A separate thread prepares the log's next segment, in either mode: the log's thread would have to wait for syncs.

use std::time::Duration;

use liststore::items::ItemStore;
use liststore::items::embedded::Fsync;

use crate::harness::{DEADLINE, START, everything, item, list, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;

#[test]
fn the_next_segment_exists_before_the_present_one_is_full() {
    for fsync in [Fsync::Group, Fsync::Interval(Duration::from_secs(3_600))] {
        runtime().block_on(async {
            let disk = SimDisk::default();
            let opened = open(&disk, small_options(fsync)).await;
            let op = operation(START, 600);
            // A segment has 4 KiB.
            let add = async |n| opened.session.add(&op, &list(0), vec![item(START - n, &[b'v'; 1_000], 600)]).await;
            let is_log = |path: &&std::path::PathBuf| path.extension().is_some_and(|extension| extension == "log");
            let segments = || disk.files().iter().filter(is_log).count();
            let before = segments();
            for n in 0..3 {
                add(n).await.unwrap();
            }
            let another = async {
                while segments() == before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(DEADLINE, another).await.expect("the next segment is not prepared");
            for n in 3..10 {
                add(n).await.unwrap();
            }
            let found = opened.session.get(&op, &list(0), &everything()).await.unwrap();
            assert_eq!(found.items.len(), 10);
            opened.store.close().await.unwrap();
        });
    }
}
