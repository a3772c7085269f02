//! The core of a session: the list operations.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{FeatureKey, Item, ListKey, NewItem, Timestamp};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::{
    AggregateOutcome, Aggregation, BagEntries, BagPage, BagScan, BagSwap, Bounds, Count, EntityPage, EntityPlace,
    ItemPage, OpContext, Range, ReadBag, Removal, StoreError, SwapJournal, Swapped,
};

/// Called when a write is complete, on any thread: it must not wait.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// An add to a set, with the arguments of [`ItemSession::start_add`].
pub struct SetAdd {
    pub op: OpContext,
    pub items: Vec<NewItem>,
    pub done: Done,
}

/// The rest of an operation, to await on its session's arbiter.
pub type ToAwait = Pin<Box<dyn Future<Output = ()>>>;

/// The operations that a removal must not overlap with, on its list: it first finds items, and then removes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalTurns {
    /// Other removals: two would each find, and count, what only one of them removes.
    BetweenRemovals,
    /// Any other write: one in between would be lost in part or counted twice.
    BetweenWrites,
}

/// The list operations.
///
/// One list is only ever written through one session of a process. Operations on one list may overlap, except for
/// [`ItemSession::remove`], which takes turns by [`ItemSession::removal_turns`]. The list actor ensures both.
///
/// In a set, adds and removals take turns, regardless of the store's answer: each finds the result of the previous
/// ones. So do all writes of a bag.
///
/// Each operation is about one list, which is one partition. All that it writes there is atomic as its
/// own description says; nothing is promised across lists.
///
/// A future that is dropped before it is ready may leave a write carried out or not, never in part.
#[async_trait(?Send)]
pub trait ItemSession: 'static {
    /// Get List Items. A list without writes is empty.
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError>;

    /// The newest visible item of each of these values within the bounds, in the order of the values.
    /// A value may be given several times. The value of a keyed item is its payload.
    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError>;

    /// The visible item of each of these members of a set, in the order of the members; none if there is none.
    /// A member may be given several times. It takes as long in a long list as in a short one. Each answer is as of
    /// a moment during the call, and not all as of one.
    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError>;

    /// How many visible items there are within the bounds; it counts no further than `max`, which is at
    /// least 1.
    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError>;

    /// Aggregates over the visible items of windows of time: it reads at most as many items as the aggregation may.
    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError>;

    /// Add List Items: all of them or none. `items` has at least one entry and no expired one. The same (timestamp,
    /// value) is one item, however often it is added; the last add's `expires_at` applies. In a set an item may
    /// replace another one of its member, or be left out for it: readers see this at the moment at which they see the
    /// whole add. When `done` is called with `Ok`, the items survive a crash of the process (and of the machine, if
    /// the store's settings promise that), and every later read sees them.
    ///
    /// Returns a future to await before the add can begin, if any. Without one, the add is in its place among the
    /// list's writes.
    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait>;

    /// Remove List Items: removes every item of the removal that existed when the operation began, including hidden
    /// ones. An item that is added during the removal may stay. Returns the number of removed *visible* items. Safe to
    /// repeat.
    ///
    /// A removal by value or between two moments may take much: a store may then do it in parts, each of them whole.
    /// A failure in between has an unknown outcome.
    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError>;

    /// Remove All List Items: removes every item that existed when the operation began. For a set it also empties a
    /// list of items of the same key, because the identity of deleted generations is no longer known.
    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError>;

    /// The visible bag of a list of bags, if there is one: all that was acknowledged before is seen.
    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError>;

    /// Puts a bag in the place of the one that is visible, or takes it out, with its entries: see
    /// [`bags`](super::bags).
    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError>;

    /// Adds entries for bags that are still the ones that were read, each bag once, and returns the outcomes in their
    /// order. Each is like a [`ItemSession::swap_bag`] that leaves its bag as it is; they become visible in any order.
    /// If another swap of the bag comes at the same time, its changes of an entry take precedence. A failure may leave
    /// some done.
    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError>;

    /// The entities that have lists of a feature version with visible items, from a place on: at most `limit`, which
    /// is at least 1, each once, in a stable order. The work and the memory of one call are bounded, for any number of
    /// other lists: so a part may have few entities, or none, and not be the last.
    ///
    /// A walk finds each list that has visible items during the whole walk. It may find a list that is filled or
    /// emptied during the walk. Of bags, it may also find entities without a visible bag: the caller reads each bag.
    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError>;

    /// The operations that must not overlap with [`ItemSession::remove`].
    fn removal_turns(&self) -> RemovalTurns;

    /// Present if the session writes several adds to one set together.
    fn joined_adds(self: Rc<Self>) -> Option<Rc<dyn JoinedAdds>>;

    /// Present if the session reads bags as it walks over them.
    fn bag_scan(&self) -> Option<&dyn BagScan>;

    /// Present if the store's swaps are [journaled](super::BagSwaps::Journaled).
    fn swap_journal(&self) -> Option<&dyn SwapJournal>;
}

/// A session that writes several adds to one set together.
pub trait JoinedAdds: 'static {
    /// Adds to one set that have waited for it together. Each has the effect of [`ItemSession::start_add`], and
    /// together they leave the same items as one after the other, in this order. The store may write several of them at
    /// one moment: then none is visible without the others, and they succeed or fail together.
    fn start_adds(self: Rc<Self>, list: ListKey, adds: Vec<SetAdd>) -> Option<ToAwait>;
}

const AFTER_DEADLINE: Duration = Duration::from_millis(500);

impl dyn ItemSession {
    /// Remove List Items with Value.
    pub async fn remove_value(&self, op: &OpContext, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
        self.remove(op, list, &Removal::Value(Bytes::copy_from_slice(value))).await
    }

    /// [`ItemSession::start_add`] for a caller that waits: until the deadline, and a moment longer, because a store
    /// that also ends the add at its deadline can still report the outcome.
    pub async fn add(self: &Rc<Self>, op: &OpContext, list: &ListKey, items: Vec<NewItem>) -> Result<(), StoreError> {
        op.begin()?;
        let (reply, added) = oneshot::channel();
        let done: Done = Box::new(|result| {
            let _nobody_waits = reply.send(result);
        });
        let to_await = Rc::clone(self).start_add(*op, list.clone(), items, done);
        let ended = async {
            if let Some(to_await) = to_await {
                to_await.await;
            }
            added.await
        };
        match timeout_at(op.deadline + AFTER_DEADLINE, ended).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(StoreError::Internal { reason: "an add was dropped".to_owned(), outcome_unknown: true }),
            Err(_) => Err(StoreError::Timeout { outcome_unknown: true }),
        }
    }
}

impl dyn ItemSession + '_ {
    /// The visible bags of a type, from a place on: the combined results of [`ItemSession::entities`] and
    /// [`ItemSession::bag`]. At most `limit`, which is at least 1, and fewer if they are large.
    pub async fn bags(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<BagPage, StoreError> {
        if let Some(walk) = self.bag_scan() {
            return walk.bags(op, feature_key, from, limit).await;
        }
        let EntityPage { entities, next } = self.entities(op, feature_key, from, limit).await?;
        let mut bags = Vec::with_capacity(entities.len());
        for entity in entities {
            let bag = self.bag(op, &ListKey::new(feature_key.clone(), entity.clone())).await?;
            bags.extend(bag.bag.map(|bag| (entity, bag)));
        }
        Ok(BagPage { bags, next })
    }
}
