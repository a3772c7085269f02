//! Bags: lists of one item, each of which is swapped together with its entries in indexes.
//!
//! A swap is one write. It replaces the whole content of the bag's list with a clear mark followed by a row. So a
//! deletion need not write the document again. The same write changes the lists of entries.
//!
//! Swaps that only change entries are combined: their bags are checked together, and all entries of a list are one
//! change of it, in a write of many lists.

use std::collections::HashMap;

use liststore_contract::domain::{Item, ListKey, Timestamp};
use liststore_storage::{BagAfter, BagEntries, BagSwap, EntryChange, OpContext, Range, StoreError, Swapped};

use super::collect::page::PageBuilder;
use super::list_id::{BorrowedListId, ListId};
use super::log::change::{Change, Changes};
use super::log::queue::QueueShare;
use super::read::Scan;
use super::read::found_bags;
use super::row;
use super::row::item_changes::ItemChanges;
use super::row::seek::Start;
use super::session::{EmbeddedSession, ReadInput};

/// The lists that one write of many swaps changes, unless a single swap changes more. Other writes of these lists wait
/// while it is applied.
const LISTS_OF_A_WRITE: usize = 256;
/// The bags that one turn checks, on a thread for reads that may wait for the disk.
const BAGS_OF_A_TURN: usize = 16;

impl EmbeddedSession {
    pub(super) async fn visible_bag(&self, op: &OpContext, list: &ListKey) -> Result<Option<Item>, StoreError> {
        let in_memory = BorrowedListId::of(list.borrowed(), self.engine.options.list_hash);
        if let Some(known) = found_bags::bag(&self.engine.heads, op, in_memory) {
            self.engine.metrics.head_hits.inc();
            return Ok(known);
        }
        Ok(self.newest(op, list, &Range::NEWEST).await?.items.pop())
    }

    /// Swaps a bag. Its list's actor reserves the list for this swap.
    pub(super) async fn swap(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        self.no_swap_left_alone(op).await?;
        let BagSwap { before, after, entries, row: _, entered_in: _ } = swap;
        if self.visible_bag(op, list).await?.map(|bag| bag.timestamp) != before {
            return Ok(Swapped::Lost);
        }
        // If adds are refused for lack of space, the removal of a bag is still accepted, because it frees space.
        let share = if after == BagAfter::Gone { QueueShare::Removals } else { QueueShare::Adds };
        let bag = match after {
            BagAfter::Put(bag) => {
                let stamp = bag.timestamp.as_nanos();
                Some((self.list_id(list), Change::Replace(row::pack(vec![bag])), stamp))
            }
            BagAfter::Gone => Some((self.list_id(list), Change::Clear, 0)),
            BagAfter::Same => None,
        };
        let entries = entries.into_iter().filter_map(|change| self.change_of_entries(change));
        if let Some(changes) = Changes::of_each(bag.into_iter().chain(entries)) {
            self.write(op, share, changes).await?;
        }
        Ok(Swapped::Done)
    }

    /// A write of a caller that left may still be queued. All writers of bags wait for it.
    async fn no_swap_left_alone(&self, op: &OpContext) -> Result<(), StoreError> {
        self.engine.queue.no_write_left_alone(op.deadline).await.map_err(StoreError::with_nothing_done)
    }

    fn change_of_entries(&self, change: EntryChange) -> Option<(ListId, Change, u64)> {
        let mut changes = ItemChanges::default();
        let list = self.list_id(&change.list);
        collect_entries(&mut changes, change);
        let (row, oldest) = changes.into_row()?;
        Some((list, Change::Row(row), oldest))
    }

    /// Makes swaps that only change entries, of bags that their lists' actor reserves for this.
    pub(super) async fn enter(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        self.no_swap_left_alone(op).await?;
        let stamps = self.stamps(op, &bags).await?;
        let mut swapped = Vec::with_capacity(bags.len());
        let mut together: HashMap<ListKey, ItemChanges> = HashMap::new();
        for (BagEntries { stamp, entries, .. }, visible) in bags.into_iter().zip(stamps) {
            if visible != Some(stamp) {
                swapped.push(Swapped::Lost);
                continue;
            }
            swapped.push(Swapped::Done);
            if together.len() + entries.len() > LISTS_OF_A_WRITE {
                self.write_entries(op, std::mem::take(&mut together)).await?;
            }
            for change in entries {
                collect_entries(together.entry(change.list.clone()).or_default(), change);
            }
        }
        self.write_entries(op, together).await?;
        Ok(swapped)
    }

    async fn write_entries(&self, op: &OpContext, entries: HashMap<ListKey, ItemChanges>) -> Result<(), StoreError> {
        let changes = entries.into_iter().filter_map(|(list, changes)| {
            let (row, oldest) = changes.into_row()?;
            Some((self.list_id(&list), Change::Row(row), oldest))
        });
        match Changes::of_each(changes) {
            Some(changes) => self.write(op, QueueShare::Adds, changes).await,
            None => Ok(()),
        }
    }

    /// The stamps of the visible bags, in the order of reading. It caches no blocks, because a walk over all bags would
    /// evict everything else.
    async fn stamps(&self, op: &OpContext, bags: &[BagEntries]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let mut stamps = vec![None; bags.len()];
        let mut scans = Vec::new();
        for (place, BagEntries { bag, .. }) in bags.iter().enumerate() {
            let in_memory = BorrowedListId::of(bag.borrowed(), self.engine.options.list_hash);
            if let Some(page) = self.engine.heads.page(in_memory, op, &Range::NEWEST) {
                stamps[place] = page.items.first().map(|bag| bag.timestamp);
                continue;
            }
            let list = self.list_id(bag);
            let ReadInput { view, in_memory, .. } = self.prepare_read(&list, u64::MAX);
            scans.push((place, Scan::new(view, in_memory, list, Start::NEWEST, PageBuilder::new(op, &Range::NEWEST))));
        }
        if scans.is_empty() {
            return Ok(stamps);
        }
        let turn = move || {
            for _ in 0..BAGS_OF_A_TURN {
                let Some((place, scan)) = scans.last_mut() else { return Some(Ok(std::mem::take(&mut stamps))) };
                match scan.turn() {
                    Ok(Some(page)) => stamps[*place] = page.items.first().map(|bag| bag.timestamp),
                    Ok(None) => return None,
                    Err(error) => return Some(Err(error)),
                }
                scans.pop();
            }
            None
        };
        self.read(op, false, turn).await
    }
}

fn collect_entries(changes: &mut ItemChanges, EntryChange { list: _, removed, added }: EntryChange) {
    for (timestamp, value) in removed {
        changes.delete_at(timestamp, value);
    }
    for entry in added {
        changes.put_at(entry.timestamp, entry.expires_at, entry.value);
    }
}
