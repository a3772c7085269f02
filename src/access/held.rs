//! The bytes of the budget that each known caller holds. All keys, tokens and certificates of one name share a count.
//!
//! An identity finds its count once, under a lock, and retains it. From then on a request counts without a lock.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The largest number of retained counts without an identity.
const UNUSED_MAX: usize = 10_000;

/// An identity's count, once it has held anything.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldBytes(OnceLock<Arc<AtomicUsize>>);

/// A caller is the same regardless of the held bytes.
impl PartialEq for HeldBytes {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for HeldBytes {}

/// The counts of one budget.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<ByName>);

#[derive(Debug, Default)]
struct ByName {
    counts: HashMap<String, Arc<AtomicUsize>>,
    /// How many counts were in use when unused ones were last dropped.
    used_then: usize,
}

impl Counts {
    /// The count of the caller of this name. `held` must be the caller's own.
    pub fn of<'h>(&self, held: &'h HeldBytes, name: &str) -> &'h AtomicUsize {
        held.0.get_or_init(|| self.named(name))
    }

    fn named(&self, name: &str) -> Arc<AtomicUsize> {
        let mut by_name = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_name.counts.get(name) {
            return Arc::clone(count);
        }
        // A multiple of the used ones, so that names cost no walk each.
        if by_name.counts.len() >= UNUSED_MAX + 2 * by_name.used_then {
            by_name.counts.retain(|_, count| Arc::strong_count(count) > 1);
            by_name.used_then = by_name.counts.len();
        }
        Arc::clone(by_name.counts.entry(name.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn one_name_has_one_count_while_it_is_kept() {
        let counts = Counts::default();
        let (key, token, other) = (HeldBytes::default(), HeldBytes::default(), HeldBytes::default());
        counts.of(&key, "a").store(7, Ordering::Relaxed);
        for n in 0..3 * UNUSED_MAX {
            counts.of(&HeldBytes::default(), &format!("passing {n}"));
        }
        assert_eq!(counts.of(&token, "a").load(Ordering::Relaxed), 7);
        assert_eq!(counts.of(&key.clone(), "a").load(Ordering::Relaxed), 7);
        assert_eq!(counts.of(&other, "b").load(Ordering::Relaxed), 0);
        assert!(counts.0.lock().unwrap().counts.len() <= UNUSED_MAX + 3);
    }
}
