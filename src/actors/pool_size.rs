//! The size of a pool, and the change of it that is in progress.

use std::sync::{Mutex, PoisonError};

use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::slot::SlotState;
use crate::items::PermitCounts;

/// The size of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// List actors, each with one session.
    pub actors: usize,
    /// Operations in flight in one actor or, where the store bounds its own work, requests of one session.
    pub permits_per_actor: usize,
}

/// A change of the size. `None` keeps a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resize {
    pub actors: Option<usize>,
    pub permits_per_actor: Option<usize>,
}

/// A pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    pub size: PoolSize,
    pub permits: PermitCounts,
    pub states: Vec<SlotState>,
    /// The size after the change in progress.
    pub resizing_to: Option<PoolSize>,
}

/// The change of a pool that is in progress.
#[derive(Default)]
pub(super) struct Resizing {
    turn: tokio::sync::Mutex<()>,
    under_way: Mutex<Option<ResizeInProgress>>,
}

#[derive(Debug, Clone, Copy)]
struct ResizeInProgress {
    to: PoolSize,
    since: Instant,
}

impl Resizing {
    /// Keeps other callers from changing the pool.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub fn announce(&self, to: Option<PoolSize>) {
        let under_way = to.map(|to| ResizeInProgress { to, since: Instant::now() });
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner) = under_way;
    }

    fn under_way(&self) -> Option<ResizeInProgress> {
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn announced(&self) -> Option<PoolSize> {
        self.under_way().map(|under_way| under_way.to)
    }

    /// A text about the change in progress, if there is one.
    pub fn warning(&self) -> Option<String> {
        let ResizeInProgress { to, since } = self.under_way()?;
        Some(format!(
            "the list pool has been resizing to {} actors for {} s: moving lists wait for their running operations",
            to.actors,
            since.elapsed().as_secs()
        ))
    }
}
