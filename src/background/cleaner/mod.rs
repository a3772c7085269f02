//! The Cleaner: makes the entries of indexes agree with bags again, what changed last first.
//!
//! It is told by whoever meets what does not agree: a write whose entries may not have been written, and a query that
//! met an entry whose bag does not fit. And it looks for swaps that somebody has left unfinished, where the store notes
//! them. What it mends it looks at again, and it changes entries by swaps that leave the bag as it is: so a write that
//! comes in between wins, and of two servers that mend one bag neither does harm.

mod look;
mod mend;
mod metrics;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use prometheus::Registry;
use tokio::time::sleep;

use self::look::look_for_swaps;
pub(super) use self::mend::{Mender, changed};
use self::metrics::CleanerMetrics;
use self::queue::{Due, Noted, Queue, Wrong};
use super::insist::{RETRY_MAX, RETRY_MIN};
use crate::actors::{ListPool, MetadataHandle};
use crate::domain::{EntityId, ListKey, Timestamp};
use crate::items::{EntryChange, UnfinishedSwap};

/// What is mended at once.
const MENDED_AT_ONCE: usize = 8;

/// The handle through which the Cleaner is told what to mend. Cheap to clone.
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

    /// A bag of which a swap ended so that nobody knows whether its entries are written. These are those that it was
    /// to change.
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

    /// For how long what waits longest to be mended has been known.
    pub fn lag(&self) -> Duration {
        self.queue.lag()
    }

    /// Brings what is read rather than counted up to date: before metrics are shown.
    pub fn refresh_metrics(&self) {
        self.metrics.refresh(self.queue.len(), self.queue.lag());
    }

    /// A swap that somebody has noted: its bag is mended, and if nobody can be at work on it any more, it is forgotten.
    fn swap(&self, left: UnfinishedSwap, is_last: bool) {
        let UnfinishedSwap { id: swap, bag, entries, entered_in, .. } = left;
        let noted = Some(Noted { swap, is_last, entered_in });
        self.note(Due::at_once(Wrong::Bag { list: bag, entries, noted }));
    }

    /// Whether what stays noted had better wait.
    fn has_much_to_do(&self) -> bool {
        self.queue.has_much()
    }

    /// Mends until it is dropped.
    pub async fn run(self, metadata: MetadataHandle, lists: ListPool) {
        tokio::join!(look_for_swaps(&self, &metadata, &lists), self.mend(&metadata, &lists));
    }

    async fn mend(&self, metadata: &MetadataHandle, lists: &ListPool) {
        let (metadata, lists) = (metadata.clone(), lists.clone());
        let mender = Mender { metadata, lists };
        let mut delay = RETRY_MIN;
        loop {
            let dues = self.queue.next(MENDED_AT_ONCE).await;
            let mended = join_all(dues.iter().map(|due| mender.mend(&due.what))).await;
            let mut failed = Vec::new();
            for (due, mended) in dues.into_iter().zip(mended) {
                match mended {
                    Ok(Some(repair)) => self.metrics.mended(repair),
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
