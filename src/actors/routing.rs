//! Which list actor has a list, and how lists move between actors when their number changes.
//!
//! A list belongs to the actor that jump consistent hashing of its token selects (Lamping and Veach, 2014). So of n + 1
//! actors the new one takes about 1/(n + 1) of the lists, and no other list moves. At any moment a list has one actor:
//! an operation keeps the routing that admitted it until the store has finished, and the operations of a moved list wait
//! until the previous routing has ended.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::list_actor::ListActor;
use super::slot::ActorSlot;
use crate::domain::Token;

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
    /// Closes when the last operation drops this routing.
    ended: watch::Sender<()>,
}

struct Before {
    seats: usize,
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
        Self { seats, permits_per_actor, before: None, ended: watch::Sender::new(()) }
    }

    /// The next routing, for these slots. If the number of permits changes, operations of this routing keep their permits,
    /// in addition to the permits of the next one.
    pub fn next(&self, slots: Vec<Arc<ActorSlot<ListActor>>>, permits_per_actor: usize) -> Self {
        let mut next = Self::first(slots, permits_per_actor);
        if permits_per_actor == self.permits_per_actor {
            for seat in &mut next.seats {
                if let Some(kept) = self.seats.iter().find(|kept| Arc::ptr_eq(&kept.slot, &seat.slot)) {
                    *seat = kept.clone();
                }
            }
        }
        next.before = Some(Before { seats: self.seats.len(), ended: self.ended.subscribe() });
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

    /// Waits until no operation runs on a list in its previous actor, at most until the deadline. Returns whether that is
    /// so.
    pub async fn settled(&self, list: Token, deadline: Instant) -> bool {
        let Some(before) = self.before.as_ref().filter(|before| !before.is_over()) else { return true };
        if list.bucket(before.seats) == list.bucket(self.seats.len()) {
            return true;
        }
        self.before_ended(deadline).await
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

    use super::super::permit::WorkPermit;
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
    async fn lists_that_move_wait_for_what_was_begun_and_no_others_do() {
        let first = Arc::new(Routing::first(slots(2), 4));
        let second = Arc::new(first.next(slots(3), 4));
        let is_moved = |token: &Token| token.bucket(2) != token.bucket(3);
        let (moved, stays) = (tokens().find(is_moved).unwrap(), tokens().find(|token| !is_moved(token)).unwrap());
        let seat = &first.seats()[first.place_of(stays)];
        let place = Arc::clone(&seat.permits).try_acquire_owned().unwrap();
        let begun = WorkPermit::new(place, None, first.clone(), Arc::default());
        assert_eq!(first.in_use(), 1);
        drop(first);
        assert!(second.settled(stays, soon()).await);
        assert!(!second.settled(moved, soon()).await);
        let later = Instant::now() + Duration::from_secs(60);
        let (settled, ()) = tokio::join!(second.settled(moved, later), async {
            tokio::task::yield_now().await;
            drop(begun);
        });
        assert!(settled);
        assert!(second.settled(moved, Instant::now()).await && second.before_ended(Instant::now()).await);
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
