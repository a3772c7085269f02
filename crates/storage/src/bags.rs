//! Bags: lists of one item, and the entries by which they are found.
//!
//! A *bag* is the list of an entity under the feature key of its type's bags ([`FeatureKey::is_of_bags`], the default
//! version). Its one item is the present bag: the document in its value, its stamp in its timestamp. It has the TTL,
//! expiry and visibility of a list. [`ItemSession::entities`] of the key walks over all bags of the type, and
//! [`ItemSession::remove_all`] empties a bag without its entries. No items are added to it in another way.
//!
//! A store that reads from memory ([`MemoryReads`](super::MemoryReads)) also shows a bag as the one item of its list.
//!
//! A stamp distinguishes the states of a bag: a writer takes one that is greater than the stamp of the previous bag,
//! or the current moment if there is none. So a bag is replaced by *swaps*, which name the stamp that was read and are
//! lost if the bag has another one.
//!
//! An *entry* is an item in a list of entries, under the key of another version of the bags. Those lists are ordinary
//! lists of items, read by [`ItemSession::get`] with [`Ttl::ENDLESS`]: an entry is visible until the `expires_at` that
//! it was stored with. An entry is a hint: its reader checks the bag.
//!
//! [`FeatureKey::is_of_bags`]: liststore_contract::domain::FeatureKey::is_of_bags
//! [`Ttl::ENDLESS`]: liststore_contract::domain::Ttl::ENDLESS

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{EntityId, FeatureKey, Item, ListKey, NewItem, Timestamp};

use super::{EntityPlace, ItemSession, OpContext, StoreError};

/// The maximum of bytes of a stored bag.
pub const BAG_BYTES_MAX: usize = liststore_contract::domain::document::DOCUMENT_BYTES_MAX;

/// The maximum of entries that one swap changes, removed and added ones, in all lists.
pub const ENTRIES_MAX: usize = 2_000;

/// A bag as it was read: the visible bag, if there is one, and the row that a swap names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadBag {
    pub bag: Option<Item>,
    /// For [`BagSwap::row`]. `None` if the store reads the bag again at no cost.
    pub row: Option<BagRow>,
}

/// The row of a bag as a store read it, with or without a visible bag. Opaque to all but the store that returned it.
#[derive(Clone)]
pub struct BagRow(Arc<dyn Any + Send + Sync>);

impl BagRow {
    /// For stores.
    pub fn new(row: impl Any + Send + Sync) -> Self {
        Self(Arc::new(row))
    }

    /// For stores: the row, if this store returned it.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for BagRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BagRow").finish_non_exhaustive()
    }
}

/// Two are equal if they come from the same read.
impl PartialEq for BagRow {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for BagRow {}

/// One bag in the place of another, with the entries of both.
///
/// It is made if the visible bag is the one that was read. Otherwise it is [`Swapped::Lost`], with nothing done. A
/// store that cannot find out the outcome returns an error with an unknown outcome. When the swap is made, the
/// previous bag is gone permanently, with any later TTL, also if it was not visible.
///
/// A store that writes several lists as one makes the swap and all changes of entries together: they become visible at
/// one moment, and after a crash all exist or none. Another store swaps the bag first, as one change, and then makes
/// the changes of entries, in any order, before it answers. If some of these fail, it returns an error with an unknown
/// outcome: the bag may be stored, and a comparison with it may repair its entries. Such a store notes each swap that
/// puts a bag, or removes one with its entries, before it makes it, and deletes the note once all is done. So
/// its [`SwapJournal`] finds the swaps of a process that dies in between. If a swap puts a bag that may
/// lack entries, according to `entered_in`, the store notes it in any case, and keeps the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BagSwap {
    /// The stamp of the bag that was read; `None` if there was none to be seen.
    pub before: Option<Timestamp>,
    /// The row that the bag was read from, if the store gave it with the bag. Without it the store reads the row first.
    pub row: Option<BagRow>,
    pub after: BagAfter,
    /// Each list once, [`ENTRIES_MAX`] entries in all at most.
    pub entries: Vec<EntryChange>,
    /// The indexes that these entries belong to, if others may exist by now: the server has not read the definitions
    /// for so long that other servers do not rely on its knowing them.
    pub entered_in: Option<Vec<FeatureKey>>,
}

