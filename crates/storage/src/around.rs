//! Sessions around other sessions: for suites and for tools that inspect or disturb each operation.
//!
//! [`Surrounded`] passes on the operations of a session. The wrapper is an [`Around`], which does not name them. So a
//! later operation is passed on like the others.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{FeatureKey, Item, ListKey, NewItem, Timestamp};

use super::{
    AggregateOutcome, Aggregation, BagEntries, BagScan, BagSwap, Bounds, Count, Done, EntityPage, EntityPlace,
    ItemPage, ItemSession, JoinedAdds, OpContext, Range, ReadBag, Removal, RemovalTurns, StoreError, SwapJournal,
    Swapped, ToAwait,
};

/// What an operation is about to do.
#[derive(Debug, Clone, Copy)]
pub enum ListAccess<'a> {
    /// Reads a list or a bag.
    Read(&'a ListKey),
    /// Removes some items of a list.
    Remove(&'a ListKey),
    /// Removes all items of a list.
    RemoveAll(&'a ListKey),
    Swap(&'a ListKey),
    EnterBags(&'a [BagEntries]),
    Walk(&'a FeatureKey),
}

/// What a session does around the operations of another one.
#[async_trait(?Send)]
pub trait Around: 'static {
    /// Is dropped once the operation has ended.
    type Held;

    /// The session inside.
    fn session(&self) -> &dyn ItemSession;

    /// Called before each operation except adds. A failure is the operation's.
    async fn before(&self, op: &OpContext, access: ListAccess<'_>) -> Result<Self::Held, StoreError>;

    /// [`ItemSession::start_add`], with the list as the session inside knows it. The place of an add among the writes
    /// of its list is decided during the call.
    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait>;

    /// The feature key of lists of items that the session inside knows by another one.
    fn inside<'k>(&self, feature_key: &'k FeatureKey) -> Cow<'k, FeatureKey> {
        Cow::Borrowed(feature_key)
    }
}

/// A session with an [`Around`].
pub struct Surrounded<A>(Rc<A>);

impl<A: Around> Surrounded<A> {
    pub fn by(around: A) -> Rc<dyn ItemSession> {
        Rc::new(Self(Rc::new(around)))
    }

    fn list<'l>(&self, list: &'l ListKey) -> Cow<'l, ListKey> {
        match self.0.inside(&list.feature_key) {
            Cow::Borrowed(_) => Cow::Borrowed(list),
            Cow::Owned(feature_key) => Cow::Owned(ListKey::new(feature_key, list.entity_id.clone())),
        }
    }
}

#[async_trait(?Send)]
impl<A: Around> ItemSession for Surrounded<A> {
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        let _held = self.0.before(op, ListAccess::Read(list)).await?;
        self.0.session().get(op, &self.list(list), range).await
    }

    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let _held = self.0.before(op, ListAccess::Read(list)).await?;
        self.0.session().contains(op, &self.list(list), within, values).await
    }

    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        let _held = self.0.before(op, ListAccess::Read(list)).await?;
        self.0.session().lookup(op, &self.list(list), members).await
    }

    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        let _held = self.0.before(op, ListAccess::Read(list)).await?;
        self.0.session().count(op, &self.list(list), within, max).await
    }

    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        let _held = self.0.before(op, ListAccess::Read(list)).await?;
        self.0.session().aggregate(op, &self.list(list), aggregation).await
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        let list = self.list(&list).into_owned();
        Rc::clone(&self.0).start_add(op, list, items, done)
    }

    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        let _held = self.0.before(op, ListAccess::Remove(list)).await?;
        self.0.session().remove(op, &self.list(list), removal).await
    }

    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError> {
        let _held = self.0.before(op, ListAccess::RemoveAll(list)).await?;
        self.0.session().remove_all(op, &self.list(list)).await
    }

    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError> {
        let _held = self.0.before(op, ListAccess::Read(list)).await?;
        self.0.session().bag(op, list).await
    }

    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        let _held = self.0.before(op, ListAccess::Swap(list)).await?;
        self.0.session().swap_bag(op, list, swap).await
    }

    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        let _held = self.0.before(op, ListAccess::EnterBags(&bags)).await?;
        self.0.session().enter_bags(op, bags).await
    }

    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        let _held = self.0.before(op, ListAccess::Walk(feature_key)).await?;
        self.0.session().entities(op, &self.0.inside(feature_key), from, limit).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        self.0.session().removal_turns()
    }

    /// Each add passes the wrapper.
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
