//! The memory that callers make the server hold: requests that are not whole, answers that are being made, and answers
//! that are not taken.
//!
//! Each connection has a little memory. All further memory comes out of one budget of the process. A quarter of the
//! budget is for small things: large bodies and answers are refused while small ones go on. Each known caller has a
//! part of the budget, and all callers without a key share one part. So no caller takes the budget from the others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::decision::Principal;
use super::identity::Identity;

/// What each connection may hold without asking: its two buffers are no smaller.
pub const OWN_BYTES: usize = 8 << 10;
/// A body or an answer of at most this length may use the whole budget.
pub const SMALL_BYTES: usize = 64 << 10;
/// Beyond half of the budget a known caller has this for what stands around one large body or answer.
const AROUND_BYTES: usize = 2 * SMALL_BYTES;
/// Callers without a key have at least this, so that they can read any static document.
const STRANGERS_BYTES_MIN: usize = 1 << 20;
/// Names of callers that hold nothing are kept up to this number.
const NAMES_MAX: usize = 10_000;

/// Whose memory it is.
#[derive(Debug, Clone, Default)]
pub enum Holder {
    /// A caller without a key, where keys are needed.
    #[default]
    Stranger,
    /// Any caller of an open server, and local administration.
    Anyone,
    Known(Arc<Identity>),
}

impl Holder {
    /// Whose memory an answer takes. `is_open` says that the server asks for no keys.
    pub fn of(principal: &Principal, is_open: bool) -> Self {
        match principal {
            Principal::Known(identity) => Self::Known(Arc::clone(identity)),
            Principal::Anonymous if !is_open => Self::Stranger,
            Principal::Anonymous | Principal::Local => Self::Anyone,
        }
    }

    pub fn is_stranger(&self) -> bool {
        matches!(self, Self::Stranger)
    }

    pub fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }
}

/// There is no room for this now.
#[derive(Debug)]
pub struct Exhausted;

#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
    used_by_strangers: AtomicUsize,
    /// By the names of known callers.
    used_by: Mutex<HashMap<String, usize>>,
}

impl Budget {
    pub fn new(bytes_max: usize) -> Arc<Self> {
        let (used, used_by_strangers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { bytes_max, used, used_by_strangers, used_by: Mutex::default() })
    }

    /// Bytes that are held of it now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Up to where something of so many bytes may fill it.
    fn limit(&self, bytes: usize) -> usize {
        if bytes <= SMALL_BYTES { self.bytes_max } else { self.bytes_max - self.bytes_max / 4 }
    }

    /// Up to where something of so many bytes may fill the part of its holder.
    fn limit_of(&self, holder: &Holder, bytes: usize) -> usize {
        let eighth = self.bytes_max / 8;
        match holder {
            Holder::Stranger => eighth.max(STRANGERS_BYTES_MIN),
            Holder::Anyone => self.bytes_max,
            Holder::Known(_) if bytes <= SMALL_BYTES => 5 * eighth + AROUND_BYTES,
            Holder::Known(_) => 4 * eighth + AROUND_BYTES,
        }
    }

    /// Takes `more` bytes for a body or an answer, which then has `bytes`.
    fn take(&self, holder: &Holder, more: usize, bytes: usize) -> Result<(), Exhausted> {
        add(&self.used, more, self.limit(bytes))?;
        let taken = self.take_part(holder, more, self.limit_of(holder, bytes));
        if taken.is_err() {
            self.used.fetch_sub(more, Ordering::Relaxed);
        }
        taken
    }

    fn take_part(&self, holder: &Holder, more: usize, limit: usize) -> Result<(), Exhausted> {
        match holder {
            Holder::Anyone => Ok(()),
            Holder::Stranger => add(&self.used_by_strangers, more, limit),
            Holder::Known(identity) => {
                let (mut used_by, name) = (self.used_by(), identity.name().as_str());
                let used = used_by.get(name).copied().unwrap_or_default();
                let grown = used.checked_add(more).filter(|grown| *grown <= limit).ok_or(Exhausted)?;
                if let Some(used) = used_by.get_mut(name) {
                    *used = grown;
                } else {
                    if used_by.len() >= NAMES_MAX {
                        used_by.retain(|_, used| *used > 0);
                    }
                    used_by.insert(name.to_owned(), grown);
                }
                Ok(())
            }
        }
    }

