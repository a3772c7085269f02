//! A list with most of the writes, with rising timestamps: compactions adopt its files as they are. No read can notice
//! that, with any writes in between and with interruptions at any step.
//!
//! Once, compactions wrote all of such a list again and again, fell behind, and adds waited for them.

use std::sync::Arc;

use liststore::domain::{MaxItems, NewItem};

use liststore::items::{OpContext, Reclaim};

use crate::harness::{
    Change, Model, Opened, SECOND, START, at, carry_out, everything, item, list, open, operation, random_value, runtime,
};
use crate::sim_disk::{Rng, SimDisk};
use crate::steps::{APART, COLLIDING, LISTS, broken_off_everywhere, check, filled, options};

const WRITTEN: &str = "liststore_compaction_bytes_total";
const ADOPTED: &str = "liststore_compaction_taken_over_bytes_total";

fn value(n: u64) -> Vec<u8> {
    [format!("value-{n}").as_bytes(), &[b'.'; 90]].concat()
}

/// Items of the hot list. The moment of each is its number.
fn rising(numbers: std::ops::Range<u64>) -> Change {
    Change::Add(numbers.map(|n| item(START + n, &value(n), 600)).collect())
}

async fn change(opened: &Opened, model: &mut Model, list: u64, change: Change) {
    carry_out(&opened.session, &operation(START, 600), list, &change).await.unwrap();
    model.apply(list, &change);
}

#[test]
fn a_list_with_rising_timestamps_is_written_once() {
    runtime().block_on(async {
        let (disk, mut model) = (SimDisk::default(), Model::default());
        let opened = open(&disk, options(APART, 4_000)).await;
        for flush in 0..60 {
            change(&opened, &mut model, 0, rising(100 * flush..100 * (flush + 1))).await;
            opened.store.flush().unwrap();
        }
        opened.store.compact().unwrap();
        assert_eq!(opened.counted(WRITTEN), 0);
        assert!(opened.counted(ADOPTED) > 600_000, "{}", opened.counted(ADOPTED));
        check(&opened, &model, "compacted").await;
        drop(opened);
        check(&open(&disk.killed(), options(APART, 4_000)).await, &model, "opened again").await;
    });
}

/// Compactions rewrite few of the lists around a hot list with it.
#[test]
fn short_lists_next_to_a_long_one_are_compacted_and_it_is_not() {
    runtime().block_on(async {
        let (disk, mut model) = (SimDisk::default(), Model::default());
        let opened = open(&disk, options(APART, 4_000)).await;
        for flush in 0..40 {
            change(&opened, &mut model, 0, rising(100 * flush..100 * (flush + 1))).await;
            for other in 1..LISTS {
                change(&opened, &mut model, other, rising(flush..flush + 1)).await;
            }
            opened.store.flush().unwrap();
        }
        opened.store.compact().unwrap();
        let (written, adopted) = (opened.counted(WRITTEN), opened.counted(ADOPTED));
        assert!(written < 200_000 && adopted > 400_000, "{written} written, {adopted} adopted");
        check(&opened, &model, "compacted").await;
    });
}

/// Mostly adds whose timestamps rise or tie, and sometimes writes that prevent the adoption of files.
fn hot_changes(rng: &mut Rng, next: &mut u64) -> Vec<(u64, Change)> {
    let mut changes = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let (from, count, step) = (*next, 1 + rng.below(60), rng.below(3));
        let hot = |n: u64| item(START + (from + n * step) * SECOND / 64, &value(from + n), 600);
        changes.push((0, Change::Add((0..count).map(hot).collect())));
        *next += count * step.max(1) * rng.below(2);
        let some = START + rng.below(*next + 1) * SECOND / 64;
        let other = match rng.below(20) {
            0 => Change::RemoveAll,
            1 | 2 => Change::RemoveValue(value(rng.below(*next + 1))),
            3 => Change::Add(vec![item(some, &random_value(rng), 600)]),
            4..8 => Change::Add(vec![item(some, &value(rng.below(9)), 600)]),
            _ => continue,
        };
        let list = if rng.one_in(3) { 0 } else { 1 + rng.below(LISTS - 1) };
        changes.push((list, other));
    }
    changes
}

#[test]
fn a_compaction_that_adopts_files_can_stop_after_any_step() {
    runtime().block_on(async {
        let (mut in_the_middle, mut adopted) = (0, 0);
        for seed in 0..16 {
            let (mut rng, mut next) = (Rng(seed), 0);
            let hash = if rng.one_in(4) { COLLIDING } else { APART };
            let options = options(hash, [400, 2_000, 6_000][rng.below(3) as usize]);
            let flushes: Vec<_> = (0..2 + rng.below(6)).map(|_| hot_changes(&mut rng, &mut next)).collect();
            let (disk, model) = filled(&options, flushes.into_iter()).await;
            let context = format!("seed {seed}");
            let (middle, bytes) = broken_off_everywhere(&disk, &options, &model, 5, &context).await;
            in_the_middle += middle;
            adopted += bytes;
        }
        assert!(in_the_middle > 40 && adopted > 40_000, "{in_the_middle} times, {adopted} bytes");
    });
}

