//! Selects the runs of a partition for compaction. The goals are few runs for readers, few written bytes, and freed
//! space where much of the stored data is invisible.

use std::ops::Range;

use super::census::Droppable;
use crate::files::run::RUNS_MAX;
use crate::files::run::Run;

/// The number of runs of similar size that are compacted together.
const FAN: usize = 4;

/// The content of a run, and the part of it, or of older runs, that a compaction frees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    pub bytes: u64,
    /// Items, including deleted ones.
    pub items: u64,
    /// Deleted items and clear marks.
    pub deleted: u64,
    /// Bytes of files in which half of the items have expired.
    pub expired: u64,
    /// Bytes of older runs that it hides.
    pub hides: u64,
    /// Bytes of lists without a definition.
    pub unreachable: u64,
    /// Bytes of items beyond the bounds of their lists.
    pub beyond: u64,
}

impl Weight {
    /// `now` in nanoseconds since the Unix epoch.
    pub fn of(run: &Run, Droppable { unreachable, beyond }: Droppable, now: u64) -> Self {
        let mut weight = Self { unreachable, beyond, ..Self::default() };
        for file in &run.files {
            let summary = &file.file.summary;
            weight.bytes += file.file.bytes;
            weight.items += summary.items;
            weight.deleted += summary.deleted;
            weight.expired += if summary.half_expired_at <= now { file.file.bytes } else { 0 };
            weight.hides += file.hides;
        }
        weight
    }
}

/// Bytes of these runs, newest first, that newer runs among them hide.
fn hidden(runs: &[Weight]) -> u64 {
    let mut older: u64 = runs.iter().map(|run| run.bytes).sum();
    let hidden = runs.iter().map(|run| {
        older -= run.bytes;
        run.hides.min(older)
    });
    hidden.sum()
}