    fn give_back_part(&self, holder: &Holder, bytes: usize) {
        match holder {
            Holder::Anyone => {}
            Holder::Stranger => {
                self.used_by_strangers.fetch_sub(bytes, Ordering::Relaxed);
            }
            Holder::Known(identity) => {
                if let Some(used) = self.used_by().get_mut(identity.name().as_str()) {
                    *used = used.saturating_sub(bytes);
                }
            }
        }
    }

    fn used_by(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.used_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(used: &AtomicUsize, more: usize, limit: usize) -> Result<(), Exhausted> {
    let grown = |used: usize| used.checked_add(more).filter(|grown| *grown <= limit);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map(|_| ()).map_err(|_| Exhausted)
}

/// The part of the budget that one connection, or one answer, holds.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    holder: Holder,
    taken: usize,
}

impl Share {
    pub fn new(budget: Arc<Budget>, holder: Holder) -> Self {
        Self { budget, holder, taken: 0 }
    }

    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Holds exactly this many bytes, or as many as before where there is no room.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let wanted = if bytes <= OWN_BYTES { 0 } else { bytes };
        if wanted <= self.taken {
            self.give_back(wanted);
        } else {
            self.budget.take(&self.holder, wanted - self.taken, bytes)?;
            self.taken = wanted;
        }
        Ok(())
    }

    /// As [`Self::hold`], for an answer that the server can no longer refuse.
    pub fn hold_anyway(&mut self, bytes: usize) {
        if self.hold(bytes).is_err() {
            let more = bytes - self.taken;
            self.budget.used.fetch_add(more, Ordering::Relaxed);
            // Without a limit it is never refused.
            let _ = self.budget.take_part(&self.holder, more, usize::MAX);
            self.taken = bytes;
        }
    }

    /// Whether so many bytes could be held now: else they need not be waited for.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let Self { budget, holder, taken } = self;
        let more = bytes.saturating_sub(*taken);
        let used_by_holder = match holder {
            Holder::Anyone => 0,
            Holder::Stranger => budget.used_by_strangers.load(Ordering::Relaxed),
            Holder::Known(identity) => budget.used_by().get(identity.name().as_str()).copied().unwrap_or_default(),
        };
        let fits = |used: usize, limit: usize| used.saturating_add(more) <= limit;
        bytes <= OWN_BYTES
            || fits(budget.used(), budget.limit(bytes)) && fits(used_by_holder, budget.limit_of(holder, bytes))
    }

    /// Charges all held bytes to another holder.
    pub fn charge_to(&mut self, holder: Holder) {
        if self.taken > 0 {
            self.budget.give_back_part(&self.holder, self.taken);
            let _ = self.budget.take_part(&holder, self.taken, usize::MAX);
        }
        self.holder = holder;
    }

    /// Adopts the bytes of another share of the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        other.charge_to(self.holder.clone());
        self.taken += std::mem::take(&mut other.taken);
    }

    fn give_back(&mut self, but_for: usize) {
        if self.taken > but_for {
            let less = self.taken - but_for;
            self.budget.used.fetch_sub(less, Ordering::Relaxed);
            self.budget.give_back_part(&self.holder, less);
            self.taken = but_for;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(0);
    }
}

/// The memory that one request reserves before its answer is made. Most requests reserve none.
#[derive(Debug, Default)]
pub struct Reservation(OnceLock<Mutex<Option<Share>>>);

impl Reservation {
    /// Holds at least this many bytes.
    pub fn reserve(&self, budget: &Arc<Budget>, principal: &Principal, bytes: usize) -> Result<(), Exhausted> {
        let mut share = self.0.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Share::new(Arc::clone(budget), Holder::of(principal, true));
        let share = share.get_or_insert_with(new);
        if bytes > share.taken { share.hold(bytes) } else { Ok(()) }
    }

