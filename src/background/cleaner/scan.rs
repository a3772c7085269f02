//! Finds swaps of bags that a server has left unfinished.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Cleaner;
use crate::actors::{ListPool, MetadataHandle};
use crate::items::{BagSwaps, SwapId, SwapScan, UnfinishedSwap};

const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a server may work on a swap before another one repairs it. The time counts from the first check that sees
/// it, so no clocks of two servers are compared. Each further repair waits twice as long, because a swap may be made
/// after a repair.
const PATIENCE: Duration = Duration::from_secs(1);
/// It is not forgotten before, so that none is forgotten that is made only then: once an operation is at its deadline a
/// database is at work on its write for some 12 s yet.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);
const SCAN_TIMEOUT: Duration = Duration::from_secs(2);
/// Recent swaps that are tracked. The others are repaired once they are no longer recent.
const SEEN_MAX: usize = 100_000;

/// Scans until it is dropped, as long as there are indexes.
pub(super) async fn scan_swaps(cleaner: &Cleaner, metadata: &MetadataHandle, lists: &ListPool) {
    if lists.bag_swaps() == BagSwaps::Atomic {
        return;
    }
    let (mut scan, mut seen) = (SwapScan::default(), Seen::default());
    loop {
        // A server without all indexes could treat an unfinished swap as finished. Noted swaps stay noted.
        while !has_indexes(metadata) || !metadata.is_in_step() || cleaner.has_much_to_do() {
            sleep(CHECK_INTERVAL).await;
        }
        let found = match lists.unfinished_swaps(scan.clone(), Instant::now() + SCAN_TIMEOUT).await {
            Ok(page) => {
                scan = page.scan;
                page.swaps
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read unfinished bag swaps");
                sleep(CHECK_INTERVAL).await;
                Vec::new()
            }
        };
        for swap in found {
            match seen.decide(&swap, scan.number, Instant::now()) {
                ToDo::Nothing => {}
                ToDo::Repair => cleaner.swap(swap, false),
                ToDo::RepairAndForget => cleaner.swap(swap, true),
            }
        }
        if scan.is_over() {
            seen.end_of(scan.number);
            sleep(CHECK_INTERVAL).await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToDo {
    Nothing,
    Repair,
    RepairAndForget,
}

/// The known swaps that may be in progress.
#[derive(Debug, Default)]
struct Seen(HashMap<SwapId, SeenSwap>);

#[derive(Debug)]
struct SeenSwap {
    since: Instant,
    /// The age at its next repair, while it is noted.
    repaired_at_age: Duration,
    /// The last check that found it.
    found_by: u64,
}

impl Seen {
    fn decide(&mut self, swap: &UnfinishedSwap, scan: u64, now: Instant) -> ToDo {
        if !swap.is_recent || swap.entered_in.is_some() {
            return ToDo::RepairAndForget;
        }
        let Self(known) = self;
        if known.len() >= SEEN_MAX && !known.contains_key(&swap.id) {
            return ToDo::Nothing;
        }
        let known =
            known.entry(swap.id.clone()).or_insert(SeenSwap { since: now, repaired_at_age: PATIENCE, found_by: scan });
        known.found_by = scan;
        let age = now.duration_since(known.since);
        if age >= FORGOTTEN_AFTER {
            ToDo::RepairAndForget
        } else if age >= known.repaired_at_age {
            known.repaired_at_age = 2 * age;
            ToDo::Repair
        } else {
            ToDo::Nothing
        }
    }

    /// A swap that a check did not find is finished, unless it was unreadable. Then the next check repeats this.
    fn end_of(&mut self, scan: u64) {
        self.0.retain(|_, known| known.found_by + 1 >= scan);
    }
}

fn has_indexes(metadata: &MetadataHandle) -> bool {
    let snapshot = metadata.catalog().snapshot();
    snapshot.is_some_and(|snapshot| snapshot.versions().any(|version| version.index.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, Generation, ListKey, VersionLabel};

    fn swap(id: u128, is_recent: bool) -> UnfinishedSwap {
        let bags = FeatureId::of_bags(EntityType::new("t").unwrap());
        let key = FeatureKey::new(&bags, &VersionLabel::default_version(), Generation::FIRST);
        let id = SwapId::new(id.to_be_bytes().to_vec());
        let bag = ListKey::new(key, EntityId::new("e").unwrap());
        UnfinishedSwap { id, bag, entries: Vec::new(), is_recent, entered_in: None }
    }

    #[test]
    fn swaps_in_progress_are_repaired_rarely_and_forgotten_late() {
        let (mut seen, began) = (Seen::default(), Instant::now());
        let mut at = |secs: u64| seen.decide(&swap(1, true), 1, began + Duration::from_secs(secs));
        assert_eq!([0, 1, 1, 2, 3, 4, 29].map(&mut at), {
            use ToDo::{Nothing, Repair};
            [Nothing, Repair, Nothing, Repair, Nothing, Repair, Repair]
        });
        assert_eq!([30, 31].map(at), [ToDo::RepairAndForget; 2]);
    }

    #[test]
    fn finished_swaps_are_forgotten_at_once() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        assert_eq!(seen.decide(&swap(1, false), 1, now), ToDo::RepairAndForget);
        let entered = UnfinishedSwap { entered_in: Some(Vec::new()), ..swap(2, true) };
        assert_eq!(seen.decide(&entered, 1, now), ToDo::RepairAndForget);
        assert!(seen.0.is_empty());
    }

    #[test]
    fn swaps_missed_by_two_scans_are_dropped_and_followed_ones_are_bounded() {
        let (mut seen, began) = (Seen::default(), Instant::now());
        assert_eq!(seen.decide(&swap(0, true), 1, began), ToDo::Nothing);
        for id in 1..=SEEN_MAX as u128 {
            seen.decide(&swap(id, true), 2, began);
        }
        assert_eq!(seen.0.len(), SEEN_MAX);
        seen.end_of(2);
        assert_eq!(seen.0.len(), SEEN_MAX);
        seen.end_of(3);
        assert_eq!(seen.0.len(), SEEN_MAX - 1);
        seen.end_of(4);
        assert!(seen.0.is_empty());
    }
}
