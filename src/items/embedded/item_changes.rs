//! Items of one list that are put there, and some that go, as the row that does it.

use std::cmp::Reverse;

use bytes::Bytes;

use super::row::RowBuilder;
use crate::domain::ItemKey;

#[derive(Default)]
pub struct ItemChanges(Vec<ItemChange>);

struct ItemChange {
    key: ItemKey,
    expires_at: u64,
    deleted: bool,
    value: Bytes,
}

impl ItemChanges {
    pub fn put(&mut self, key: ItemKey, expires_at: u64, value: Bytes) {
        self.0.push(ItemChange { key, expires_at, deleted: false, value });
    }

    pub fn delete(&mut self, key: ItemKey, value: Bytes) {
        self.0.push(ItemChange { key, expires_at: 0, deleted: true, value });
    }

    /// The row, and the oldest timestamp in it. Of what was said of one item, the last holds. `None` if nothing was.
    pub fn into_row(self) -> Option<(Bytes, u64)> {
        let Self(mut items) = self;
        // Stable: what was said last of an item comes last.
        items.sort_by_key(|item| Reverse(item.key));
        items.dedup_by(|later, earlier| {
            let same = later.key == earlier.key;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        let oldest = items.last()?.key.timestamp.as_nanos();
        let mut row = RowBuilder::default();
        for ItemChange { key, expires_at, deleted, value } in &items {
            row.push(key.timestamp.as_nanos(), *expires_at, *deleted, value);
        }
        Some((row.finish(), oldest))
    }
}
