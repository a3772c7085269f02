//! Which list actor has a list, and how lists move between actors when their number changes.
//!
//! A list belongs to the actor that jump consistent hashing of its token selects (Lamping and Veach, 2014). So of n + 1
//! actors the new one takes about 1/(n + 1) of the lists, and no other list moves. At any moment a list has one actor:
//! an operation keeps its [`Admission`] to a routing until the store has finished, and the operations of a moved list
//! wait until its operations of the previous routing have ended.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::list_actor::ListActor;
use super::slot::ActorSlot;
use crate::domain::Token;

/// Operations are counted by this many shares of the lists. Two lists of one share wait for each other when they move.
const SHARES: usize = 4_096;

fn share_of(list: Token) -> u16 {
    // The token is a hash: its low bits are as good as others.
    (list.as_i64() as u64 % SHARES as u64) as u16
}

/// The operations of one routing.
struct InFlight {
    counts: Box<[AtomicU32]>,
    /// Whether an operation of the next routing has waited for a share.
    is_awaited: AtomicBool,
    ended: Notify,
}

impl InFlight {
    fn new() -> Arc<Self> {
        let counts = (0..SHARES).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self { counts, is_awaited: AtomicBool::new(false), ended: Notify::new() })
    }

    fn begin(&self, share: u16) {
        self.counts[usize::from(share)].fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self, share: u16) {
        let was_last = self.counts[usize::from(share)].fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.is_awaited.load(Ordering::SeqCst) {
            self.ended.notify_waiters();
        }
    }

    /// Waits until no operation of a share runs, at most until `until`. Returns whether that is so.
    async fn share_ended(&self, share: u16, until: Instant) -> bool {
        self.is_awaited.store(true, Ordering::SeqCst);
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            // Pairs with the fence in `Admission::enter`.
            fence(Ordering::SeqCst);
            if self.counts[usize::from(share)].load(Ordering::SeqCst) == 0 {
                return true;
            }
            if timeout_at(until, ended).await.is_err() {
                return false;
            }
        }
    }
}

/// The part of an operation in a routing. The routing lasts as long, and so does the wait of the lists' next actors.
#[derive(Debug)]
pub(super) struct Admission {
    routing: Arc<Routing>,
    shares: SmallVec<[u16; 2]>,
}

impl Admission {
    /// Takes part in the present routing with operations on these lists.
    pub fn enter(present: &ArcSwap<Routing>, lists: impl Iterator<Item = Token> + Clone) -> Self {
        loop {
            let admission = Self::to(present.load_full(), lists.clone());
            // Pairs with the fence in `InFlight::share_ended`. If the routing is replaced at this moment, either this
            // operation sees the next routing, or the operations of the next routing see the counts.
            fence(Ordering::SeqCst);
            if Arc::ptr_eq(&admission.routing, &present.load()) {
                return admission;
            }
        }
    }

    fn to(routing: Arc<Routing>, lists: impl Iterator<Item = Token>) -> Self {
        let shares: SmallVec<_> = lists.map(share_of).collect();
        shares.iter().for_each(|share| routing.in_flight.begin(*share));
        Self { routing, shares }
    }

    /// The same for some of the lists, which can last longer.
    pub fn part(&self, lists: impl Iterator<Item = Token>) -> Self {
        Self::to(Arc::clone(&self.routing), lists)
    }

    pub fn routing(&self) -> &Routing {
        &self.routing
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.shares.iter().for_each(|share| self.routing.in_flight.end(*share));
    }
}

/// A list actor's place in a routing, with the permits for operations in it.
#[derive(Clone)]
pub(super) struct Seat {
    pub slot: Arc<ActorSlot<ListActor>>,
    pub permits: Arc<Semaphore>,
}

/// The actors of a pool, from one change of their number or permits to the next.
pub(super) struct Routing {
    seats: Vec<Seat>,
    permits_per_actor: usize,
    /// The routing that this one replaced.
    before: Option<Before>,
    in_flight: Arc<InFlight>,
    /// Closes when the last operation drops this routing.
    ended: watch::Sender<()>,
}

struct Before {
    seats: usize,
    in_flight: Arc<InFlight>,
    ended: watch::Receiver<()>,
}

impl Before {
    /// Whether the channel has lost its sender.
    fn is_over(&self) -> bool {
        self.ended.has_changed().is_err()
    }
}

impl Routing {
    /// The first of a pool.
    pub fn first(slots: Vec<Arc<ActorSlot<ListActor>>>, permits_per_actor: usize) -> Self {
        let permits = || Arc::new(Semaphore::new(permits_per_actor));
        let seats = slots.into_iter().map(|slot| Seat { slot, permits: permits() }).collect();
        Self { seats, permits_per_actor, before: None, in_flight: InFlight::new(), ended: watch::Sender::new(()) }
    }

