//! Replaces the tombstones of single rows by range tombstones.
//!
//! A deleted row leaves a tombstone that every read of its slice passes for `gc_grace_seconds`, and Cassandra refuses a
//! read of more than 100,000. Rows that move, such as rows of members and of index entries, and items that are removed
//! one by one leave many between few live rows. A *sweep* reads the keys of some neighbouring live rows, and deletes
//! each gap between two of them by one range tombstone. The range outranks the tombstones of single rows in it, which
//! databases then neither count nor keep.
//!
//! A range must hide nothing that is written. So its write timestamp lies before the sweep by `settled_after`: longer
//! than any operation takes. A write with such a timestamp was acknowledged before the sweep read, or never will be.
//! Acknowledged writes are read, since the sweep asks all replicas. For entries of indexes, which are hints, it asks as
//! many as other reads do.
//!
//! No read returns how many tombstones it passed. So some deletions have their neighbourhood swept, and so has
//! a read that was refused (`notes/to_sweep.rs`). Several servers need not agree on anything.
//!
//! | files | content |
//! | --- | --- |
//! | `mod` | when a place is swept, and how far |
//! | `gaps` | reading live keys, and deleting the gaps between them |

mod gaps;

use std::sync::Arc;
use std::time::Duration;

use scylla::statement::Consistency;
use tokio::time::{Instant, sleep, sleep_until};

use self::gaps::Gaps;
use crate::domain::{Order, Ttl};
use crate::items::cql::core::Core;
use crate::items::cql::layouts::keys::slice;
use crate::items::cql::notes::to_sweep::Place;
use crate::items::{Bounds, OpContext, StoreError};

/// Live rows that a sweep near a deletion meets on each side.
const NEIGHBOURS: usize = 32;
/// Live rows that the sweep after a refused read meets: as many as the longest page has.
const ROWS_AFTER_REFUSAL: usize = 5_000;
/// Items of lists are not hints: a server whose clock is so far behind loses none that it adds, as long as no read is
/// refused.
const ITEMS_SETTLED_AFTER: Duration = Duration::from_secs(300);
/// How long a sweep may take.
const TIMEOUT: Duration = Duration::from_secs(180);
/// How long sweeps rest after one has failed: a replica may be down.
const PAUSE: Duration = Duration::from_secs(5);

/// Sweeps for a session, until it is dropped.
pub async fn sweep(core: Arc<Core>) {
    let of_deletions = async {
        let mut rests_until = Instant::now();
        loop {
            let due = core.to_sweep.next_of_deletions().await;
            sleep_until(due.at + core.settled_after()).await;
            run(&core, &due.what, &mut rests_until).await;
        }
    };
    let of_refusals = async {
        let mut rests_until = Instant::now();
        loop {
            let due = core.to_sweep.next_of_refusals().await;
            run(&core, &due.what, &mut rests_until).await;
        }
    };
    tokio::join!(of_deletions, of_refusals);
}

/// Sweeps at a place. After a failure, sweeps that ask all replicas are skipped for a while. Other sweeps continue, and
/// the next operation that finds a skipped place notes it again.
async fn run(core: &Arc<Core>, place: &Place, rests_until: &mut Instant) {
    let asks_all = core.consistency_of_sweeps(place.list.feature_key.is_of_bags()) == Consistency::All;
    if asks_all && Instant::now() < *rests_until {
        return;
    }
    if let Err(error) = at(core, place).await {
        tracing::debug!(%error, "cannot replace row tombstones by range tombstones");
        if asks_all {
            *rests_until = Instant::now() + PAUSE;
        } else {
            sleep(PAUSE).await;
        }
    }
}

async fn at(core: &Arc<Core>, Place { list, key, order }: &Place) -> Result<(), StoreError> {
    let op = OpContext::new(core.write_clock.wall(), Ttl::ENDLESS, Instant::now() + TIMEOUT);
    let is_of_hints = list.identity().is_set() || list.feature_key.is_of_bags();
    let after = match order {
        None if !is_of_hints => ITEMS_SETTLED_AFTER.max(core.settled_after()),
        _ => core.settled_after(),
    };
    let mut gaps = Gaps::begin(core, &op, list, after).await?;
    match order {
        Some(order) => gaps.sweep(key, *order, ROWS_AFTER_REFUSAL).await?,
        None => {
            let first = gaps.newer_than(key, NEIGHBOURS).await?;
            let (_, end) = slice(&Bounds::ALL);
            gaps.sweep(&first.unwrap_or(end), Order::Newest, 2 * NEIGHBOURS + 1).await?;
        }
    }
    core.swept.inc();
    Ok(())
}
