//! A process that is repeatedly killed while it opens its store.
//!
//! A start that died after it had begun a segment, and before it had closed the previous one, left a contradiction: the
//! header of the new segment stated that everything before it was durable, and the previous one seemed to break off.
//! The next start reported that as damage, and refused a sound directory. It happened to servers that were killed right
//! after their start, with a log that ended in a segment without any frame.

use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, Fsync};

use crate::harness::{
    Change, START, carry_out, everything, item, list, open, operation, runtime, small_options, try_open,
};
use crate::sim_disk::{Rng, SimDisk};

/// More operations of the disk than an opening takes.
const OPERATIONS_MAX: u64 = 200;

/// Stops the disk at each operation of an opening in turn, and then at each of the next one: the state after either
/// must open with all its contents.
async fn kill_while_opening(crashed: impl Fn(&SimDisk, &mut Rng) -> SimDisk) {
    let options = small_options(Fsync::Group);
    let mut rng = Rng(1);
    let op = operation(START, 600);
    let disk = SimDisk::default();
    let opened = open(&disk, options.clone()).await;
    let items: Vec<_> = (0..50).map(|n| item(START - n, &[b'v'; 100], 600)).collect();
    carry_out(&opened.session, &op, 1, &Change::Add(items.clone())).await.unwrap();
    drop(opened);
    let mut disk = disk.killed();
    let mut completed = false;
    for first in 0..OPERATIONS_MAX {
        let once = disk.copy();
        once.stop_after(first);
        completed = try_open(&once, options.clone()).await.is_ok() && !once.has_stopped();
        let once = crashed(&once, &mut rng);
        for second in [0, 1, 2, 3, 5, 8, 13, 21] {
            let twice = once.copy();
            twice.stop_after(second);
            drop(try_open(&twice, options.clone()).await);
            let found = crashed(&twice, &mut rng);
            let opened = match try_open(&found, options.clone()).await {
                Ok(opened) => opened,
                Err(error) => panic!("killed after {first} and {second} operations: {error}"),
            };
            let page = opened.session.get(&op, &list(1), &everything()).await.unwrap();
            assert_eq!(page.items.len(), items.len(), "killed after {first} and {second} operations");
            opened.store.close().await.unwrap();
        }
        if completed {
            break;
        }
        // The log ends in more and more segments that were begun and never used.
        if first % 4 == 3 {
            disk = once;
        }
    }
    assert!(completed, "no opening came to its end");
}

#[test]
fn a_process_killed_while_it_opens_its_store_leaves_one_that_opens() {
    runtime().block_on(kill_while_opening(|disk, _| disk.killed()));
}

#[test]
fn a_loss_of_power_while_a_store_opens_leaves_one_that_opens() {
    runtime().block_on(kill_while_opening(SimDisk::crashed));
}

/// The names of the directories are as important as the files in them.
#[test]
fn a_killed_first_start_leaves_nothing_that_a_loss_of_power_damages() {
    runtime().block_on(async {
        let options = EmbeddedOptions { dir: "/srv/lists/data".into(), ..small_options(Fsync::Group) };
        let op = operation(START, 600);
        let mut completed = false;
        for operations in 0..OPERATIONS_MAX {
            let disk = SimDisk::default();
            disk.stop_after(operations);
            completed = try_open(&disk, options.clone()).await.is_ok() && !disk.has_stopped();
            let disk = disk.killed();
            let opened = try_open(&disk, options.clone()).await;
            let opened = opened.unwrap_or_else(|error| panic!("killed after {operations} operations: {error}"));
            carry_out(&opened.session, &op, 1, &Change::Add(vec![item(START, b"kept", 600)])).await.unwrap();
            let opened = open(&disk.crashed_hard(), options.clone()).await;
            let page = opened.session.get(&op, &list(1), &everything()).await.unwrap();
            assert_eq!(page.items.len(), 1, "killed after {operations} operations");
            if completed {
                break;
            }
        }
        assert!(completed, "no opening came to its end");
    });
}
