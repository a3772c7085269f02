//! The data plane's contract: the promises of every item store.
//!
//! An [`ItemStore`] is shared by all threads and opens sessions. An [`ItemSession`] lives in one arbiter, is owned by
//! one list actor, and carries out the list operations. One conformance suite (`tests/conformance`) checks every store
//! against this contract.

use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{
    FeatureKey, Item, ListKey, ListKeyRef, ListKeys, MaxItems, NewItem, Retention, Timestamp, Ttl,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

pub mod bags;
pub mod error;
pub mod memory;
mod request;

pub use bags::{
    BagAfter, BagEntries, BagPage, BagRow, BagSwap, EntryChange, ReadBag, SwapId, SwapLook, SwapPage, Swapped,
    UnfinishedSwap,
};
pub use error::StoreError;
pub use request::{Bounds, Count, EntityPage, EntityPlace, ItemPage, Range, Removal};

/// How long an operation of a job takes at most.
pub const JOB_OPERATION_TIME_MAX: Duration = Duration::from_secs(6);

/// The moment and the feature of a list operation.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The present, read once per operation: expiry is decided by this and nothing else.
    pub now: Timestamp,
    /// The present TTL of the list's feature version.
    pub ttl: Ttl,
    /// How many items of the list are visible, at most.
    pub max_items: Option<MaxItems>,
    /// When the caller stops waiting. A store begins no work, and no retry, after it.
    pub deadline: Instant,
}

impl Operation {
    pub fn new(now: Timestamp, retention: impl Into<Retention>, deadline: Instant) -> Self {
        let Retention { ttl, max_items } = retention.into();
        Self { now, ttl, max_items, deadline }
    }

    /// To be asked before work is begun: once the deadline has passed, the operation ends with
    /// nothing done.
    pub fn begin(&self) -> Result<(), StoreError> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(StoreError::Timeout { outcome_unknown: false }) }
    }
}

/// The content of a store's backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemBackup {
    pub data_files: u64,
    pub data_bytes: u64,
    /// The data files that could not be hard links.
    pub copied_files: u64,
    pub log_segments: u64,
    pub log_bytes: u64,
}

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

/// The permits of a store that bounds its own work, in all of its sessions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PermitCounts {
    /// The most that there can be at once.
    pub bound: usize,
    /// The most at present.
    pub limit: usize,
    pub in_use: usize,
    /// Operations that wait for one.
    pub waiting: usize,
}

/// What became of the bytes of items that were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erased {
    /// No file of the store holds them any more.
    Now,
    /// The store frees them later.
    Later,
}

/// Returns the visible part of the lists of a feature key at present, if that is known for certain and is bounded by
/// more than a TTL.
pub type BoundOf = Arc<dyn Fn(&str) -> Option<(Ttl, MaxItems)> + Send + Sync>;

