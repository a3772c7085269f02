//! How large a pool is, and what it is being brought to.

use std::sync::{Mutex, PoisonError};

use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::slot::SlotState;
use crate::items::PermitCounts;

/// How large a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// List actors, each with one session.
    pub actors: usize,
    /// Operations in flight in one actor or, where the store bounds its own work, requests of one session.
    pub permits_per_actor: usize,
}

/// What of its size is to change.
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
    /// The size that it is being brought to.
    pub resizing_to: Option<PoolSize>,
}

/// Who is changing the pool, and to what.
#[derive(Default)]
pub(super) struct Resizing {
    turn: tokio::sync::Mutex<()>,
    under_way: Mutex<Option<UnderWay>>,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    to: PoolSize,
    since: Instant,
}

impl Resizing {
    /// Keeps everybody else from changing the pool.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub fn announce(&self, to: Option<PoolSize>) {
        let under_way = to.map(|to| UnderWay { to, since: Instant::now() });
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner) = under_way;
    }

    fn under_way(&self) -> Option<UnderWay> {
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn announced(&self) -> Option<PoolSize> {
        self.under_way().map(|under_way| under_way.to)
    }

    /// What is being done, for as long as it is.
    pub fn warning(&self) -> Option<String> {
        let UnderWay { to, since } = self.under_way()?;
        Some(format!(
            "the list pool has been resizing to {} actors for {} s: moving lists wait for their running operations",
            to.actors,
            since.elapsed().as_secs()
        ))
    }
}