/// Items of one moment on both sides of where files end, in one flush and in several.
#[test]
fn ties_at_the_ends_of_adopted_files_stay_in_order() {
    runtime().block_on(async {
        for tied in [1, 40, 200, 1_000] {
            let of = |flush: u64| {
                let items = (150 * flush..150 * (flush + 1)).map(|n| item(START + n / tied, &value(n), 600));
                vec![(0, Change::Add(items.collect())), (1, rising(flush..flush + 1))]
            };
            let options = options(APART, 4_000);
            let (disk, model) = filled(&options, (0..4).map(of)).await;
            let context = format!("{tied} tied");
            let (in_the_middle, adopted) = broken_off_everywhere(&disk, &options, &model, 3, &context).await;
            assert!(in_the_middle > 2, "{context}: {in_the_middle}");
            // Where files of several flushes tie, they overlap.
            assert!(adopted > 10_000 || tied == 1_000, "{context}: {adopted}");
        }
    });
}

/// A deleted item disappeared with its file, and a hidden older item returned: it was between the last written item
/// and an adopted file.
#[test]
fn items_dropped_in_front_of_an_adopted_file_stay_dropped() {
    runtime().block_on(async {
        let of = |numbers: std::ops::Range<u64>| vec![(0, rising(numbers))];
        let removed = vec![(0, Change::RemoveValue(value(90))), (0, rising(100..101))];
        for newest in [removed.clone(), removed[..1].to_vec(), [vec![(1, rising(0..40))], removed].concat()] {
            let far_apart = vec![(0, rising(90..91)), (0, rising(10..11))];
            let (disk, model) = filled(&options(APART, 2_000), [of(50..80), far_apart, newest].into_iter()).await;
            broken_off_everywhere(&disk, &options(APART, 2_000), &model, 1, "dropped").await;
        }
    });
}

#[test]
fn removed_items_are_in_no_file_after_a_full_compaction() {
    runtime().block_on(async {
        let (disk, mut model) = (SimDisk::default(), Model::default());
        let opened = open(&disk, options(APART, 4_000)).await;
        for flush in 0..6 {
            change(&opened, &mut model, 0, rising(100 * flush..100 * (flush + 1))).await;
            change(&opened, &mut model, 1, rising(1_000 + 50 * flush..1_000 + 50 * (flush + 1))).await;
            opened.store.flush().unwrap();
        }
        let removed = [60, 99, 100, 101, 350];
        for n in removed {
            change(&opened, &mut model, 0, Change::RemoveValue(value(n))).await;
        }
        change(&opened, &mut model, 1, Change::RemoveAll).await;
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        check(&opened, &model, "compacted").await;
        assert!(opened.counted(ADOPTED) > 10_000);
        let holds = |n: u64| {
            let value = value(n);
            let mut files =
                disk.contents().into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "items"));
            files.any(|(_, bytes)| bytes.windows(value.len()).any(|window| window == value))
        };
        assert!(removed.into_iter().chain(1_000..1_300).all(|n| !holds(n)));
        assert!(holds(59) && holds(102));
    });
}

#[test]
fn half_expired_files_are_rewritten_and_younger_ones_are_not() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, options(APART, 4_000)).await;
        let mut model = Model::default();
        let of = |flush: u64| -> Vec<NewItem> {
            (100 * flush..100 * (flush + 1)).map(|n| item(START + n * SECOND, &value(n), 600)).collect()
        };
        for flush in 0..8 {
            change(&opened, &mut model, 0, Change::Add(of(flush))).await;
            opened.store.flush().unwrap();
        }
        // The first three flushes have expired, and of the fourth a part.
        let now = START + (600 + 310) * SECOND;
        opened.clock.set(at(now));
        opened.store.compact().unwrap();
        assert!(opened.counted("liststore_expired_items_dropped_total") >= 300);
        assert!(opened.counted(ADOPTED) > 40_000, "{}", opened.counted(ADOPTED));
        let op = operation(now, 10_000);
        let found = opened.session.get(&op, &list(0), &everything()).await.unwrap();
        assert_eq!(found, model.page(0, &op, &everything()));
        assert_eq!(found.items.len(), 489);
    });
}

#[test]
fn a_list_with_a_small_bound_adopts_no_other_files() {
    runtime().block_on(async {
        let (disk, mut model) = (SimDisk::default(), Model::default());
        let opened = open(&disk, options(APART, 4_000)).await;
        let (ttl, max_items) = (operation(START, 600).ttl, MaxItems::new(130).unwrap());
        opened.store.bound(Arc::new(move |_| Some((ttl, max_items))));
        for flush in 0..6 {
            change(&opened, &mut model, 0, rising(100 * flush..100 * (flush + 1))).await;
            opened.store.flush().unwrap();
        }
        opened.store.compact().unwrap();
        let op = OpContext { max_items: Some(max_items), ..operation(START, 600) };
        let found = opened.session.get(&operation(START, 600), &list(0), &everything()).await.unwrap();
        assert_eq!(found, model.page(0, &op, &everything()), "all else is gone");
    });
}
