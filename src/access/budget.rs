//! The memory that callers make the server hold: incomplete requests, answers in progress, and unread answers.
//!
//! Each connection has a little memory. All further memory comes out of one budget of the process. A quarter of the
//! budget is reserved for small amounts: the server may refuse large bodies and answers while small ones continue. Each
//! known caller has a part of the budget, and all callers without a key share one part. So no caller takes the budget
//! from the others.
//!
//! These parts never refuse one caller alone. The largest body and the largest answer always fit together, even while
//! callers without a key hold all of their part: [`Budget::bytes_min`] is the necessary size.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::decision::Principal;
use super::held::Counts;
use super::identity::Identity;

/// The memory of each connection outside the budget: its two buffers have at least this size.
pub const OWN_BYTES: usize = 8 << 10;
/// A body or an answer of at most this length may use the whole budget.
pub const SMALL_BYTES: usize = 64 << 10;
/// Some answers reserve this much before they are made, however short a page must be.
pub const ANSWER_BYTES_MIN: usize = 1 << 20;
/// The memory around one large body or answer: heads, chunks, and unsent earlier answers.
const AROUND_BYTES: usize = 2 * SMALL_BYTES;
/// Callers without a key have at least this, so that they can read any static document.
const STRANGERS_BYTES_MIN: usize = 1 << 20;
/// At least this is for small things alone.
const SMALL_RESERVE_BYTES: usize = 4 * SMALL_BYTES;

/// Whose memory it is.
#[derive(Debug, Clone, Copy)]
pub enum Holder<'p> {
    /// A caller without a key, where keys are needed.
    Stranger,
    /// Any caller of an open server, and local administration.
    Anyone,
    Known(&'p Arc<Identity>),
}

impl<'p> Holder<'p> {
    /// The owner of a request's memory. `is_stranger` states that an unknown caller would need a key.
    pub fn of(principal: &'p Principal, is_stranger: bool) -> Self {
        match principal {
            Principal::Known(identity) => Self::Known(identity),
            Principal::Anonymous if is_stranger => Self::Stranger,
            Principal::Anonymous | Principal::Local => Self::Anyone,
        }
    }

    pub fn is_stranger(self) -> bool {
        matches!(self, Self::Stranger)
    }

    pub fn is_known(self) -> bool {
        matches!(self, Self::Known(_))
    }

    fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Stranger, Self::Stranger) | (Self::Anyone, Self::Anyone) => true,
            (Self::Known(one), Self::Known(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// The holder that a share remembers.
#[derive(Debug)]
enum Owner {
    Strangers,
    Anyone,
    Known(Arc<Identity>),
}

impl Owner {
    fn holder(&self) -> Holder<'_> {
        match self {
            Self::Strangers => Holder::Stranger,
            Self::Anyone => Holder::Anyone,
            Self::Known(identity) => Holder::Known(identity),
        }
    }
}

impl From<Holder<'_>> for Owner {
    fn from(holder: Holder<'_>) -> Self {
        match holder {
            Holder::Stranger => Self::Strangers,
            Holder::Anyone => Self::Anyone,
            Holder::Known(identity) => Self::Known(Arc::clone(identity)),
        }
    }
}

/// There is no room for this now.
#[derive(Debug)]
pub struct Exhausted;

/// Up to where things may fill the budget, or a part of it.
#[derive(Debug, Clone, Copy)]
struct FillLimits {
    small: usize,
    large: usize,
    strangers: usize,
    known_small: usize,
    known_large: usize,
}

#[derive(Debug)]
pub struct Budget {
    limits: FillLimits,
    used: AtomicUsize,
    used_by_strangers: AtomicUsize,
    used_by_known: Counts,
}

