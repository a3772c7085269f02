//! The permit of a list operation.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::access::AtWork;

/// What an operation holds until the store has finished with it: its place among those of its actor, and
/// its part in the routing.
#[derive(Debug)]
pub(super) struct Permit {
    _place: OwnedSemaphorePermit,
    /// Counted among what its caller has at work, where that is bounded.
    _share: Option<AtWork>,
    /// The routing that let it in, which lasts as long.
    _routing: Arc<dyn Debug + Send + Sync>,
    taken_at: Instant,
    held: Arc<Held>,
}

/// For how long permits were held, in nanoseconds, of those that were given back.
#[derive(Debug, Default)]
pub(super) struct Held(AtomicU64);

impl Held {
    pub fn nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Permit {
    pub fn new(
        place: OwnedSemaphorePermit,
        share: Option<AtWork>,
        routing: Arc<dyn Debug + Send + Sync>,
        held: Arc<Held>,
    ) -> Self {
        Self { _place: place, _share: share, _routing: routing, taken_at: Instant::now(), held }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let nanos = u64::try_from(self.taken_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.held.0.fetch_add(nanos, Ordering::Relaxed);
    }
}
