//! The parts of a list pool: its actors, their routing, and their metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;

use super::permit::HoldTime;
use super::pool_metrics::PoolMetrics;
use super::pool_size::{PoolSize, Resizing};
use super::routing::Routing;
use super::staff::Staff;
use crate::domain::{AheadMax, Clock};
use crate::items::{Abilities, ItemStore};

/// Shared by all handles of a pool.
pub(super) struct PoolState {
    pub routing: ArcSwap<Routing>,
    pub staff: Staff,
    pub store: Arc<dyn ItemStore>,
    pub abilities: Abilities,
    pub clock: Arc<dyn Clock>,
    pub permit_wait: Duration,
    pub timestamp_ahead_max: AheadMax,
    pub metrics: PoolMetrics,
    /// Operations that wait for a permit of an actor.
    pub waiting: AtomicUsize,
    pub held: Arc<HoldTime>,
    /// For questions about many lists at once: each takes a thread that may wait for the disk.
    pub presence_checks: Arc<Semaphore>,
    pub draining: AtomicBool,
    pub resizing: Resizing,
}

impl PoolState {
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub fn size(&self) -> PoolSize {
        let routing = self.routing.load();
        PoolSize { actors: routing.seats().len(), permits_per_actor: self.permits_per_actor(&routing) }
    }

    /// The permits of the store, if it bounds its own work, or else the permits of a routing.
    pub fn permits_per_actor(&self, routing: &Routing) -> usize {
        let own = self.abilities.permits.as_ref();
        own.map_or_else(|| routing.permits_per_actor(), |own| own.permits_per_session())
    }
}