/// Given the text of a feature key, whether no definition leads, or ever will, to any list of it.
pub type IsUnreachable = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A place where lists are kept.
///
/// # Visible items
/// An item is visible if and only if these hold: `now < timestamp + ttl` for the operation's `now` and `ttl`; `now` is
/// before the `expires_at` that it was stored with; and, if the operation has `max_items`, fewer than that many such
/// items come before it in the list's order (newest first, equal timestamps by the digest of the value, descending).
/// Reads return only visible items, however late the space of the others is reclaimed. Everything that one operation
/// finds or counts is among the items that are visible at one moment of it. Bounds, limits and page tokens select among
/// these.
///
/// An item beyond `max_items`, by any operation or by the answer of [`ItemStore::bound`], may be reclaimed from then
/// on. As long as it is not reclaimed, it becomes visible again when items before it are removed or expire, or when
/// `max_items` is raised. An item that was never beyond the bound is never reclaimed for it.
///
/// # Sets
/// A list with another identity ([`ListKey::identity`]) than that of items is a set. Its items are members
/// ([`Identity::member`](liststore_contract::domain::Identity::member)), and for every reader, at any moment, a member
/// is in it at most once. [`Keep::replaces`](liststore_contract::domain::Keep::replaces) decides between the visible
/// item of a member and each new one, in any order, so that the order of adds does not change the result. An item that
/// is not visible by the add's `now` and `ttl` counts as missing. It is never shown again once its member was added
/// again, with any later TTL. After a removal, a member is as if it had never been there.
///
/// Items of sets are stored and ordered by their stored bytes
/// ([`Identity`](liststore_contract::domain::Identity)): everywhere here an item's `value`, and the digest in its item
/// key, refer to these.
///
/// # Bags
/// A list that can hold one item, which a [swap](BagSwap) puts there: see [`bags`].
#[async_trait(?Send)]
pub trait ItemStore: Send + Sync + 'static {
    /// Opens a session on the arbiter that calls this: its I/O runs there.
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError>;

    /// Whether swaps of bags may be left unfinished: see [`ItemSession::unfinished_swaps`]. Otherwise, a bag and its
    /// entries change at one moment: no entry contradicts its state of the bag, as long as no two indexes write to one
    /// list, which belongs to one generation.
    fn leaves_swaps(&self) -> bool {
        false
    }

    /// Answers a get on the calling thread, without a session, if it can do so at once from memory
    /// and as rightly as a session would: all that was acknowledged before is in the answer, and
    /// nothing that a crash could still take back. `None` sends the caller to the list's session.
    fn get_from_memory(&self, _op: &Operation, _list: &ListKey, _range: &Range) -> Option<PageInMemory> {
        None
    }

    /// Tells a bag, or that there is none, in the same way.
    fn bag_from_memory(&self, _op: &Operation, _bag: ListKeyRef<'_>) -> Option<Option<Item>> {
        None
    }

    /// The same of several bags, in the order of the entries whose values are the IDs of their entities.
    fn bags_from_memory(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        entries: &[Item],
    ) -> Vec<Option<Option<Item>>> {
        let mut keys = ListKeys::of(feature_key);
        entries.iter().map(|entry| self.bag_from_memory(op, keys.key(&entry.value))).collect()
    }

    /// Answers a look-up of members in the same way.
    fn lookup_from_memory(&self, _op: &Operation, _set: &ListKey, _members: &[Bytes]) -> Option<Vec<Option<Item>>> {
        None
    }

    /// The state of a list, if the store can return it at once on the calling thread. While it returns the token of an
    /// earlier page's [`Validity`], that page has everything that was acknowledged before.
    fn state(&self, _list: &ListKey) -> Option<StateToken> {
        None
    }

    /// Sets how the store finds lists that no operation can read any more: it may free their space. The callback runs
    /// at any time, on threads that may wait.
    fn forget(&self, _unreachable: IsUnreachable) {}

    /// Says how a store can know of how many items its lists show at most: it may give back the room of the
    /// others. Asked at any time, on threads that may wait.
    fn bound(&self, _bound_of: BoundOf) {}

    /// Persists all acknowledged writes and releases the store's resources. No session may be used during or after it.
    async fn close(&self) -> Result<(), StoreError>;

    /// The writes that the store refuses at present, and the reason, if it refuses any. Reads continue.
    fn read_only(&self) -> Option<String> {
        None
    }

    /// Writes a consistent copy of the store into a directory, which is empty and on this machine. A
    /// store that is opened there has everything that was acknowledged before the call, and each
    /// write since wholly or not at all. Blocks for as long as it takes, and breaks off with an error
    /// once `cancelled` says so. One backup at a time.
    ///
    /// Calls `fixed` once the content of the copy is decided, before the store copies much. Until then the caller may
    /// hold up changes elsewhere, to copy them as of the same moment.
    fn backup(
        &self,
        _to: &Path,
        _cancelled: &(dyn Fn() -> bool + Sync),
        _fixed: &mut dyn FnMut(),
    ) -> Result<ItemBackup, StoreError> {
        let reason = "this item store does not support backups".to_owned();
        Err(StoreError::Unavailable { reason, outcome_unknown: false })
    }

    /// Makes all writes that were acknowledged before the call survive a loss of power, as far as the store can
    /// promise it. Every note about items in another store, such as the progress of a job, follows this call. Blocks.
    fn sync(&self) -> Result<(), StoreError>;

    /// Returns for each list whether the store holds anything of it, visible or not. All writes that were acknowledged
    /// before the call count. `None` if only a read of each list could find out. Blocks on the disk.
    fn held(&self, _lists: &[ListKey], _deadline: Instant) -> Result<Option<Vec<bool>>, StoreError> {
        Ok(None)
    }

    /// Frees at once the bytes that removals acknowledged before the call have left in the store's files, if the store
    /// can. Blocks for that time: it may have to rewrite everything.
    fn erase_removed(&self) -> Result<Erased, StoreError> {
        Ok(Erased::Later)
    }

    /// Has what removals that were acknowledged before the call have left leave the store's files until a date, which
    /// it returns. `None` if the store makes no such promise. Blocks on the disk.
    fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    /// Waits until no work remains of operations that have ended: a store may have sent requests that it cannot
    /// cancel, and whose callers have left. Called before sessions are dropped, and for as long as stopping may take.
    async fn idle(&self) {}

    /// The present work of a store that bounds its work itself, and the number of operations that it has refused since
    /// it was opened. The list actors then bound only the number of operations.
    fn permits(&self) -> Option<(PermitCounts, u64)> {
        None
    }

    /// How many requests one session of a store that bounds its own work may have at once, at most.
    fn permits_per_session(&self) -> Option<usize> {
        None
    }

    /// Another such bound, for the sessions that are open and those to come. At least 1.
    fn set_permits_per_session(&self, _permits: usize) {}

    /// Why sessions cannot be opened before `liststore migrate` was run, where that is so. Unlike other reasons it
    /// holds nothing that strangers should not read.
    fn awaits_migration(&self) -> Option<String> {
        None
    }

    /// What an operator should look after although operations succeed: for `/readyz`.
    fn warning(&self) -> Option<String> {
        None
    }
}

