//! Bags: lists of one item, each of which is swapped together with the entries by which it is found.
//!
//! A swap is one write: it replaces all that the bag's list holds, by a clear mark with a row behind it, so that no
//! document is written again to be deleted; and it changes the lists of entries.

use super::change::{Change, Changes};
use super::item_changes::ItemChanges;
use super::list_id::ListId;
use super::queue::Part;
use super::row;
use super::session::EmbeddedSession;
use crate::domain::{Item, ItemKey, ListKey, ValueDigest};
use crate::items::{BagAfter, BagSwap, EntryChange, Operation, Range, StoreError, Swapped};

impl EmbeddedSession {
    pub(super) async fn visible_bag(&self, op: &Operation, list: &ListKey) -> Result<Option<Item>, StoreError> {
        Ok(self.newest(op, list, &Range::NEWEST).await?.items.pop())
    }

    /// Swaps a bag, which its list's actor keeps for this alone.
    pub(super) async fn swap(&self, op: &Operation, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        // What somebody wrote who has left may still be queued.
        self.engine.queue.barrier(op.deadline).await.map_err(StoreError::with_nothing_done)?;
        let BagSwap { before, after, entries, entered_in: _ } = swap;
        if self.visible_bag(op, list).await?.map(|bag| bag.timestamp) != before {
            return Ok(Swapped::Lost);
        }
        // Where adds are refused for want of room, a bag that goes makes some.
        let part = if after == BagAfter::Gone { Part::Removals } else { Part::Adds };
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
            self.write(op, part, changes).await?;
        }
        Ok(Swapped::Done)
    }

    fn change_of_entries(&self, change: EntryChange) -> Option<(ListId, Change, u64)> {
        let EntryChange { list, removed, added } = change;
        let mut changes = ItemChanges::default();
        for (timestamp, value) in removed {
            changes.delete(ItemKey::new(timestamp, ValueDigest::of(&value)), value);
        }
        for entry in added {
            changes.put(ItemKey::new(entry.timestamp, ValueDigest::of(&entry.value)), entry.expires_at, entry.value);
        }
        let (row, oldest) = changes.into_row()?;
        Some((self.list_id(&list), Change::Row(row), oldest))
    }
}
