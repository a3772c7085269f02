//! The permit of a list operation.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::in_flight::Counted;
use crate::access::AtWork;

/// Held by an operation until the store has finished: its place in its actor, and its part in the routing.
#[derive(Debug)]
pub(super) struct WorkPermit {
    _place: OwnedSemaphorePermit,
    /// Its share of the caller's limit, if there is one.
    _share: Option<AtWork>,
    /// The routing that admitted it, which lasts as long.
    _routing: Arc<dyn Debug + Send + Sync>,
    /// The next actor of a moved list waits for it.
    _counted: Counted,
    taken_at: Instant,
    held: Arc<HoldTime>,
}

/// The total time that released permits were held, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct HoldTime(AtomicU64);

impl HoldTime {
    pub fn nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl WorkPermit {
    pub fn new(
        place: OwnedSemaphorePermit,
        share: Option<AtWork>,
        routing: Arc<dyn Debug + Send + Sync>,
        counted: Counted,
        held: Arc<HoldTime>,
    ) -> Self {
        Self { _place: place, _share: share, _routing: routing, _counted: counted, taken_at: Instant::now(), held }
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        let nanos = u64::try_from(self.taken_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.held.0.fetch_add(nanos, Ordering::Relaxed);
    }
}