/// Called when a write is complete, on any thread: it must not wait.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// An add to a set, as [`ItemSession::start_add`] is given it.
pub struct SetAdd {
    pub op: Operation,
    pub items: Vec<NewItem>,
    pub done: Done,
}

/// What an operation still has to wait for, on its session's arbiter.
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
/// One list is only ever written through one session of a process. Operations on one list may overlap,
/// but for [`ItemSession::remove`], which takes turns as [`ItemSession::removal_turns`] says: the list actor
/// sees to both.
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
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError>;

    /// The newest visible item of each of these values within the bounds, in the order of the values.
    /// A value may be given several times. The value of a keyed item is its payload.
    async fn contains(
        &self,
        op: &Operation,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError>;

    /// The visible item of each of these members of a set, in the order of the members; none where there is none.
    /// A member may be given several times. It takes as long in a long list as in a short one. Each answer is as of
    /// a moment during the call, and not all as of one.
    async fn lookup(&self, op: &Operation, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError>;

    /// How many visible items there are within the bounds; it counts no further than `max`, which is at
    /// least 1.
    async fn count(&self, op: &Operation, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError>;

    /// Add List Items: all of them or none. `items` has at least one entry and no expired one. The same (timestamp,
    /// value) is one item, however often it is added; the last add's `expires_at` applies. In a set an item may
    /// replace another one of its member, or be left out for it: readers see this at the moment at which they see the
    /// whole add. When `done` is called with `Ok`, the items survive a crash of the process (and of the machine, if
    /// the store's settings promise that), and every later read sees them.
    ///
    /// Returns a future to await before the add can begin, if any. Without one, the add is in its place among the
    /// list's writes.
    fn start_add(self: Rc<Self>, op: Operation, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait>;

    /// Adds to one set that have waited for it together. Each has the effect of [`ItemSession::start_add`], and
    /// together they leave the same items as one after the other, in this order. A store may write several of them at
    /// one moment: then none is visible without the others, and they succeed or fail together.
    fn start_adds(self: Rc<Self>, list: ListKey, adds: Vec<SetAdd>) -> Option<ToAwait> {
        Some(Box::pin(async move {
            for SetAdd { op, items, done } in adds {
                let (through, until_through) = oneshot::channel();
                let done: Done = Box::new(move |result| {
                    done(result);
                    let _set_is_gone = through.send(());
                });
                if let Some(to_await) = Rc::clone(&self).start_add(op, list.clone(), items, done) {
                    to_await.await;
                }
                // Dropped unsent if the store has failed.
                let _ended = until_through.await;
            }
        }))
    }

    /// Remove List Items: removes every item of the removal that existed when the operation began, including hidden
    /// ones. An item that is added during the removal may stay. Returns the number of removed *visible* items. Safe to
    /// repeat.
    ///
    /// A removal by value or between two moments may take much: a store may then do it in parts, each of them whole.
    /// A failure in between says that its outcome is unknown.
    async fn remove(&self, op: &Operation, list: &ListKey, removal: &Removal) -> Result<u64, StoreError>;

    /// Remove All List Items: removes every item that existed when the operation began. For a set it also empties a
    /// list of items of the same key, because the identity of deleted generations is no longer known.
    async fn remove_all(&self, op: &Operation, list: &ListKey) -> Result<(), StoreError>;

    /// The visible bag of a list of bags, if there is one: all that was acknowledged before is seen.
    async fn bag(&self, op: &Operation, list: &ListKey) -> Result<ReadBag, StoreError>;

    /// Puts a bag in the place of the one that is visible, or takes it out, with its entries: see [`bags`].
    async fn swap_bag(&self, op: &Operation, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError>;

    /// The visible bags of a type, from a place on: the combined results of [`ItemSession::entities`] and
    /// [`ItemSession::bag`]. At most `limit`, which is at least 1, and fewer if they are large.
    async fn bags(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<BagPage, StoreError> {
        let EntityPage { entities, next } = self.entities(op, feature_key, from, limit).await?;
        let mut bags = Vec::with_capacity(entities.len());
        for entity in entities {
            let bag = self.bag(op, &ListKey::new(feature_key.clone(), entity.clone())).await?;
            bags.extend(bag.bag.map(|bag| (entity, bag)));
        }
        Ok(BagPage { bags, next })
    }

    /// Adds entries for bags that are still the ones that were read, each bag once, and returns the outcomes in their
    /// order. Each is like a [`ItemSession::swap_bag`] that leaves its bag as it is; they become visible in any order.
    /// If another swap of the bag comes at the same time, its changes of an entry take precedence. A failure may leave
    /// some done.
    async fn enter_bags(&self, op: &Operation, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        let mut swapped = Vec::with_capacity(bags.len());
        for bag in bags {
            let (list, swap) = bag.into_swap();
            swapped.push(self.swap_bag(op, &list, swap).await?);
        }
        Ok(swapped)
    }

    /// Swaps that this or another server has begun and whose entries may not be written: the recent ones, and with
    /// each look a part of the older ones, so that a few minutes cover all of the last hours. A bounded part in no
    /// order: the returned look continues behind it. Swaps that cannot be read are left to the next look. Empty for a
    /// store that makes swaps together with their entries.
    async fn unfinished_swaps(&self, _op: &Operation, _look: SwapLook) -> Result<SwapPage, StoreError> {
        Ok(SwapPage::default())
    }

    /// Says that the entries of a swap are written.
    async fn finish_swap(&self, _op: &Operation, _swap: SwapId) -> Result<(), StoreError> {
        Ok(())
    }

    /// The entities that have lists of a feature version with visible items, from a place on: at most `limit`, which
    /// is at least 1, each once, in a stable order. The work and the memory of one call are bounded, for any number of
    /// other lists: so a part may have few entities, or none, and not be the last.
    ///
    /// A walk finds each list that has visible items during the whole walk. It may find a list that is filled or
    /// emptied during the walk.
    async fn entities(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError>;

    /// The same of the bags of a type, for who looks at each of them in any case: some may have no visible bag. So a
    /// store that would look at one after the other to leave these out leaves that to the caller's own pace.
    async fn bag_entities(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.entities(op, feature_key, from, limit).await
    }

    /// What [`ItemSession::remove`] must be kept apart from.
    fn removal_turns(&self) -> RemovalTurns {
        RemovalTurns::BetweenRemovals
    }
}

const AFTER_DEADLINE: Duration = Duration::from_millis(500);

impl dyn ItemSession {
    /// Remove List Items with Value.
    pub async fn remove_value(&self, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
        self.remove(op, list, &Removal::Value(Bytes::copy_from_slice(value))).await
    }

    /// [`ItemSession::start_add`] for a caller that waits: until the deadline, and a moment longer, because a store
    /// that ends by itself then can report the outcome of the add.
    pub async fn add(self: &Rc<Self>, op: &Operation, list: &ListKey, items: Vec<NewItem>) -> Result<(), StoreError> {
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
