//! Which writes the store accepts, and the reasons for refusals.
//!
//! A part with a temporary failure (a full disk) blocks writes until it succeeds again. The log blocks all writes. The
//! other parts block only adds, because removals free space. A permanent failure (a failed fsync, damage) stops all
//! writes until a restart.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use liststore_storage::StoreError;

/// The parts of the engine that may block writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subsystem {
    Log,
    Flush,
    Compaction,
    /// Only the reserve is left.
    Room,
}

const OTHERS: [Subsystem; 3] = [Subsystem::Flush, Subsystem::Compaction, Subsystem::Room];

#[derive(Debug, Default)]
struct Reasons {
    failed: Option<String>,
    blocked: [Option<String>; 4],
}

impl Reasons {
    fn all(&self) -> Option<&String> {
        self.failed.as_ref().or(self.blocked[Subsystem::Log as usize].as_ref())
    }

    fn adds(&self) -> Option<&String> {
        OTHERS.iter().find_map(|subsystem| self.blocked[*subsystem as usize].as_ref())
    }
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

    /// Reads the reasons, if there are any.
    fn read_reasons<T>(&self, at: impl FnOnce(&Reasons) -> Option<T>) -> Option<T> {
        if self.impaired.load(Ordering::Acquire) { at(&self.reasons()) } else { None }
    }

    /// The blocked writes, and why; `None` if all are accepted.
    pub fn read_only(&self) -> Option<String> {
        self.read_reasons(|reasons| match reasons.all() {
            Some(reason) => Some(reason.clone()),
            None => reasons.adds().map(|reason| adds_end(reason)),
        })
    }

    /// Whether writes are refused until the process restarts.
    pub fn has_failed(&self) -> bool {
        self.read_reasons(|reasons| reasons.failed.as_ref().map(|_| ())).is_some()
    }

    /// Why the log accepts nothing.
    pub fn refuses_all(&self) -> Option<String> {
        self.read_reasons(|reasons| reasons.all().cloned())
    }

    /// Why data files accept nothing.
    pub fn refuses_flush(&self) -> Option<String> {
        self.read_reasons(|reasons| reasons.all().or(reasons.blocked[Subsystem::Flush as usize].as_ref()).cloned())
    }

    /// The error of every write after a permanent failure.
    pub fn failure(&self) -> Option<StoreError> {
        self.read_reasons(|reasons| reasons.failed.as_deref().map(unavailable))
    }

    /// The error of adds, if only adds are refused, regardless of the state of the log.
    pub fn refuses_adds(&self) -> Option<StoreError> {
        self.read_reasons(|reasons| {
            let reason = reasons.adds().map(|reason| adds_end(reason))?;
            Some(StoreError::Unavailable { reason, outcome_unknown: false })
        })
    }

    /// Stops writes permanently. The first reason stays.
    pub fn fail(&self, reason: String) {
        let mut reasons = self.reasons();
        if reasons.failed.is_none() {
            tracing::error!(reason, "the item store refuses all writes until the server is restarted");
            reasons.failed = Some(reason);
        }
        self.impaired.store(true, Ordering::Release);
    }

    /// Stops writes, or adds, until the same part succeeds.
    pub fn block(&self, subsystem: Subsystem, reason: String) {
        let mut reasons = self.reasons();
        let slot = &mut reasons.blocked[subsystem as usize];
        if slot.is_none() {
            let refused = if subsystem == Subsystem::Log { "writes" } else { "adds" };
            tracing::error!(reason, "the item store refuses {refused} until this is fixed");
        }
        *slot = Some(reason);
        self.impaired.store(true, Ordering::Release);
    }

    /// Records that a part has succeeded.
    pub fn clear(&self, subsystem: Subsystem) {
        if !self.impaired.load(Ordering::Acquire) {
            return;
        }
        let mut reasons = self.reasons();
        if reasons.blocked[subsystem as usize].take().is_some() && reasons.blocked.iter().all(Option::is_none) {
            tracing::info!("the item store accepts all writes again");
        }
        let impaired = reasons.failed.is_some() || reasons.blocked.iter().any(Option::is_some);
        self.impaired.store(impaired, Ordering::Release);
    }
}

fn adds_end(reason: &str) -> String {
    format!("adds are refused, removals are accepted: {reason}")
}

/// The error of a write that had no effect.
pub fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: format!("read-only: {reason}"), outcome_unknown: false }
}
