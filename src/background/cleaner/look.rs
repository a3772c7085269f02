//! Looks for swaps of bags that somebody has left unfinished.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Cleaner;
use crate::actors::{ListPool, MetadataHandle};
use crate::items::SwapId;

const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Whoever is at work on a swap has this long before it is mended. It counts from when it is first seen: no clocks of
/// two servers are compared. It is mended again after twice as long each time, for a swap may be made after that.
const PATIENCE: Duration = Duration::from_secs(1);
/// It is not forgotten before, so that none is forgotten that is made only then: once an operation is at its deadline a
/// database is at work on its write for some 12 s yet.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks until it is dropped, for as long as there are indexes.
pub(super) async fn look_for_swaps(cleaner: &Cleaner, metadata: &MetadataHandle, lists: &ListPool) {
    if !lists.leaves_swaps() {
        return;
    }
    // What is known of swaps that were seen lately: as many as one look tells of at most.
    let mut seen: HashMap<SwapId, Seen> = HashMap::new();
    let mut look = 0;
    loop {
        sleep(LOOK_INTERVAL).await;
        if !has_indexes(metadata) {
            continue;
        }
        let began = Instant::now();
        let found = match lists.unfinished_swaps(look, began + LOOK_TIMEOUT).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "unfinished swaps of bags cannot be looked for");
                continue;
            }
        };
        look += 1;
        seen.retain(|id, _| found.iter().any(|swap| swap.id == *id));
        for swap in found {
            let known = seen.entry(swap.id).or_insert(Seen { since: began, mended_at_age: PATIENCE });
            let age = began.duration_since(known.since);
            if !swap.is_recent || age >= FORGOTTEN_AFTER {
                cleaner.last_of_swap(swap);
            } else if age >= known.mended_at_age {
                known.mended_at_age = 2 * age;
                cleaner.swap(swap);
            }
        }
    }
}

/// What is known of a swap that may be under way.
struct Seen {
    since: Instant,
    /// When it is mended next, for as long as it is there.
    mended_at_age: Duration,
}

fn has_indexes(metadata: &MetadataHandle) -> bool {
    let snapshot = metadata.catalog().snapshot();
    snapshot.is_some_and(|snapshot| snapshot.versions().any(|version| version.index.is_some()))
}
