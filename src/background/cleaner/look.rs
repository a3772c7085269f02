//! Looks for swaps of bags that somebody has left unfinished.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Cleaner;
use crate::actors::{ListPool, MetadataHandle};
use crate::items::SwapId;

const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Whoever is at work on a swap has this long before it is mended. It counts from when it is first seen: no clocks of
/// two servers are compared.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks until it is dropped, for as long as there are indexes.
pub(super) async fn look_for_swaps(cleaner: &Cleaner, metadata: &MetadataHandle, lists: &ListPool) {
    if !lists.leaves_swaps() {
        return;
    }
    // Since when swaps are known of lately: as many as one look tells of at most.
    let mut seen: HashMap<SwapId, Instant> = HashMap::new();
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
            let since = *seen.entry(swap.id).or_insert(began);
            if !swap.is_recent || began.duration_since(since) >= PATIENCE {
                cleaner.swap(swap);
            }
        }
    }
}

fn has_indexes(metadata: &MetadataHandle) -> bool {
    let snapshot = metadata.catalog().snapshot();
    snapshot.is_some_and(|snapshot| snapshot.versions().any(|version| version.index.is_some()))
}
