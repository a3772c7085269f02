//! Reads from memory: answers on the calling thread, without a session.

use bytes::Bytes;
use liststore_contract::domain::{FeatureKey, Item, ListKey, ListKeyRef, Timestamp};

use super::{ItemPage, OpContext, Range};

/// The state of a list at one moment, opaque to all but the store that gave it. If a store gives the same
/// token of a list twice, nothing was written to the list in between. A token means nothing to a store
/// that was opened again, or to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateToken(u64);

impl StateToken {
    /// For stores.
    pub fn new(state: u64) -> Self {
        Self(state)
    }
}

/// For how long a page is the answer to gets of its list with the same range and TTL: as long as the list
/// is in this state, and the present is neither before `from` nor at `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub state: StateToken,
    /// A clock that was stepped back may see items again that had expired by then.
    pub from: Timestamp,
    /// Nanoseconds since the Unix epoch: the first moment at which one of the page's items, or the one
    /// after them, is no longer visible.
    pub until: u64,
}

/// A page that a store had in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageInMemory {
    pub page: ItemPage,
    /// None if it may already be another one.
    pub validity: Option<Validity>,
}

/// A store that has lists in memory.
///
/// Each read answers only if it can do so at once, and as a session would: the answer has all that was acknowledged
/// before, and nothing that a crash could still take back. `None` sends the caller to the list's session.
pub trait MemoryReads: Send + Sync + 'static {
    /// The state of a list. While the store returns the token of an earlier page's [`Validity`], that page has
    /// everything that was acknowledged before.
    fn state(&self, list: &ListKey) -> Option<StateToken>;

    fn get_from_memory(&self, op: &OpContext, list: &ListKey, range: &Range) -> Option<PageInMemory>;

    /// A bag, or the fact that there is none.
    fn bag_from_memory(&self, op: &OpContext, bag: ListKeyRef<'_>) -> Option<Option<Item>>;

    /// The same for several bags, in the order of the entries whose values are the IDs of their entities.
    fn bags_from_memory(&self, op: &OpContext, feature_key: &FeatureKey, entries: &[Item])
    -> Vec<Option<Option<Item>>>;

    /// The visible item of each of these members, in the order of the members.
    fn lookup_from_memory(&self, op: &OpContext, set: &ListKey, members: &[Bytes]) -> Option<Vec<Option<Item>>>;
}
