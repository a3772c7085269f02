//! Whether the store takes writes, and if not, why.
//!
//! A part that cannot write for the moment (a full disk) blocks writes until it has succeeded again.
//! What cannot be mended while the process runs (a failed fsync, damage) stops writes for good.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::items::StoreError;

/// The parts that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Log,
    Flush,
    Compaction,
}

#[derive(Debug, Default)]
struct Reasons {
    failed: Option<String>,
    blocked: [Option<String>; 3],
}

#[derive(Debug, Default)]
pub struct Health {
    impaired: AtomicBool,
    reasons: Mutex<Reasons>,
}

impl Health {
    fn reasons(&self) -> MutexGuard<'_, Reasons> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why no writes are taken; `None` if they are.
    pub fn read_only(&self) -> Option<String> {
        if !self.impaired.load(Ordering::Acquire) {
            return None;
        }
        let reasons = self.reasons();
        reasons.failed.clone().or_else(|| reasons.blocked.iter().flatten().next().cloned())
    }

    /// Whether writes are refused until the process is started again.
    pub fn has_failed(&self) -> bool {
        self.impaired.load(Ordering::Acquire) && self.reasons().failed.is_some()
    }

    /// Whether another part than the log keeps writes from being taken, or it has failed for good.
    pub fn refuses_beside_log(&self) -> Option<StoreError> {
        if !self.impaired.load(Ordering::Acquire) {
            return None;
        }
        let reasons = self.reasons();
        let others = [Part::Flush, Part::Compaction].iter().filter_map(|part| reasons.blocked[*part as usize].as_ref());
        reasons.failed.iter().chain(others).next().map(|reason| unavailable(reason))
    }

    /// Stops writes for good. The first reason is kept.
    pub fn fail(&self, reason: String) {
        let mut reasons = self.reasons();
        if reasons.failed.is_none() {
            tracing::error!(reason, "the item store takes no more writes until it is started again");
            reasons.failed = Some(reason);
        }
        self.impaired.store(true, Ordering::Release);
    }

    /// Stops writes until the same part succeeds.
    pub fn block(&self, part: Part, reason: String) {
        let mut reasons = self.reasons();
        let slot = &mut reasons.blocked[part as usize];
        if slot.is_none() {
            tracing::error!(reason, "the item store is read-only until this is fixed");
        }
        *slot = Some(reason);
        self.impaired.store(true, Ordering::Release);
    }

    /// Notes that a part has succeeded.
    pub fn clear(&self, part: Part) {
        if !self.impaired.load(Ordering::Acquire) {
            return;
        }
        let mut reasons = self.reasons();
        if reasons.blocked[part as usize].take().is_some() && reasons.blocked.iter().all(Option::is_none) {
            tracing::info!("the item store writes again");
        }
        let impaired = reasons.failed.is_some() || reasons.blocked.iter().any(Option::is_some);
        self.impaired.store(impaired, Ordering::Release);
    }
}

/// The error of a write that was not carried out.
pub fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: format!("read-only: {reason}"), outcome_unknown: false }
}
