//! Compactions work in steps, each of which leaves one file of bounded size: after an interruption at any step, the
//! lists are unchanged, and so they are after its completion.

use std::time::Duration;

use liststore::domain::{Item, Order};
use liststore::items::Range;
use liststore::items::embedded::{EmbeddedOptions, Fsync, ListHash, verify_on};

use crate::harness::{
    Change, DEADLINE, DIR, Model, Opened, START, carry_out, everything, item, list, newest, open, operation,
    random_change, runtime, small_options,
};
use crate::sim_disk::{Rng, SimDisk};

pub const LISTS: u64 = 3;

/// All in one partition.
pub const APART: ListHash = ListHash::Of(|bytes| u64::from(crc32c::crc32c(bytes)));
pub const COLLIDING: ListHash = ListHash::Of(|_| 42);

pub fn options(list_hash: ListHash, data_file_bytes: u64) -> EmbeddedOptions {
    EmbeddedOptions { list_hash, data_file_bytes, log_segment_bytes: 1 << 20, ..small_options(Fsync::Group) }
}

pub async fn check(opened: &Opened, model: &Model, context: &str) {
    let op = operation(START, 600);
    for i in 0..LISTS {
        let expected = model.page(i, &op, &everything());
        let found = opened.session.get(&op, &list(i), &everything()).await.unwrap();
        assert_eq!(found, expected, "{context}, list {i}");
        // Page by page, so that reading begins in the middle of files, and of ties.
        for order in [Order::Newest, Order::Oldest] {
            let limit = 3 + expected.items.len() / 64;
            let (mut range, mut walked) = (Range { order, ..newest(limit) }, Vec::new());
            loop {
                let page = opened.session.get(&op, &list(i), &range).await.unwrap();
                range.after = page.items.last().map(Item::key);
                walked.extend(page.items);
                if !page.more {
                    break;
                }
            }
            if order == Order::Oldest {
                walked.reverse();
            }
            assert_eq!(walked, expected.items, "{context}, list {i}, {order:?} first, walked");
        }
    }
}

/// Runs of a partition, as the manifest has them.
fn runs(disk: &SimDisk) -> (usize, usize) {
    let manifest = String::from_utf8(disk.content(&std::path::Path::new(DIR).join("MANIFEST"))).unwrap();
    let lines = |start: &str| manifest.lines().filter(|line| line.starts_with(start)).count();
    (lines("run "), lines("trim "))
}

/// Interrupts a compaction after each number of its operations. Returns how often it was in the middle, and the bytes
/// that it adopts without an interruption.
pub async fn broken_off_everywhere(
    disk: &SimDisk,
    options: &EmbeddedOptions,
    model: &Model,
    every: u64,
    context: &str,
) -> (usize, u64) {
    let (mut stopped_after, mut in_the_middle) = (0, 0);
    loop {
        let disk = disk.copy();
        disk.hold_compactions(true);
        let opened = open(&disk, options.clone()).await;
        disk.stop_after(stopped_after);
        disk.hold_compactions(false);
        let done = opened.store.compact().is_ok();
        let adopted = opened.counted("liststore_compaction_taken_over_bytes_total");
        drop(opened);
        let disk = disk.killed();
        let context = format!("{context}, stopped after {stopped_after}");
        disk.hold_compactions(true);
        let opened = open(&disk, options.clone()).await;
        in_the_middle += usize::from(runs(&disk).1 > 0);
        check(&opened, model, &context).await;
        disk.hold_compactions(false);
        check(&opened, model, &context).await;
        opened.store.compact().unwrap();
        check(&opened, model, &context).await;
        drop(opened);
        let problems = verify_on(&disk, std::path::Path::new("/data"), options.list_hash).unwrap().problems;
        assert!(problems.is_empty(), "{context}: {problems:?}");
        if done {
            return (in_the_middle, adopted);
        }
        stopped_after += every;
    }
}

