//! Files of any sizes are compacted in the end: no order of them may stop the flusher, and so all writes, permanently.
//! Neither compactions nor flushes keep other threads from their cores.
//!
//! Once, on a very busy machine, an add waited until its deadline, and so did all later ones. The files of a partition
//! had reached their largest number, and no rule for compactions matched their sizes.

use std::sync::mpsc::sync_channel;

use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, Fsync, ListHash};

use crate::harness::{DEADLINE, START, item, list, open, operation, runtime};
use crate::sim_disk::SimDisk;
use crate::steps::APART;

#[test]
fn flushes_that_grow_smaller_and_smaller_do_not_stop_the_store() {
    let (disk, runtime, op) = (SimDisk::default(), runtime(), operation(START, 600));
    // All in one partition, and enough memory that nothing is flushed automatically.
    let options =
        EmbeddedOptions { list_hash: ListHash::Of(|_| 42), fsync: Fsync::Group, ..EmbeddedOptions::new("/data") };
    let opened = runtime.block_on(open(&disk, options));
    let store = &opened.store;
    let mut added = 0;
    for flush in 0..40 {
        // At first one file that is larger than all others together.
        let count = if flush == 0 { 8_000 } else { 200 - 4 * flush };
        let items: Vec<_> = (added..added + count).map(|n| item(START - n, b"some value", 600)).collect();
        added += count;
        for items in items.chunks(1_000) {
            runtime.block_on(opened.session.add(&op, &list(0), items.to_vec())).unwrap();
        }
        let flushed = std::thread::scope(|scope| {
            let (sender, finished) = sync_channel(1);
            scope.spawn(move || sender.send(store.flush().is_ok()));
            finished.recv_timeout(DEADLINE).unwrap_or_else(|_| {
                // Lets go of the thread that waits.
                runtime.block_on(store.close()).unwrap();
                false
            })
        });
        assert!(flushed, "flush {flush} was not done");
    }
}

/// Otherwise work for callers would wait for its time slices of some milliseconds, an add for several.
#[test]
fn flushes_and_compactions_give_way_to_other_threads() {
    const LISTS: u64 = 20_000;
    const TIMES_MIN: u64 = 10;
    let (disk, runtime) = (SimDisk::default(), runtime());
    // One partition, and enough memory that nothing is flushed automatically.
    let options = EmbeddedOptions { list_hash: APART, fsync: Fsync::Group, ..EmbeddedOptions::new("/data") };
    let opened = runtime.block_on(open(&disk, options));
    // Threads give less of their time if other processes delay them, so a busy machine has several attempts.
    let (mut round, mut flush, mut compaction) = (0, 0, 0);
    while flush < TIMES_MIN || compaction < TIMES_MIN {
        assert!(round < 20, "a flush gives way {flush} times, and a compaction {compaction}");
        for n in 0..LISTS {
            let items = vec![item(START - round, b"some value", 600)];
            runtime.block_on(opened.session.add(&operation(START, 600), &list(n), items)).unwrap();
        }
        let before = opened.counted("liststore_flush_gave_way_total");
        opened.store.flush().unwrap();
        flush = flush.max(opened.counted("liststore_flush_gave_way_total") - before);
        let before = opened.counted("liststore_compaction_gave_way_total");
        opened.store.compact().unwrap();
        compaction = compaction.max(opened.counted("liststore_compaction_gave_way_total") - before);
        round += 1;
    }
}