/// The bytes that a compaction of these runs frees, newest first, with nothing older: an estimate. `None` for nothing.
pub fn gives_back(runs: &[Weight]) -> Option<u64> {
    let sum = |of: fn(&Weight) -> u64| runs.iter().map(of).sum::<u64>();
    let share = |bytes: u64, part: u64, whole: u64| {
        u64::try_from(u128::from(bytes) * u128::from(part) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
    };
    // The entry that hides an item is dropped, and usually an item with it.
    let deleted = share(sum(|run| run.bytes), sum(|run| run.deleted), sum(|run| run.items));
    let hiding = runs.iter().map(|run| share(run.bytes, run.deleted, run.items)).sum::<u64>();
    let found =
        deleted + hiding + sum(|run| run.expired).div_ceil(2) + sum(|run| run.unreachable + run.beyond) + hidden(runs);
    let any = found > 0 || runs.iter().any(|run| run.deleted > 0);
    any.then_some(found)
}

/// Selects neighbouring runs of a partition for compaction, newest first. If space is scarce, selects everything that
/// frees any.
pub fn pick(runs: &[Weight], scarce: bool) -> Option<Range<usize>> {
    let (oldest, newer) = runs.split_last()?;
    let all = 0..runs.len();
    let bytes = |runs: &[Weight]| runs.iter().map(|run| run.bytes).sum::<u64>();
    if !newer.is_empty() && bytes(newer) >= oldest.bytes {
        return Some(all);
    }
    // Only a compaction with the oldest run drops deleted, hidden or expired items, so that alone is a reason for it.
    let sum = |of: fn(&Weight) -> u64| runs.iter().map(of).sum::<u64>();
    let quarter = |part: u64, whole: u64| part > 0 && part.saturating_mul(4) >= whole;
    let parts = [sum(|run| run.expired), sum(|run| run.unreachable), sum(|run| run.beyond), hidden(runs)];
    let worthwhile = quarter(sum(|run| run.deleted), sum(|run| run.items))
        || parts.into_iter().any(|part| quarter(part, bytes(runs)));
    if worthwhile || scarce && gives_back(runs).is_some() {
        return Some(all);
    }
    let mut count = 1;
    while runs.get(count).is_some_and(|next| next.bytes <= bytes(&runs[..count])) {
        count += 1;
    }
    if count >= FAN {
        return Some(0..count);
    }
    // Small runs before larger ones would accumulate to `RUNS_MAX`, and then the flusher waits for a compaction. So one
    // must run. It writes less than the size of the oldest run.
    (runs.len() >= RUNS_MAX / 2).then_some(0..newer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(sizes: &[u64]) -> Option<Range<usize>> {
        let runs: Vec<_> =
            sizes.iter().map(|bytes| Weight { bytes: *bytes, items: 100, ..Weight::default() }).collect();
        pick(&runs, false)
    }

    #[test]
    fn all_files_are_compacted_when_the_newer_ones_outweigh_the_oldest() {
        assert_eq!(picked(&[]), None);
        assert_eq!(picked(&[4]), None);
        assert_eq!(picked(&[4, 4]), Some(0..2));
        assert_eq!(picked(&[4, 8]), None);
        assert_eq!(picked(&[4, 4, 4, 13]), None);
        assert_eq!(picked(&[4, 4, 4, 12]), Some(0..4));
    }

    #[test]
    fn four_files_of_one_size_are_compacted() {
        assert_eq!(picked(&[4, 4, 4, 100]), None);
        assert_eq!(picked(&[4, 4, 4, 4, 100]), Some(0..4));
        assert_eq!(picked(&[4, 4, 4, 4, 16, 100]), Some(0..5));
        assert_eq!(picked(&[4, 16, 100]), None);
    }

    #[test]
    fn files_never_pile_up_at_any_sizes() {
        // Each newer run a little smaller, the oldest larger than all of them.
        let falling: Vec<u64> = (100..100 + RUNS_MAX as u64 / 2 - 1).chain([1_000_000]).collect();
        assert_eq!(picked(&falling[1..]), None);
        assert_eq!(picked(&falling), Some(0..RUNS_MAX / 2 - 1));
    }

    proptest::proptest! {
        #[test]
        fn the_flusher_only_waits_for_compactions_that_run(
            sizes in proptest::collection::vec(1_u64..1_000_000, RUNS_MAX..RUNS_MAX + 4),
        ) {
            let range = picked(&sizes);
            proptest::prop_assert!(range.is_some_and(|range| range.start == 0 && range.len() > 1));
        }
    }

    #[test]
    fn a_partition_full_of_dead_items_is_rewritten() {
        let sound = Weight { bytes: 100, items: 100, ..Weight::default() };
        let pick_two = |newer: Weight, oldest: Weight, scarce| pick(&[Weight { bytes: 1, ..newer }, oldest], scarce);
        assert_eq!(pick_two(sound, sound, true), None);
        for part in 1..=100 {
            let worthwhile = (part >= 26).then_some(0..2);
            let any = Some(0..2);
            let dead = [
                Weight { expired: part, ..sound },
                Weight { unreachable: part, ..sound },
                Weight { beyond: part, ..sound },
            ];
            for oldest in dead {
                assert_eq!(
                    (pick_two(sound, oldest, false), pick_two(sound, oldest, true)),
                    (worthwhile.clone(), any.clone())
                );
            }
            let newer = Weight { hides: part, ..sound };
            assert_eq!((pick_two(newer, sound, false), pick_two(newer, sound, true)), (worthwhile, any));
        }
        assert_eq!(pick_two(Weight { deleted: 50, ..sound }, sound, false), Some(0..2));
        assert_eq!(pick_two(Weight { deleted: 1, ..sound }, sound, false), None);
        assert_eq!(pick_two(Weight { deleted: 1, ..sound }, sound, true), Some(0..2));
        // There is nothing older that it could hide.
        assert_eq!(pick(&[Weight { hides: 100, ..sound }], true), None);
    }
}
