//! Which list actor has a list, and how lists move between actors when their number changes.
//!
//! A list belongs to the actor that jump consistent hashing of its token selects (Lamping and Veach, 2014). So of n + 1
//! actors the new one takes about 1/(n + 1) of the lists, and no other list moves. At any moment a list has one actor:
//! an operation keeps its [`Admission`] to a routing until the store has finished, and the operations of a moved list
//! wait until its operations of the previous routing have ended.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::in_flight::{Counted, InFlight};
use super::list_actor::ListActor;
use super::slot::ActorSlot;
use crate::domain::Token;

/// The part of an operation in a routing.
#[derive(Debug)]
pub(super) struct Admission {
    /// Lasts as long as the operation.
    pub routing: Arc<Routing>,
    /// The next actors of its lists wait until it is dropped.
    pub counted: Counted,
}

impl Admission {
    /// Takes part in the present routing with operations on these lists.
    pub fn enter(present: &ArcSwap<Routing>, lists: impl Iterator<Item = Token> + Clone) -> Self {
        loop {
            let routing = present.load_full();
            let counted = routing.in_flight.count(lists.clone());
            // Pairs with the fence in `InFlight::ended`. If the routing is replaced at this moment, either this
            // operation sees the next routing, or the operations of the next routing see the counts.
            fence(Ordering::SeqCst);
            if Arc::ptr_eq(&routing, &present.load()) {
                return Self { routing, counted };
            }
        }
    }

    /// The same for some of the lists, which can last longer.
    pub fn part(&self, lists: impl Iterator<Item = Token>) -> Self {
        Self { routing: Arc::clone(&self.routing), counted: self.routing.in_flight.count(lists) }
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
        Box::pin(before.in_flight.ended(list, deadline)).await
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
    async fn a_moving_list_waits_only_for_its_own_operations() {
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
    fn an_operation_is_counted_by_the_current_routing() {
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
                assert_eq!(admission.routing.in_flight.of(list), 1);
            }
        });
    }

    #[test]
    fn a_new_actor_receives_its_share_and_no_other_list_moves() {
        for actors in 1..8 {
            let moved = tokens().filter(|token| token.bucket(actors) != token.bucket(actors + 1));
            let to_the_new_one = tokens().filter(|token| token.bucket(actors + 1) == actors).count();
            assert_eq!(moved.count(), to_the_new_one);
            let share = 1_000 / (actors + 1);
            assert!((share * 7 / 10..share * 13 / 10).contains(&to_the_new_one), "{to_the_new_one} of {actors} + 1");
        }
    }
}
