//! Calls about bags, and the entries by which they are found.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::list_error::ListError;
use super::list_pool::{Effect, ListPool, token_of_walk};
use super::messages::{BagEntities, Bags, EnterBags, FinishSwap, GetBag, SwapBag, UnfinishedSwaps};
use crate::domain::{FeatureKey, Item, ListKey, ListKeyRef, Token, Ttl};
use crate::items::{
    BagEntries, BagPage, BagSwap, EntityPage, EntityPlace, Operation, ReadBag, SwapId, SwapLook, SwapPage, Swapped,
};

impl ListPool {
    /// The visible bag, or that there is none, if the store can tell at once from memory, on this thread.
    pub fn bag_from_memory(&self, bag: ListKeyRef<'_>, ttl: Ttl, deadline: Instant) -> Option<Option<Item>> {
        self.inner.store.bag_from_memory(&Operation::new(self.inner.clock.now(), ttl, deadline), bag)
    }

    /// The same of several bags, in the order of the entries whose values are the IDs of their entities.
    pub fn bags_from_memory(
        &self,
        feature_key: &FeatureKey,
        entries: &[Item],
        ttl: Ttl,
        deadline: Instant,
    ) -> Vec<Option<Option<Item>>> {
        let op = Operation::new(self.inner.clock.now(), ttl, deadline);
        self.inner.store.bags_from_memory(&op, feature_key, entries)
    }

    /// The visible bag, if there is one: from memory if the store can, else through the bag's actor.
    pub async fn bag(&self, list: ListKey, ttl: Ttl, deadline: Instant) -> Result<Option<Item>, ListError> {
        if let Some(found) = self.bag_from_memory(list.borrowed(), ttl, deadline) {
            return Ok(found);
        }
        Ok(self.bag_through_actor(list, ttl, deadline).await?.bag)
    }

    /// The same for a swap of that bag, with the row that the swap names.
    pub async fn bag_to_swap(&self, list: ListKey, ttl: Ttl, deadline: Instant) -> Result<ReadBag, ListError> {
        if let Some(bag) = self.bag_from_memory(list.borrowed(), ttl, deadline) {
            return Ok(ReadBag { bag, row: None });
        }
        self.bag_through_actor(list, ttl, deadline).await
    }

    /// The visible bag through its actor, where it is known not to be in memory.
    pub async fn bag_through_actor(&self, list: ListKey, ttl: Ttl, deadline: Instant) -> Result<ReadBag, ListError> {
        self.send(list, ttl.into(), deadline, Effect::Read, |envelope| GetBag { envelope }).await
    }

    /// Puts a bag in the place of another, if that is the one that is there.
    pub async fn swap_bag(
        &self,
        list: ListKey,
        ttl: Ttl,
        swap: BagSwap,
        deadline: Instant,
    ) -> Result<Swapped, ListError> {
        self.send(list, ttl.into(), deadline, Effect::Write, |envelope| SwapBag { envelope, swap }).await
    }

    /// The entities of the bags of a type, from a place on: for who looks at each, since some may have no visible bag.
    pub async fn bag_entities(
        &self,
        feature_key: FeatureKey,
        ttl: Ttl,
        from: Option<EntityPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<EntityPage, ListError> {
        let token = token_of_walk(&feature_key, from.as_ref());
        let message = |permit| BagEntities { feature_key, ttl, from, limit, deadline, permit };
        self.deliver(token, deadline, Effect::Read, message).await
    }

    /// The visible bags of a type, from a place on: [`Self::entities`] and [`Self::bag`] together.
    pub async fn bags(
        &self,
        feature_key: FeatureKey,
        ttl: Ttl,
        from: Option<EntityPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<BagPage, ListError> {
        let token = token_of_walk(&feature_key, from.as_ref());
        let message = |permit| Bags { feature_key, ttl, from, limit, deadline, permit };
        self.deliver(token, deadline, Effect::Read, message).await
    }

    /// Adds entries for bags that are still those that were read, each bag once, and tells in their order what became
    /// of them: together where the store writes many lists as one. A failure may leave some of them done.
    pub async fn enter_bags(
        &self,
        bags: Vec<BagEntries>,
        ttl: Ttl,
        deadline: Instant,
    ) -> Result<Vec<Swapped>, ListError> {
        let routing = self.inner.routing.load_full();
        let mut of_seats: Vec<(Vec<usize>, Vec<BagEntries>)> =
            routing.seats().iter().map(|_| Default::default()).collect();
        let mut swapped = vec![Swapped::Lost; bags.len()];
        for (place, bag) in bags.into_iter().enumerate() {
            let token = bag.bag.token();
            if !routing.settled(token, deadline).await {
                return Err(ListError::DeadlineExceeded { outcome_unknown: false });
            }
            let (places, bags) = &mut of_seats[routing.place_of(token)];
            places.push(place);
            bags.push(bag);
        }
        let entered = of_seats.into_iter().enumerate().filter(|(_, (places, _))| !places.is_empty());
        let entered = entered.map(async |(seat, (places, bags))| {
            let message = |permit| EnterBags { bags, ttl, deadline, permit };
            let swapped = self.deliver_to(Arc::clone(&routing), seat, deadline, Effect::Write, message).await?;
            Ok::<_, ListError>(places.into_iter().zip(swapped))
        });
        for entered in join_all(entered).await {
            entered?.for_each(|(place, one)| swapped[place] = one);
        }
        Ok(swapped)
    }

    /// Whether swaps of bags may be left unfinished.
    pub fn leaves_swaps(&self) -> bool {
        self.inner.store.leaves_swaps()
    }

    /// Swaps of bags whose entries may not be written: a part of a look at them.
    pub async fn unfinished_swaps(&self, look: SwapLook, deadline: Instant) -> Result<SwapPage, ListError> {
        // Each look is another actor's.
        let token = Token::of_bytes(&look.number.to_be_bytes());
        self.deliver(token, deadline, Effect::Read, |permit| UnfinishedSwaps { look, deadline, permit }).await
    }

    /// Says that the entries of a swap are written.
    pub async fn finish_swap(&self, swap: SwapId, deadline: Instant) -> Result<(), ListError> {
        let token = Token::of_bytes(swap.id.as_bytes());
        self.deliver(token, deadline, Effect::Write, |permit| FinishSwap { swap, deadline, permit }).await
    }
}