    /// Hands over the reserved memory, if there is any.
    pub fn take(&self) -> Option<Share> {
        self.0.get()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A clone reserves nothing: the memory belongs to one request.
impl Clone for Reservation {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::ActsFor;

    const MIB: usize = 1 << 20;

    fn known(name: &str) -> Holder {
        Holder::Known(Arc::new(Identity::new("key:", name, vec![], ActsFor::Themselves)))
    }

    fn share(budget: &Arc<Budget>, holder: Holder) -> Share {
        Share::new(Arc::clone(budget), holder)
    }

    #[test]
    fn a_connection_holds_bytes_and_gives_them_back() {
        let budget = Budget::new(MIB);
        for holder in [Holder::Anyone, Holder::Stranger, known("a")] {
            let mut share = share(&budget, holder);
            for (bytes, used) in [(OWN_BYTES, 0), (OWN_BYTES + 1, OWN_BYTES + 1), (100_000, 100_000), (50_000, 50_000)]
            {
                share.hold(bytes).unwrap();
                assert_eq!(budget.used(), used);
            }
            drop(share);
            assert_eq!(budget.used(), 0);
        }
        assert_eq!(budget.used_by_strangers.load(Ordering::Relaxed), 0);
        assert!(budget.used_by().values().all(|used| *used == 0));
    }

    #[test]
    fn small_things_go_on_when_large_things_do_not() {
        let budget = Budget::new(MIB);
        let mut shares: Vec<_> = (0..20).map(|_| share(&budget, Holder::Anyone)).collect();
        shares[0].hold(600_000).unwrap();
        assert!(shares[1].hold(300_000).is_err() && !shares[1].has_room_for(300_000));
        assert!(shares[1].has_room_for(100_000) && shares[1].has_room_for(SMALL_BYTES));
        assert_eq!(budget.used(), 600_000);
        let held = shares.iter_mut().skip(1).map_while(|share| share.hold(SMALL_BYTES).ok()).count();
        assert_eq!(held, (MIB - 600_000) / SMALL_BYTES);
        // Small ones exceed the budget only where the server can no longer refuse them.
        assert!(shares[19].hold(SMALL_BYTES).is_err());
        shares[19].hold_anyway(SMALL_BYTES);
        shares[19].hold(SMALL_BYTES).unwrap();
        assert!(budget.used() > MIB);
        shares.clear();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn no_caller_takes_the_budget_from_the_others() {
        let budget = Budget::new(64 * MIB);
        let full_at = |holder: &Holder, bytes: usize| {
            let mut shares = Vec::new();
            loop {
                let mut next = share(&budget, holder.clone());
                if next.hold(bytes).is_err() {
                    assert!(!next.has_room_for(bytes));
                    return (shares.len() * bytes, shares);
                }
                shares.push(next);
            }
        };
        let (strangers, held_by_strangers) = full_at(&Holder::Stranger, MIB);
        assert_eq!(strangers, 8 * MIB);
        let (first, held_by_first) = full_at(&known("a"), MIB);
        assert_eq!(first, 32 * MIB);
        drop(held_by_strangers);
        let (second, _held_by_second) = full_at(&known("b"), MIB);
        assert_eq!(second, 16 * MIB, "what is left of the three quarters for large things");
        // The same caller by another token.
        assert!(share(&budget, known("a")).hold(MIB).is_err());
        drop(held_by_first);
        share(&budget, known("a")).hold(MIB).unwrap();
    }

    #[test]
    fn held_bytes_go_over_to_another_holder() {
        let budget = Budget::new(64 * MIB);
        let mut connection = share(&budget, Holder::Stranger);
        connection.hold(20_000).unwrap();
        let reservation = Reservation::default();
        assert!(reservation.take().is_none());
        let Holder::Known(identity) = known("a") else { panic!("it is known") };
        let principal = Principal::Known(identity);
        for bytes in [MIB, 2 * MIB, MIB] {
            reservation.reserve(&budget, &principal, bytes).unwrap();
        }
        assert!(reservation.reserve(&budget, &principal, 60 * MIB).is_err());
        assert!(reservation.clone().take().is_none());
        connection.charge_to(known("a"));
        connection.absorb(reservation.take().unwrap());
        assert_eq!((budget.used(), budget.used_by_strangers.load(Ordering::Relaxed)), (2 * MIB + 20_000, 0));
        assert_eq!(budget.used_by()["key:a"], 2 * MIB + 20_000);
        connection.hold(30_000).unwrap();
        assert_eq!((budget.used(), budget.used_by()["key:a"]), (30_000, 30_000));
    }
}