/// The state of a bag after a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BagAfter {
    /// Another one takes its place, with a greater stamp.
    Put(NewItem),
    /// It was deleted.
    Gone,
    /// It stays as it is, with its expiry. Only entries change, if it is still the bag that was read.
    Same,
}

impl From<Option<NewItem>> for BagAfter {
    fn from(bag: Option<NewItem>) -> Self {
        bag.map_or(Self::Gone, Self::Put)
    }
}

/// The changes of a swap in one list of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryChange {
    pub list: ListKey,
    /// Entries to remove, by their places and values. Missing ones are ignored. None of them is in `added`.
    pub removed: Vec<(Timestamp, Bytes)>,
    /// Entries to add. The same place and value is one entry, with the last expiry.
    pub added: Vec<NewItem>,
}

/// The note of a swap whose entries may not be written. Opaque to all but the store that returned it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SwapId(Bytes);

impl SwapId {
    /// For stores.
    pub fn new(id: impl Into<Bytes>) -> Self {
        Self(id.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A swap that a store has noted, and that may be unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedSwap {
    pub id: SwapId,
    pub bag: ListKey,
    /// The noted entries that it had to remove.
    pub entries: Vec<EntryChange>,
    /// Whether the server that made it may still work on it.
    pub is_recent: bool,
    /// The indexes in which the swap was made with all entries, if its server may not have known others.
    pub entered_in: Option<Vec<FeatureKey>>,
}

/// The progress of a scan of unfinished swaps. It begins as its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwapScan {
    /// How many scans were begun: each takes a different part of the older swaps.
    pub number: u64,
    /// For stores: the remaining parts of it.
    pub left: Vec<Bytes>,
}

impl SwapScan {
    /// Whether the next one begins.
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }
}

/// A part of a scan of unfinished swaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwapPage {
    pub swaps: Vec<UnfinishedSwap>,
    pub scan: SwapScan,
}

/// Bags of a type, in the order of [`ItemSession::entities`](super::ItemSession::entities).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BagPage {
    pub bags: Vec<(EntityId, Item)>,
    /// Where the walk continues. `None` at its end.
    pub next: Option<EntityPlace>,
}

/// Entries to add for a bag, if it is still the one that was read. A store adds them by a [`BagSwap`] with
/// [`BagAfter::Same`], or in another way that lets later swaps take precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BagEntries {
    pub bag: ListKey,
    /// The stamp of the bag that was read.
    pub stamp: Timestamp,
    /// As in a swap, without removed entries.
    pub entries: Vec<EntryChange>,
}

impl BagEntries {
    pub fn into_swap(self) -> (ListKey, BagSwap) {
        let Self { bag, stamp, entries } = self;
        (bag, BagSwap { before: Some(stamp), row: None, after: BagAfter::Same, entries, entered_in: None })
    }
}

/// The outcome of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swapped {
    Done,
    /// The present bag is not the one that was read, or there is one where none was read, or none. Nothing was done.
    Lost,
}

/// A session that reads bags as it walks over them.
#[async_trait(?Send)]
pub trait BagScan {
    /// The visible bags of a type, from a place on: the combined results of [`ItemSession::entities`] and
    /// [`ItemSession::bag`]. At most `limit`, which is at least 1, and fewer if they are large.
    async fn bags(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<BagPage, StoreError>;
}

/// A session of a store that notes each swap until its entries are written.
#[async_trait(?Send)]
pub trait SwapJournal {
    /// Swaps that this or another server has begun and whose entries may not be written: the recent ones, and with
    /// each scan a part of the older ones, so that a few minutes cover all of the last hours. A bounded part in no
    /// order: the returned scan continues behind it. Swaps that cannot be read are left to the next scan.
    async fn unfinished_swaps(&self, op: &OpContext, scan: SwapScan) -> Result<SwapPage, StoreError>;

    /// Records that the entries of a swap are written.
    async fn finish_swap(&self, op: &OpContext, swap: SwapId) -> Result<(), StoreError>;
}

/// [`ItemSession::enter_bags`] for a session that enters each bag by a swap.
pub async fn enter_one_by_one(
    session: &dyn ItemSession,
    op: &OpContext,
    bags: Vec<BagEntries>,
) -> Result<Vec<Swapped>, StoreError> {
    let mut swapped = Vec::with_capacity(bags.len());
    for bag in bags {
        let (list, swap) = bag.into_swap();
        swapped.push(session.swap_bag(op, &list, swap).await?);
    }
    Ok(swapped)
}
