//! The core of a store.

use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Abilities, ItemSession, StoreError};

/// A store of lists.
///
/// # Visible items
/// An item is visible if and only if these hold: `now < timestamp + ttl` for the operation's `now` and `ttl`; `now` is
/// before the `expires_at` that it was stored with; and, if the operation has `max_items`, fewer than that many such
/// items come before it in the list's order (newest first, equal timestamps by the digest of the value, descending).
/// Reads return only visible items, however late the space of the others is reclaimed. Everything that one operation
/// finds or counts is among the items that are visible at one moment of it. Bounds, limits and page tokens select among
/// these.
///
/// An item beyond `max_items`, by any operation or by the answer of [`Reclaim::bound`](super::Reclaim::bound), may be
/// reclaimed from then on. As long as it is not reclaimed, it becomes visible again when items before it are removed or
/// expire, or when `max_items` is raised. An item that was never beyond the bound is never reclaimed for it.
///
/// # Sets A list whose identity ([`ListKey::identity`](liststore_contract::domain::ListKey::identity)) is not `item` is
/// a set. Its items are members ([`Identity::member`](liststore_contract::domain::Identity::member)), and for every
/// reader, at any moment, a member is in it at most once.
/// [`Keep::replaces`](liststore_contract::domain::Keep::replaces) decides between the visible item of a member and each
/// new one, in any order, so that the order of adds does not change the result. An item that is not visible by the
/// add's `now` and `ttl` counts as missing. It is never shown again once its member was added again, with any later
/// TTL. After a removal, a member is as if it had never been there.
///
/// Items of sets are stored and ordered by their stored bytes ([`Identity`](liststore_contract::domain::Identity)):
/// everywhere here an item's `value`, and the digest in its item key, refer to these.
///
/// # Bags
/// A list that can hold one item, which a [swap](super::BagSwap) puts there: see [`bags`](super::bags).
#[async_trait(?Send)]
pub trait ItemStore: Send + Sync + 'static {
    /// Opens a session on the arbiter that calls this: its I/O runs there.
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError>;

    /// The optional abilities of the store. The answer never changes.
    fn abilities(self: Arc<Self>) -> Abilities;

    /// Makes all writes that were acknowledged before the call survive a loss of power, if the store can promise that.
    /// Every note about items in another store, such as the progress of a job, follows this call. Blocks.
    fn sync(&self) -> Result<(), StoreError>;

    /// Waits until no work remains of operations that have ended: a store may have sent requests that it cannot
    /// cancel, and whose callers have left. Called before sessions are dropped, and for as long as stopping may take.
    async fn idle(&self);

    /// Persists all acknowledged writes and releases the store's resources. No session may be used during or after it.
    async fn close(&self) -> Result<(), StoreError>;

    /// The writes that the store currently refuses, and the reason, if it refuses any. Reads continue.
    fn read_only(&self) -> Option<String>;

    /// A condition that an operator should fix although operations succeed: for `/readyz`.
    fn warning(&self) -> Option<String>;
}
