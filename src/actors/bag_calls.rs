//! Calls about bags, and about the entries by which they are found.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::list_calls::token_of_walk;
use super::list_error::ListError;
use super::list_pool::ListPool;
use super::routing::Admission;
use super::turns::Turn;
use super::work::{WantedTurns, WorkTerms};
use crate::domain::{FeatureKey, Item, ListKey, ListKeyRef, Token, Ttl};
use crate::items::{BagEntries, BagPage, BagSwap, BagSwaps, EntityPlace, ReadBag, SwapId, SwapPage, SwapScan, Swapped};

impl ListPool {
    /// The visible bag, or the fact that there is none, if the store has it in memory. Runs on this thread.
    pub fn bag_from_memory(&self, bag: ListKeyRef<'_>, ttl: Ttl, deadline: Instant) -> Option<Option<Item>> {
        self.inner.abilities.memory.as_ref()?.bag_from_memory(&self.operation(ttl, deadline), bag)
    }

    /// The same for several bags, in the order of the entries whose values are the IDs of their entities.
    pub fn bags_from_memory(
        &self,
        feature_key: &FeatureKey,
        entries: &[Item],
        ttl: Ttl,
        deadline: Instant,
    ) -> Vec<Option<Option<Item>>> {
        match &self.inner.abilities.memory {
            Some(memory) => memory.bags_from_memory(&self.operation(ttl, deadline), feature_key, entries),
            None => vec![None; entries.len()],
        }
    }

    /// The visible bag, if there is one: from memory if the store can, or else through the bag's actor.
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

    /// The visible bag through its actor, for a caller that has already tried to read from memory.
    pub async fn bag_through_actor(&self, list: ListKey, ttl: Ttl, deadline: Instant) -> Result<ReadBag, ListError> {
        self.read(list, ttl, deadline, async |session, op, list| session.bag(op, list).await).await
    }

    /// Replaces a bag, if it is still the one that was read.
    pub async fn swap_bag(
        &self,
        list: ListKey,
        ttl: Ttl,
        swap: BagSwap,
        deadline: Instant,
    ) -> Result<Swapped, ListError> {
        self.write(list, Turn::Alone, ttl, deadline, async move |session, op, list| {
            session.swap_bag(op, list, swap).await
        })
        .await
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
        self.deliver(token, WorkTerms::of_read(ttl, deadline), async move |session, op| {
            session.bags(op, &feature_key, from.as_ref(), limit).await
        })
        .await
    }

    /// Adds entries for bags that are still the ones that were read, each bag once, and returns the outcomes in their
    /// order. A store that writes many lists as one adds them together. A failure may leave some done.
    pub async fn enter_bags(
        &self,
        bags: Vec<BagEntries>,
        ttl: Ttl,
        deadline: Instant,
    ) -> Result<Vec<Swapped>, ListError> {
        let admission = Admission::enter(&self.inner.routing, bags.iter().map(|bag| bag.bag.token()));
        let routing = &admission.routing;
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
            let turns = WantedTurns::AloneOnEach(bags.iter().map(|bag| bag.bag.clone()).collect());
            let part = admission.part(bags.iter().map(|bag| bag.bag.token()));
            let terms = WorkTerms::of_write(ttl, deadline, turns);
            let entering =
                self.deliver_to(part, seat, terms, async move |session, op| session.enter_bags(op, bags).await);
            let swapped = entering.await?;
            Ok::<_, ListError>(places.into_iter().zip(swapped))
        });
        for entered in join_all(entered).await {
            entered?.for_each(|(place, one)| swapped[place] = one);
        }
        Ok(swapped)
    }

    /// How the store changes a bag together with its entries.
    pub fn bag_swaps(&self) -> BagSwaps {
        self.inner.abilities.bag_swaps
    }

    /// Swaps of bags whose entries may not be written: a part of a scan of them.
    pub async fn unfinished_swaps(&self, scan: SwapScan, deadline: Instant) -> Result<SwapPage, ListError> {
        // Each scan runs in another actor.
        let token = Token::of_bytes(&scan.number.to_be_bytes());
        self.deliver(token, WorkTerms::of_read(Ttl::ENDLESS, deadline), async move |session, op| {
            match session.swap_journal() {
                Some(journal) => journal.unfinished_swaps(op, scan).await,
                None => Ok(SwapPage::default()),
            }
        })
        .await
    }

    /// Records that the entries of a swap are written.
    pub async fn finish_swap(&self, swap: SwapId, deadline: Instant) -> Result<(), ListError> {
        let token = Token::of_bytes(swap.as_bytes());
        self.deliver(token, WorkTerms::of_write(Ttl::ENDLESS, deadline, WantedTurns::None), async move |session, op| {
            match session.swap_journal() {
                Some(journal) => journal.finish_swap(op, swap).await,
                None => Ok(()),
            }
        })
        .await
    }
}
