//! A session whose operations take turns as in a list actor: for suites that use a store without a pool.

use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use liststore::actors::{ListTurns, Turn};
use liststore::domain::{FeatureKey, Item, ListKey, NewItem, Timestamp};
use liststore::items::{
    AggregateOutcome, Aggregation, BagEntries, BagScan, BagSwap, Bounds, Count, Done, EntityPage, EntityPlace,
    ItemPage, ItemSession, JoinedAdds, OpContext, Range, ReadBag, Removal, RemovalTurns, StoreError, SwapJournal,
    Swapped, ToAwait,
};

pub struct InTurn(Rc<ListTurns>);

impl InTurn {
    pub fn around(session: Rc<dyn ItemSession>) -> Rc<dyn ItemSession> {
        Rc::new(Self(ListTurns::of(session)))
    }
}

#[async_trait(?Send)]
impl ItemSession for InTurn {
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        self.0.session().get(op, list, range).await
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        self.0.start_add(op, list, items, done)
    }

    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        self.0.session().contains(op, list, within, values).await
    }

    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        self.0.session().lookup(op, list, members).await
    }

    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        self.0.session().count(op, list, within, max).await
    }

    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        self.0.session().aggregate(op, list, aggregation).await
    }

    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        let _turn = self.0.take(Turn::Alone, list, op.deadline).await?;
        self.0.session().remove(op, list, removal).await
    }

    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError> {
        let _turn = self.0.take(Turn::to_clear(list), list, op.deadline).await?;
        self.0.session().remove_all(op, list).await
    }

    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError> {
        self.0.session().bag(op, list).await
    }

    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        let _turn = self.0.take(Turn::Alone, list, op.deadline).await?;
        self.0.session().swap_bag(op, list, swap).await
    }

    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        let lists: Vec<_> = bags.iter().map(|bag| bag.bag.clone()).collect();
        let _turns = self.0.take_each(&lists, op.deadline).await?;
        self.0.session().enter_bags(op, bags).await
    }

    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.0.session().entities(op, feature_key, from, limit).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        self.0.session().removal_turns()
    }

    /// The turns join adds.
    fn joined_adds(self: Rc<Self>) -> Option<Rc<dyn JoinedAdds>> {
        None
    }

    fn bag_scan(&self) -> Option<&dyn BagScan> {
        self.0.session().bag_scan()
    }

    fn swap_journal(&self) -> Option<&dyn SwapJournal> {
        self.0.session().swap_journal()
    }
}
