//! Additions and removals of items of one list, as the row that makes them.

use std::cmp::Reverse;

use bytes::Bytes;
use liststore_contract::domain::{ItemKey, Timestamp, ValueDigest};

use super::RowBuilder;

/// The approximate length of the integers before an item's value.
const INTEGERS_LEN: usize = 12;

#[derive(Default)]
pub struct ItemChanges(Vec<ItemChange>);

struct ItemChange {
    timestamp: Timestamp,
    /// The value's digest, if known. Otherwise it is computed if other items have the same timestamp.
    digest: Option<ValueDigest>,
    expires_at: u64,
    deleted: bool,
    value: Bytes,
}

impl ItemChange {
    fn push_to(&self, row: &mut RowBuilder) {
        let (timestamp, value) = (self.timestamp.as_nanos(), &self.value);
        if self.deleted {
            row.push_deleted(timestamp, value, || self.digest.unwrap_or_else(|| ValueDigest::of(value)));
        } else {
            row.push(timestamp, self.expires_at, false, value);
        }
    }
}

impl ItemChanges {
    pub fn put(&mut self, key: ItemKey, expires_at: u64, value: Bytes) {
        let ItemKey { timestamp, digest } = key;
        self.0.push(ItemChange { timestamp, digest: Some(digest), expires_at, deleted: false, value });
    }

    pub fn delete(&mut self, key: ItemKey, value: Bytes) {
        let ItemKey { timestamp, digest } = key;
        self.0.push(ItemChange { timestamp, digest: Some(digest), expires_at: 0, deleted: true, value });
    }

    /// Adds an item without a known key.
    pub fn put_at(&mut self, timestamp: Timestamp, expires_at: u64, value: Bytes) {
        self.0.push(ItemChange { timestamp, digest: None, expires_at, deleted: false, value });
    }

    pub fn delete_at(&mut self, timestamp: Timestamp, value: Bytes) {
        self.0.push(ItemChange { timestamp, digest: None, expires_at: 0, deleted: true, value });
    }

    /// The row, and the oldest timestamp in it. The last change of an item counts. `None` without changes.
    pub fn into_row(self) -> Option<(Bytes, u64)> {
        let Self(mut items) = self;
        // Stable, here and below, so that the last change of an item comes last.
        items.sort_by_key(|item| Reverse(item.timestamp));
        let oldest = items.last()?.timestamp.as_nanos();
        let mut row = RowBuilder::with_room(items.iter().map(|item| item.value.len() + INTEGERS_LEN).sum());
        for tied in items.chunk_by_mut(|a, b| a.timestamp == b.timestamp) {
            if let [one] = tied {
                one.push_to(&mut row);
                continue;
            }
            tied.iter_mut().for_each(|item| _ = item.digest.get_or_insert_with(|| ValueDigest::of(&item.value)));
            tied.sort_by_key(|item| Reverse(item.digest));
            for same in tied.chunk_by(|a, b| a.digest == b.digest) {
                same.last()?.push_to(&mut row);
            }
        }
        Some((row.finish(), oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RowCursor;
    use super::*;

    #[test]
    fn items_of_one_moment_are_distinct_and_the_last_change_wins() {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let value = |text: &'static str| Bytes::from_static(text.as_bytes());
        let key = |nanos, text: &str| ItemKey::new(at(nanos), ValueDigest::of(text.as_bytes()));
        let mut changes = ItemChanges::default();
        changes.put_at(at(5), 50, value("a"));
        changes.put_at(at(7), 70, value("a"));
        changes.put(key(5, "b"), 51, value("b"));
        changes.delete_at(at(5), value("a"));
        changes.delete(key(9, "c"), value("c"));
        changes.delete_at(at(5), value("b"));
        changes.put_at(at(5), 52, value("b"));
        let (row, oldest) = changes.into_row().unwrap();
        let (mut cursor, mut found) = (RowCursor::new(row).unwrap(), Vec::new());
        while let Some(entry) = cursor.entry() {
            found.push((entry.timestamp, cursor.value().to_vec(), entry.deleted));
            cursor.advance().unwrap();
        }
        let mut expected = [(5, "a", true), (5, "b", false), (7, "a", false), (9, "c", true)];
        expected.sort_by_key(|(nanos, text, _)| Reverse(key(*nanos, text)));
        let expected = expected.map(|(nanos, text, deleted)| (nanos, text.as_bytes().to_vec(), deleted));
        assert_eq!((found, oldest), (expected.to_vec(), 5));
        assert!(ItemChanges::default().into_row().is_none());
    }
}