    /// The next routing, for these slots. If the number of permits changes, operations of this routing keep their
    /// permits, in addition to the permits of the next one.
    pub fn next(&self, slots: Vec<Arc<ActorSlot<ListActor>>>, permits_per_actor: usize) -> Self {
        let mut next = Self::first(slots, permits_per_actor);
        if permits_per_actor == self.permits_per_actor {
            for seat in &mut next.seats {
                if let Some(kept) = self.seats.iter().find(|kept| Arc::ptr_eq(&kept.slot, &seat.slot)) {
                    *seat = kept.clone();
                }
            }
        }
        let (seats, in_flight, ended) = (self.seats.len(), Arc::clone(&self.in_flight), self.ended.subscribe());
        next.before = Some(Before { seats, in_flight, ended });
        next
    }

    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    pub fn slots(&self) -> Vec<Arc<ActorSlot<ListActor>>> {
        self.seats.iter().map(|seat| Arc::clone(&seat.slot)).collect()
    }

    pub fn permits_per_actor(&self) -> usize {
        self.permits_per_actor
    }

    /// The permits in use.
    pub fn in_use(&self) -> usize {
        let free: usize = self.seats.iter().map(|seat| seat.permits.available_permits()).sum();
        (self.seats.len() * self.permits_per_actor).saturating_sub(free)
    }

    /// The place of the seat whose actor has a list.
    pub fn place_of(&self, list: Token) -> usize {
        list.bucket(self.seats.len())
    }

    /// Waits until no operation runs on a list in its previous actor, at most until the deadline. Returns whether that
    /// is so.
    pub async fn settled(&self, list: Token, deadline: Instant) -> bool {
        let Some(before) = self.before.as_ref().filter(|before| !before.is_over()) else { return true };
        if list.bucket(before.seats) == list.bucket(self.seats.len()) {
            return true;
        }
        // On the heap, so that every other operation has no room for it.
        Box::pin(before.in_flight.share_ended(share_of(list), deadline)).await
    }

    /// Waits until the last operation of the previous routing has ended, at most until `until`. Returns whether it
    /// has.
    pub async fn before_ended(&self, until: Instant) -> bool {
        let Some(before) = &self.before else { return true };
        let mut ended = before.ended.clone();
        timeout_at(until, async move { while ended.changed().await.is_ok() {} }).await.is_ok()
    }
}

impl std::fmt::Debug for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routing").field("actors", &self.seats.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn slots(count: usize) -> Vec<Arc<ActorSlot<ListActor>>> {
        (0..count).map(|_| Arc::new(ActorSlot::new("list actor"))).collect()
    }

    fn tokens() -> impl Iterator<Item = Token> {
        (0..1_000_u32).map(|i| Token::of_bytes(&i.to_be_bytes()))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[tokio::test]
    async fn a_list_that_moves_waits_for_its_own_operations_alone() {
        let present = ArcSwap::from_pointee(Routing::first(slots(2), 4));
        let is_moved = |token: &Token| token.bucket(2) != token.bucket(3);
        let moved: Vec<_> = tokens().filter(is_moved).take(2).collect();
        let stays = tokens().find(|token| !is_moved(token)).unwrap();
        let begun = Admission::enter(&present, moved[..1].iter().copied());
        let part = begun.part(moved[..1].iter().copied());
        let second = Arc::new(present.load().next(slots(3), 4));
        present.store(Arc::clone(&second));
        for other in [stays, moved[1]] {
            assert!(second.settled(other, soon()).await);
        }
        assert!(!second.settled(moved[0], soon()).await);
        drop(begun);
        assert!(!second.settled(moved[0], soon()).await, "a part goes on");
        let later = Instant::now() + Duration::from_secs(60);
        let (settled, ()) = tokio::join!(second.settled(moved[0], later), async {
            tokio::task::yield_now().await;
            drop(part);
        });
        assert!(settled);
        assert!(second.settled(moved[0], Instant::now()).await && second.before_ended(Instant::now()).await);
    }

    /// Otherwise the old and the new actor of a list could work on it at the same time.
    #[test]
    fn an_operation_is_admitted_to_the_routing_that_the_next_one_waits_for() {
        let present = ArcSwap::from_pointee(Routing::first(slots(1), 4));
        let list = tokens().next().unwrap();
        std::thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                for _ in 0..2_000 {
                    let next = present.load().next(slots(1), 4);
                    present.store(Arc::new(next));
                }
            });
            while !replacing.is_finished() {
                let admission = Admission::enter(&present, std::iter::once(list));
                let count = admission.routing().in_flight.counts[usize::from(share_of(list))].load(Ordering::SeqCst);
                assert_eq!(count, 1);
            }
        });
    }

    #[test]
    fn one_more_actor_takes_its_share_and_nothing_else_moves() {
        for actors in 1..8 {
            let moved = tokens().filter(|token| token.bucket(actors) != token.bucket(actors + 1));
            let to_the_new_one = tokens().filter(|token| token.bucket(actors + 1) == actors).count();
            assert_eq!(moved.count(), to_the_new_one);
            let share = 1_000 / (actors + 1);
            assert!((share * 7 / 10..share * 13 / 10).contains(&to_the_new_one), "{to_the_new_one} of {actors} + 1");
        }
    }
}
