//! Recent refusals and their callers, for the audit trail.
//!
//! Any caller can be refused any number of times. So refusals are only stored in memory. Equal refusals within a minute
//! are one entry with a count. The number of entries is bounded, separately for known and unknown callers, so that
//! unknown callers do not push out known ones.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Principal;
use crate::domain::Timestamp;

/// Of each kind of callers.
const KEPT_MAX: usize = 1_000;
const ALIKE_NANOS: u64 = 60_000_000_000;

/// Refusals of one caller, some times within a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// When it was first refused; no two have the same.
    pub at: Timestamp,
    pub last_at: Timestamp,
    pub count: u64,
    /// The identified caller.
    pub by: String,
    pub operation: &'static str,
    /// As the answer had it.
    pub code: &'static str,
    pub reason: String,
}

/// The recent refusals of this server.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    known: VecDeque<Refusal>,
    unknown: VecDeque<Refusal>,
    newest: Option<Timestamp>,
}

impl Refusals {
    /// Notes a refusal. The texts come from this program. Callers can influence only the name that they were identified
    /// with.
    pub fn note(&self, by: &Principal, operation: &'static str, code: &'static str, reason: &str, now: Timestamp) {
        let kept = &mut *self.kept();
        let at = kept.newest.map_or(now, |newest| now.max(after(newest)));
        let ring = if matches!(by, Principal::Anonymous) { &mut kept.unknown } else { &mut kept.known };
        let by = by.name();
        let mut recent = ring.iter_mut().rev().take_while(|entry| at.as_nanos() - entry.at.as_nanos() < ALIKE_NANOS);
        let alike = |entry: &&mut Refusal| {
            entry.operation == operation && entry.code == code && entry.by == by && entry.reason == reason
        };
        if let Some(entry) = recent.find(alike) {
            entry.count += 1;
            entry.last_at = entry.last_at.max(now);
            return;
        }
        if ring.len() == KEPT_MAX {
            ring.pop_front();
        }
        let (by, reason) = (by.to_owned(), reason.to_owned());
        ring.push_back(Refusal { at, last_at: at, count: 1, by, operation, code, reason });
        kept.newest = Some(at);
    }

    /// Newest first, strictly before this moment.
    pub fn before(&self, end: Option<Timestamp>) -> Vec<Refusal> {
        let kept = self.kept();
        let all = kept.known.iter().chain(&kept.unknown);
        let mut found: Vec<_> = all.filter(|entry| end.is_none_or(|end| entry.at < end)).cloned().collect();
        found.sort_unstable_by_key(|entry| Reverse(entry.at));
        found
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn after(moment: Timestamp) -> Timestamp {
    Timestamp::saturating_from_nanos(u128::from(moment.as_nanos()) + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::access::{ActsFor, Identity};

    fn known(name: &str) -> Principal {
        Principal::Known(Arc::new(Identity::new("key:", name, vec![], ActsFor::Themselves)))
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_nanos(secs * 1_000_000_000).unwrap()
    }

    #[test]
    fn equal_refusals_within_a_minute_are_counted() {
        let refusals = Refusals::default();
        for secs in [100, 130, 159, 160] {
            refusals.note(&known("feed"), "add_items", "permission_denied", "no role", at(secs));
        }
        refusals.note(&known("other"), "add_items", "permission_denied", "no role", at(160));
        refusals.note(&Principal::Anonymous, "add_items", "unauthenticated", "no key", at(159));
        let found = refusals.before(None);
        let reported: Vec<_> = found.iter().map(|entry| (entry.by.as_str(), entry.count)).collect();
        assert_eq!(reported, [("anonymous", 1), ("key:other", 1), ("key:feed", 1), ("key:feed", 3)]);
        assert_eq!((found[3].at, found[3].last_at), (at(100), at(159)));
        assert_eq!(refusals.before(Some(found[1].at)), found[2..]);
    }

    #[test]
    fn anonymous_callers_fill_no_memory_and_displace_no_known_caller() {
        let refusals = Refusals::default();
        refusals.note(&known("feed"), "add_items", "permission_denied", "no role", at(1));
        for n in 0..3 * KEPT_MAX as u64 {
            refusals.note(&Principal::Anonymous, "add_items", "unauthenticated", "no key", at(60 * n));
        }
        let found = refusals.before(None);
        assert_eq!(found.len(), KEPT_MAX + 1);
        assert_eq!(found.last().map(|entry| entry.by.as_str()), Some("key:feed"));
    }
}
