//! The Cleaner: repairs the entries of indexes that disagree with bags, the latest changes first.
//!
//! Writers and queries report inconsistencies: a write whose entries may be missing, and an entry whose bag does not
//! match. The Cleaner also finds unfinished swaps, where the store notes them. It reads each bag again before a repair,
//! and changes entries by swaps that leave the bag unchanged. So a concurrent write wins, and two servers can repair
//! one bag without harm.

mod metrics;
mod queue;
mod repair;
mod scan;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use prometheus::Registry;
use tokio::time::sleep;

use self::metrics::CleanerMetrics;
use self::queue::{Due, Noted, Queue, Wrong};
pub(super) use self::repair::{Repairer, changed};
use self::scan::scan_swaps;
use super::insist::{RETRY_MAX, RETRY_MIN};
use crate::actors::{ListPool, MetadataHandle};
use crate::domain::{EntityId, ListKey, Timestamp};
use crate::items::{EntryChange, UnfinishedSwap};

/// Repairs at one time.
const REPAIRED_AT_ONCE: usize = 8;

/// The handle that reports repairs to the Cleaner. Cheap to clone.
#[derive(Clone)]
pub struct Cleaner {
    queue: Arc<Queue>,
    metrics: Arc<CleanerMetrics>,
}

impl Cleaner {
    /// Registers its metrics with `registry`.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let queue = Arc::new(Queue::default());
        let metrics = Arc::new(CleanerMetrics::register(registry)?);
        Ok(Self { queue, metrics })
    }

    /// A bag whose swap ended without a known outcome of its entries. These are the entries of the swap.
    pub fn bag(&self, list: ListKey, entries: Vec<EntryChange>) {
        self.note(Due::at_once(Wrong::Bag { list, entries, noted: None }));
    }

    /// An entry in a list of entries whose bag does not fit. A write that is at work may be about to remove it.
    pub fn entry(&self, list: ListKey, place: Timestamp, entity: EntityId) {
        self.note(Due::soon(Wrong::Entry { list, place, entity }));
    }

    fn note(&self, due: Due) {
        if !self.queue.add(due) {
            self.metrics.dropped();
        }
    }

    /// The time since the oldest waiting repair was reported.
    pub fn lag(&self) -> Duration {
        self.queue.lag()
    }

    /// Updates the gauges before metrics are rendered.
    pub fn refresh_metrics(&self) {
        self.metrics.refresh(self.queue.len(), self.queue.lag());
    }

    /// A noted swap. Its bag is repaired. If no server can work on the swap any more, it is removed.
    fn swap(&self, left: UnfinishedSwap, is_last: bool) {
        let UnfinishedSwap { id: swap, bag, entries, entered_in, .. } = left;
        let noted = Some(Noted { swap, is_last, entered_in });
        self.note(Due::at_once(Wrong::Bag { list: bag, entries, noted }));
    }

    /// Whether further noted swaps must wait.
    fn has_much_to_do(&self) -> bool {
        self.queue.has_much()
    }

    /// Repairs until it is dropped.
    pub async fn run(self, metadata: MetadataHandle, lists: ListPool) {
        tokio::join!(scan_swaps(&self, &metadata, &lists), self.repair(&metadata, &lists));
    }

    async fn repair(&self, metadata: &MetadataHandle, lists: &ListPool) {
        let (metadata, lists) = (metadata.clone(), lists.clone());
        let repairer = Repairer { metadata, lists };
        let mut delay = RETRY_MIN;
        loop {
            let dues = self.queue.next(REPAIRED_AT_ONCE).await;
            let repaired = join_all(dues.iter().map(|due| repairer.repair(&due.what))).await;
            let mut failed = Vec::new();
            for (due, repaired) in dues.into_iter().zip(repaired) {
                match repaired {
                    Ok(Some(repair)) => self.metrics.repaired(repair),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(%error, "cannot repair index entries: retrying");
                        failed.push(due);
                    }
                }
            }
            let all_done = failed.is_empty();
            self.queue.ended(failed);
            if all_done {
                delay = RETRY_MIN;
            } else {
                sleep(delay).await;
                delay = (2 * delay).min(RETRY_MAX);
            }
        }
    }
}