impl Budget {
    /// A budget of this size, for the largest bodies and answers.
    pub fn new(bytes_max: usize, body_bytes_max: usize, answer_bytes_max: usize) -> Arc<Self> {
        let (eighth, request) = (bytes_max / 8, request_bytes(body_bytes_max, answer_bytes_max));
        let next_to_request = bytes_max.saturating_sub(request.saturating_add(SMALL_RESERVE_BYTES));
        let strangers = eighth.min(next_to_request).max(STRANGERS_BYTES_MIN);
        let limits = FillLimits {
            small: bytes_max,
            large: (bytes_max - bytes_max / 4).max(request.saturating_add(strangers)).min(bytes_max),
            strangers,
            known_small: (5 * eighth + AROUND_BYTES).max(request),
            known_large: (4 * eighth + AROUND_BYTES).max(request),
        };
        let (used, used_by_strangers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limits, used, used_by_strangers, used_by_known: Counts::default() })
    }

    /// The least budget in which one caller has room for the largest body and the largest answer.
    pub fn bytes_min(body_bytes_max: usize, answer_bytes_max: usize) -> usize {
        request_bytes(body_bytes_max, answer_bytes_max).saturating_add(STRANGERS_BYTES_MIN + SMALL_RESERVE_BYTES)
    }

    /// Its bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The fill level up to which an amount of this size is granted.
    fn limit(&self, bytes: usize) -> usize {
        if bytes <= SMALL_BYTES { self.limits.small } else { self.limits.large }
    }

    /// The bytes that a holder has, and the limit for a request of this size. `None`: only the whole budget limits it.
    fn part<'a>(&'a self, holder: Holder<'a>, bytes: usize) -> Option<(&'a AtomicUsize, usize)> {
        let FillLimits { strangers, known_small, known_large, .. } = self.limits;
        match holder {
            Holder::Anyone => None,
            Holder::Stranger => Some((&self.used_by_strangers, strangers)),
            Holder::Known(identity) => {
                let count = self.used_by_known.of(identity.held(), identity.name().as_str());
                Some((count, if bytes <= SMALL_BYTES { known_small } else { known_large }))
            }
        }
    }

    /// Takes `more` bytes for a body or an answer, which then has `bytes`.
    fn take(&self, holder: Holder<'_>, more: usize, bytes: usize) -> Result<(), Exhausted> {
        add(&self.used, more, self.limit(bytes))?;
        let taken = self.part(holder, bytes).map_or(Ok(()), |(used, limit)| add(used, more, limit));
        if taken.is_err() {
            self.used.fetch_sub(more, Ordering::Relaxed);
        }
        taken
    }

    fn give_back(&self, holder: Holder<'_>, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some((used, _)) = self.part(holder, bytes) {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Charges bytes to another holder.
    fn hand_over(&self, from: Holder<'_>, to: Holder<'_>, bytes: usize) {
        if bytes == 0 || from.is(to) {
            return;
        }
        if let Some((used, _)) = self.part(from, bytes) {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
        if let Some((used, _)) = self.part(to, bytes) {
            used.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// The most that one request holds with its answer.
fn request_bytes(body_bytes_max: usize, answer_bytes_max: usize) -> usize {
    body_bytes_max.saturating_add(answer_bytes_max.max(ANSWER_BYTES_MIN)).saturating_add(AROUND_BYTES)
}

fn add(used: &AtomicUsize, more: usize, limit: usize) -> Result<(), Exhausted> {
    let grown = |used: usize| used.checked_add(more).filter(|grown| *grown <= limit);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map(|_| ()).map_err(|_| Exhausted)
}

/// The part of the budget that one connection, or one answer, holds.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    owner: Owner,
    taken: usize,
}

impl Share {
    pub fn new(budget: Arc<Budget>, holder: Holder<'_>) -> Self {
        Self { budget, owner: holder.into(), taken: 0 }
    }

    pub fn holder(&self) -> Holder<'_> {
        self.owner.holder()
    }

    /// Holds exactly this many bytes, or as many as before where there is no room.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let wanted = if bytes <= OWN_BYTES { 0 } else { bytes };
        if wanted <= self.taken {
            self.give_back(wanted);
        } else {
            self.budget.take(self.holder(), wanted - self.taken, bytes)?;
            self.taken = wanted;
        }
        Ok(())
    }

    /// As [`Self::hold`], for an answer that the server can no longer refuse.
    pub fn hold_anyway(&mut self, bytes: usize) {
        if self.hold(bytes).is_err() {
            let more = bytes - self.taken;
            self.budget.used.fetch_add(more, Ordering::Relaxed);
            if let Some((used, _)) = self.budget.part(self.holder(), bytes) {
                used.fetch_add(more, Ordering::Relaxed);
            }
            self.taken = bytes;
        }
    }

    /// Whether this amount would be granted now. If not, the request is refused without waiting for it.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.taken);
        let fits = |used: &AtomicUsize, limit: usize| used.load(Ordering::Relaxed).saturating_add(more) <= limit;
        bytes <= OWN_BYTES
            || fits(&self.budget.used, self.budget.limit(bytes))
                && self.budget.part(self.holder(), bytes).is_none_or(|(used, limit)| fits(used, limit))
    }

    /// Charges all held bytes to another holder.
    pub fn charge_to(&mut self, holder: Holder<'_>) {
        // Nearly all requests of a connection are one caller's.
        if !self.holder().is(holder) {
            self.budget.hand_over(self.holder(), holder, self.taken);
            self.owner = holder.into();
        }
    }

    /// Adopts the bytes of another share of the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        let bytes = std::mem::take(&mut other.taken);
        self.budget.hand_over(other.holder(), self.holder(), bytes);
        self.taken += bytes;
    }

    fn give_back(&mut self, but_for: usize) {
        if self.taken > but_for {
            self.budget.give_back(self.holder(), self.taken - but_for);
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
        let new = || Share::new(Arc::clone(budget), Holder::of(principal, false));
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
    use proptest::prelude::*;

    use super::*;
    use crate::access::ActsFor;

    const MIB: usize = 1 << 20;

    /// With the lengths that are the defaults.
    fn budget(bytes_max: usize) -> Arc<Budget> {
        Budget::new(bytes_max, 2 * MIB, 4 * MIB)
    }

    fn known(name: &str) -> Arc<Identity> {
        Arc::new(Identity::new("key:", name, vec![], ActsFor::Themselves))
    }

    fn share(budget: &Arc<Budget>, holder: Holder<'_>) -> Share {
        Share::new(Arc::clone(budget), holder)
    }

    /// The bytes that the callers of a name hold.
    fn used_by(budget: &Budget, name: &str) -> usize {
        budget.part(Holder::Known(&known(name)), 0).unwrap().0.load(Ordering::Relaxed)
    }

    #[test]
    fn a_connection_reserves_bytes_and_returns_them() {
        let (budget, a) = (budget(8 * MIB), known("a"));
        for holder in [Holder::Anyone, Holder::Stranger, Holder::Known(&a)] {
            let mut share = share(&budget, holder);
            for (bytes, used) in [(OWN_BYTES, 0), (OWN_BYTES + 1, OWN_BYTES + 1), (100_000, 100_000), (50_000, 50_000)]
            {
                share.hold(bytes).unwrap();
                assert_eq!(budget.used(), used);
            }
            drop(share);
            assert_eq!(budget.used(), 0);
        }
        assert_eq!((budget.used_by_strangers.load(Ordering::Relaxed), used_by(&budget, "a")), (0, 0));
    }

    #[test]
    fn small_requests_continue_when_large_ones_do_not() {
        let budget = budget(64 * MIB);
        let mut shares: Vec<_> = (0..520).map(|_| share(&budget, Holder::Anyone)).collect();
        shares[0].hold(40 * MIB).unwrap();
        assert!(shares[1].hold(9 * MIB).is_err() && !shares[1].has_room_for(9 * MIB));
        assert!(shares[1].has_room_for(8 * MIB) && shares[1].has_room_for(SMALL_BYTES));
        assert_eq!(budget.used(), 40 * MIB);
        let held = shares.iter_mut().skip(1).map_while(|share| share.hold(SMALL_BYTES).ok()).count();
        assert_eq!(held, 24 * MIB / SMALL_BYTES);
        // Small ones exceed the budget only where the server can no longer refuse them.
        assert!(shares[519].hold(SMALL_BYTES).is_err());
        shares[519].hold_anyway(SMALL_BYTES);
        shares[519].hold(SMALL_BYTES).unwrap();
        assert!(budget.used() > 64 * MIB);
        shares.clear();
        assert_eq!(budget.used(), 0);
    }

    /// As many shares of this holder as there is room for.
    fn filled(budget: &Arc<Budget>, holder: Holder<'_>, bytes: usize) -> Vec<Share> {
        let mut shares = Vec::new();
        loop {
            let mut next = share(budget, holder);
            if next.hold(bytes).is_err() {
                assert!(!next.has_room_for(bytes));
                return shares;
            }
            shares.push(next);
        }
    }

    #[test]
    fn no_caller_exhausts_the_budget_of_others() {
        let (budget, a, b) = (budget(64 * MIB), known("a"), known("b"));
        let strangers = filled(&budget, Holder::Stranger, MIB);
        assert_eq!(strangers.len(), 8);
        let first = filled(&budget, Holder::Known(&a), MIB);
        assert_eq!(first.len(), 32);
        drop(strangers);
        let second = filled(&budget, Holder::Known(&b), MIB);
        assert_eq!(second.len(), 16, "what is left of the three quarters for large things");
        // The same caller by another token.
        assert!(share(&budget, Holder::Known(&known("a"))).hold(MIB).is_err());
        drop(first);
        share(&budget, Holder::Known(&a)).hold(MIB).unwrap();
    }

    #[test]
    fn reserved_bytes_move_to_another_holder() {
        let (budget, a) = (budget(64 * MIB), known("a"));
        let mut connection = share(&budget, Holder::Stranger);
        connection.hold(20_000).unwrap();
        let reservation = Reservation::default();
        assert!(reservation.take().is_none());
        let principal = Principal::Known(Arc::clone(&a));
        for bytes in [MIB, 2 * MIB, MIB] {
            reservation.reserve(&budget, &principal, bytes).unwrap();
        }
        assert!(reservation.reserve(&budget, &principal, 60 * MIB).is_err());
        assert!(reservation.clone().take().is_none());
        connection.charge_to(Holder::Known(&a));
        connection.absorb(reservation.take().unwrap());
        assert_eq!((budget.used(), budget.used_by_strangers.load(Ordering::Relaxed)), (2 * MIB + 20_000, 0));
        assert_eq!(used_by(&budget, "a"), 2 * MIB + 20_000);
        connection.hold(30_000).unwrap();
        assert_eq!((budget.used(), used_by(&budget, "a")), (30_000, 30_000));
        // The same name by another key, and then no caller.
        connection.charge_to(Holder::Known(&known("a")));
        assert_eq!(used_by(&budget, "a"), 30_000);
        connection.charge_to(Holder::Stranger);
        assert_eq!((budget.used_by_strangers.load(Ordering::Relaxed), used_by(&budget, "a")), (30_000, 0));
        drop(connection);
        assert_eq!((budget.used(), budget.used_by_strangers.load(Ordering::Relaxed)), (0, 0));
    }

    /// A request as it is served: its body grows, its answer is reserved in two steps, and both are one connection's.
    fn serves(budget: &Arc<Budget>, principal: &Principal, body: usize, answer: usize) -> Result<(), Exhausted> {
        let mut connection = share(budget, Holder::of(principal, false));
        assert!(connection.has_room_for(body));
        for read in [body / 3, body / 2, body] {
            connection.hold(read + OWN_BYTES)?;
        }
        let reservation = Reservation::default();
        for bytes in [ANSWER_BYTES_MIN, answer] {
            reservation.reserve(budget, principal, bytes)?;
        }
        connection.absorb(reservation.take().unwrap());
        connection.hold(answer + OWN_BYTES)
    }

    proptest! {
        #[test]
        fn one_caller_is_served_regardless_of_anonymous_callers(
            body in 1_usize << 10..1 << 30,
            answer in 1_usize << 10..1 << 30,
            shrunk in (0_u32..20, 0_u32..20),
            more in prop_oneof![Just(0_usize), 0_usize..1 << 31],
            of_strangers in prop_oneof![Just(500_000_usize), Just(MIB), Just(60_000)],
        ) {
            let (body, answer) = ((body >> shrunk.0).max(1 << 10), (answer >> shrunk.1).max(1 << 10));
            let budget = Budget::new(Budget::bytes_min(body, answer) + more, body, answer);
            let strangers = filled(&budget, Holder::Stranger, of_strangers);
            prop_assert!(strangers.len() * of_strangers > STRANGERS_BYTES_MIN / 4);
            for principal in [Principal::Anonymous, Principal::Local, Principal::Known(known("a"))] {
                prop_assert!(serves(&budget, &principal, body, answer).is_ok(), "{principal} {body} {answer} {more}");
            }
            drop(strangers);
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