/// Fills a disk with several runs.
pub async fn filled(options: &EmbeddedOptions, changes: impl Iterator<Item = Vec<(u64, Change)>>) -> (SimDisk, Model) {
    let (disk, mut model) = (SimDisk::default(), Model::default());
    disk.hold_compactions(true);
    let opened = open(&disk, options.clone()).await;
    for changes in changes {
        for (list, change) in changes {
            carry_out(&opened.session, &operation(START, 600), list, &change).await.unwrap();
            model.apply(list, &change);
        }
        opened.store.flush().unwrap();
    }
    let filled = disk.killed();
    disk.hold_compactions(false);
    (filled, model)
}

/// Waits until all is one run.
async fn until_one_run(disk: &SimDisk) {
    let compacted = tokio::time::timeout(DEADLINE, async {
        while runs(disk) != (1, 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    compacted.await.unwrap_or_else(|_| panic!("the runs are not compacted: {:?}", runs(disk)));
}

#[test]
fn a_compaction_can_stop_after_any_step() {
    runtime().block_on(async {
        let mut in_the_middle = 0;
        for seed in 0..6 {
            let mut rng = Rng(seed);
            let hash = if rng.one_in(3) { COLLIDING } else { APART };
            let options = options(hash, [1, 400, 4_000][rng.below(3) as usize]);
            let runs = 1 + rng.below(5);
            let changes = (0..runs).map(|_| {
                (0..1 + rng.below(20)).map(|_| (rng.below(LISTS), random_change(&mut rng, START))).collect::<Vec<_>>()
            });
            let changes: Vec<_> = changes.collect();
            let (disk, model) = filled(&options, changes.into_iter()).await;
            in_the_middle += broken_off_everywhere(&disk, &options, &model, 7, &format!("seed {seed}")).await.0;
        }
        assert!(in_the_middle > 10, "{in_the_middle}");
    });
}

/// How many compactions of one partition are under way, one in front of the other.
fn compactions_under_way(disk: &SimDisk) -> usize {
    let manifest = String::from_utf8(disk.content(&std::path::Path::new(DIR).join("MANIFEST"))).unwrap();
    manifest.lines().filter(|line| line.starts_with("run ") && !line.ends_with(" 0")).count()
}

/// Runs that are added during a long compaction are compacted before it continues, and that may be interrupted, too.
#[test]
fn runs_that_arrive_during_a_compaction_are_compacted_before_it_continues() {
    runtime().block_on(async {
        let options = options(APART, 400);
        let mut two_under_way = 0;
        for seed in 0..4 {
            let mut rng = Rng(100 + seed);
            let mut some = |changes: u64| -> Vec<_> {
                (0..changes).map(|_| (rng.below(LISTS), random_change(&mut rng, START))).collect()
            };
            // Runs whose items alternate, and so take many steps.
            let apart =
                |run: u64| (0..20).map(|n| item(START - 3 * n - run, &long(&format!("{run}-{n}")), 600)).collect();
            let (disk, mut model) = filled(&options, (0..3).map(|run| vec![(0, Change::Add(apart(run)))])).await;
            disk.hold_compactions(true);
            let opened = open(&disk, options.clone()).await;
            disk.stop_after(40 + 20 * seed);
            disk.hold_compactions(false);
            opened.store.compact().unwrap_err();
            drop(opened);
            let disk = disk.killed();
            disk.hold_compactions(true);
            assert_eq!(compactions_under_way(&disk), 1);
            let opened = open(&disk, options.clone()).await;
            for _ in 0..12 {
                for (list, change) in some(4) {
                    carry_out(&opened.session, &operation(START, 600), list, &change).await.unwrap();
                    model.apply(list, &change);
                }
                opened.store.flush().unwrap();
            }
            check(&opened, &model, &format!("seed {seed}")).await;
            let filled = disk.killed();
            disk.hold_compactions(false);
            drop(opened);
            for stopped_after in (0..400).step_by(9) {
                let disk = filled.copy();
                disk.hold_compactions(true);
                let opened = open(&disk, options.clone()).await;
                disk.stop_after(stopped_after);
                disk.hold_compactions(false);
                let done = opened.store.compact().is_ok();
                drop(opened);
                let (disk, context) = (disk.killed(), format!("seed {seed}, stopped after {stopped_after}"));
                two_under_way += usize::from(compactions_under_way(&disk) > 1);
                disk.hold_compactions(true);
                let opened = open(&disk, options.clone()).await;
                check(&opened, &model, &context).await;
                disk.hold_compactions(false);
                opened.store.compact().unwrap();
                check(&opened, &model, &context).await;
                if done {
                    break;
                }
            }
        }
        assert!(two_under_way > 0, "a compaction was always waited for");
    });
}

/// So long that a file has few of them.
fn long(value: &str) -> Vec<u8> {
    [value.as_bytes(), &[b'.'; 1_000]].concat()
}

/// When the mark was dropped with the first part of the list, the items that it hid in an older run returned.
#[test]
fn items_behind_a_clear_mark_stay_hidden_when_the_list_spans_steps() {
    runtime().block_on(async {
        let items = |from: u64, count: u64| {
            Change::Add((from..from + count).map(|n| item(START - n, &long(&n.to_string()), 600)).collect())
        };
        for (newer, older) in [(40, 80), (80, 40)] {
            let options = options(APART, 100);
            // Of the newer run only a part, of the older one the whole list, is older than the mark.
            let changes = [
                vec![(0, items(500, older)), (1, items(0, 3))],
                vec![(0, Change::RemoveAll), (0, items(480, newer))],
                vec![(0, items(460, 30))],
            ];
            let (disk, model) = filled(&options, changes.into_iter()).await;
            let (in_the_middle, _) = broken_off_everywhere(&disk, &options, &model, 7, "clear mark").await;
            assert!(in_the_middle > 5, "{in_the_middle}");
        }
    });
}

/// Deleted items and the items that they hide, and ties, on both sides of each step's end.
#[test]
fn deleted_items_and_ties_on_both_sides_of_a_step_stay_unchanged() {
    runtime().block_on(async {
        let ties =
            |of: std::ops::Range<u64>| Change::Add(of.map(|n| item(START, &long(&format!("tie-{n}")), 600)).collect());
        let options = options(APART, 60);
        let remove = |n: u64| (0, Change::RemoveValue(long(&format!("tie-{n}"))));
        let changes = [
            vec![(0, ties(0..60)), (2, ties(0..5))],
            (0..60).step_by(3).map(remove).collect(),
            vec![(0, ties(9..12)), (0, ties(30..33))],
        ];
        let (disk, model) = filled(&options, changes.into_iter()).await;
        let (in_the_middle, _) = broken_off_everywhere(&disk, &options, &model, 7, "ties").await;
        assert!(in_the_middle > 5, "{in_the_middle}");
    });
}

/// A compaction without room is given up for a wider one, which adopts a file that the first has written: the input
/// that the first has consumed stays consumed. Otherwise items returned that it had dropped, if they were in the row
/// at which it was interrupted.
#[test]
fn items_dropped_by_an_abandoned_compaction_stay_dropped() {
    runtime().block_on(async {
        let value = |n: u64| [n.to_string().as_bytes(), &[b'.'; 95]].concat();
        let rising =
            |numbers: std::ops::Range<u64>| Change::Add(numbers.map(|n| item(START + n, &value(n), 600)).collect());
        let options = options(APART, 2_000);
        let newer = vec![(0, rising(200..300)), (0, Change::RemoveValue(value(94)))];
        let (filled, mut model) = filled(&options, [vec![(0, rising(0..100))], newer].into_iter()).await;
        // In the middle of the older run, of which the compaction has dropped an item, and behind all of the newer one.
        let mut stopped = None;
        for operations in 1..60 {
            let disk = filled.copy();
            disk.hold_compactions(true);
            let opened = open(&disk, options.clone()).await;
            disk.stop_after(operations);
            disk.hold_compactions(false);
            opened.store.compact().ok();
            drop(opened);
            let disk = disk.killed();
            if runs(&disk) == (2, 1) && compactions_under_way(&disk) == 1 {
                stopped = Some(disk);
                break;
            }
        }
        let disk = stopped.unwrap();
        disk.fail_compactions(true);
        let opened = open(&disk, options).await;
        carry_out(&opened.session, &operation(START, 600), 0, &rising(400..403)).await.unwrap();
        model.apply(0, &rising(400..403));
        opened.store.flush().unwrap();
        check(&opened, &model, "without room").await;
        disk.fail_compactions(false);
        until_one_run(&disk).await;
        check(&opened, &model, "compacted").await;
    });
}
