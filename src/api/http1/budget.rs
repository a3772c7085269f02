//! What all connections together hold in memory: requests that have not come whole, and answers that
//! have not been taken.
//!
//! A connection has little of its own. What it holds beyond that, while it waits for its client, comes
//! out of one budget of the process. A quarter of that is for what is small: large bodies and answers
//! are refused while the small ones go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What each connection may hold without asking: its two buffers are no smaller.
pub(super) const OWN_BYTES: usize = 8 << 10;
/// What is no larger than this may use the whole budget.
pub(super) const SMALL_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(in crate::api) struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
}

impl Budget {
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: AtomicUsize::new(0) })
    }

    /// Bytes that connections hold of it now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether an answer of so many bytes could be held now: else it need not be made.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.limit_of(bytes)
    }

    /// Up to where something of so many bytes may fill it.
    fn limit_of(&self, bytes: usize) -> usize {
        if bytes <= SMALL_BYTES { self.bytes_max } else { self.bytes_max - self.bytes_max / 4 }
    }
}

/// There is no room for this now.
#[derive(Debug)]
pub(super) struct Exhausted;

/// What one connection holds of the budget.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    taken: usize,
}

impl Share {
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { budget, taken: 0 }
    }

    /// Changes what is held to this many bytes, or leaves it as it was.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let wanted = if bytes <= OWN_BYTES { 0 } else { bytes };
        if wanted <= self.taken {
            self.give_back(wanted);
            return Ok(());
        }
        let more = wanted - self.taken;
        let limit = self.budget.limit_of(bytes);
        let grown = |used: usize| used.checked_add(more).filter(|used| *used <= limit);
        match self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => {
                self.taken = wanted;
                Ok(())
            }
            Err(_) => Err(Exhausted),
        }
    }

    /// As [`Self::hold`], for what must not be refused.
    pub fn hold_anyway(&mut self, bytes: usize) {
        if self.hold(bytes).is_err() {
            self.budget.used.fetch_add(bytes - self.taken, Ordering::Relaxed);
            self.taken = bytes;
        }
    }

    fn give_back(&mut self, but_for: usize) {
        if self.taken > but_for {
            self.budget.used.fetch_sub(self.taken - but_for, Ordering::Relaxed);
            self.taken = but_for;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_holds_what_it_says_and_gives_it_back() {
        let budget = Budget::new(1 << 20);
        let mut share = Share::new(Arc::clone(&budget));
        for (bytes, used) in [(OWN_BYTES, 0), (OWN_BYTES + 1, OWN_BYTES + 1), (100_000, 100_000), (50_000, 50_000)] {
            share.hold(bytes).unwrap();
            assert_eq!(budget.used(), used);
        }
        drop(share);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_small_goes_on_when_large_things_do_not() {
        let budget = Budget::new(1 << 20);
        let mut shares: Vec<_> = (0..20).map(|_| Share::new(Arc::clone(&budget))).collect();
        shares[0].hold(600_000).unwrap();
        assert!(shares[1].hold(300_000).is_err() && !budget.has_room_for(300_000));
        assert!(budget.has_room_for(100_000) && budget.has_room_for(SMALL_BYTES));
        assert_eq!(budget.used(), 600_000);
        let held = shares.iter_mut().skip(1).map_while(|share| share.hold(SMALL_BYTES).ok()).count();
        assert_eq!(held, ((1 << 20) - 600_000) / SMALL_BYTES);
        // Not even small ones go beyond it, but for what cannot be refused any more.
        assert!(shares[19].hold(SMALL_BYTES).is_err());
        shares[19].hold_anyway(SMALL_BYTES);
        shares[19].hold(SMALL_BYTES).unwrap();
        assert!(budget.used() > 1 << 20);
        shares.clear();
        assert_eq!(budget.used(), 0);
    }
}
