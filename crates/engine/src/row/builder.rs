//! Makes rows from single items, and from existing rows.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::ops::Range;

use bytes::Bytes;
use liststore_contract::domain::{NewItem, ValueDigest};

use super::cursor::{Inspected, RowCursor, digest_of};
use super::joining::Opened;
use super::{DELETED, DIGEST, DIGEST_LEN, Entry, LEN_SHIFT, OTHER_LIFE, SAME_VALUE};
use crate::codec::{put_varint, zigzag};

/// The approximate length of the integers before an item's value.
const INTEGERS_LEN: usize = 12;

/// Packs items in the list's order.
#[derive(Debug, Default)]
pub struct RowBuilder {
    body: Vec<u8>,
    count: u64,
    base_time: u64,
    base_life: Option<u64>,
    last_time: u64,
    last_value: Range<usize>,
    last_has_digest: bool,
}

impl RowBuilder {
    /// Reserves space for `bytes` in addition to the first three integers.
    pub fn with_room(bytes: usize) -> Self {
        Self { body: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Whether the next item would share this value's bytes with the previous one.
    pub fn repeats(&self, value: &[u8]) -> bool {
        self.count > 0 && self.body.get(self.last_value.clone()) == Some(value)
    }

    /// Appends an item, which must follow the previous one in the list's order.
    pub fn push(&mut self, timestamp: u64, expires_at: u64, deleted: bool, value: &[u8]) {
        self.push_stored((timestamp, expires_at, deleted), false, value);
    }

    /// Appends a deleted item. The digest replaces a longer value.
    pub fn push_deleted(&mut self, timestamp: u64, value: &[u8], digest: impl FnOnce() -> ValueDigest) {
        if value.len() > DIGEST_LEN {
            self.push_stored((timestamp, 0, true), true, digest().as_bytes());
        } else {
            self.push(timestamp, 0, true, value);
        }
    }

    /// Appends an item of another row.
    pub fn push_entry(&mut self, entry: &Entry, stored: &[u8]) {
        self.push_stored((entry.timestamp, entry.expires_at, entry.deleted), entry.has_digest, stored);
    }

    fn push_stored(&mut self, (timestamp, expires_at, deleted): (u64, u64, bool), has_digest: bool, value: &[u8]) {
        if self.count == 0 {
            self.base_time = timestamp;
            self.last_time = timestamp;
        }
        let mut head = if deleted { DELETED } else { 0 };
        head |= if has_digest { DIGEST } else { 0 };
        let mut life_difference = 0;
        if !deleted {
            let life = expires_at.wrapping_sub(timestamp);
            let base = *self.base_life.get_or_insert(life);
            life_difference = life.wrapping_sub(base);
            head |= if life_difference != 0 { OTHER_LIFE } else { 0 };
        }
        let same = self.repeats(value);
        head |= if same { SAME_VALUE } else { (value.len() as u64) << LEN_SHIFT };
        put_varint(&mut self.body, head);
        put_varint(&mut self.body, self.last_time.wrapping_sub(timestamp));
        if life_difference != 0 {
            put_varint(&mut self.body, zigzag(life_difference.cast_signed()));
        }
        if !same {
            let start = self.body.len();
            self.body.extend_from_slice(value);
            self.last_value = start..self.body.len();
        }
        (self.last_time, self.last_has_digest) = (timestamp, has_digest);
        self.count += 1;
    }

    /// Appends a whole row, which must follow in the list's order, by copying it. Returns `false` if copying is
    /// impossible because of a different base life. Then the caller must push its items.
    pub fn push_row(&mut self, row: &[u8], inspected: &Inspected) -> bool {
        let Some(opened) = Opened::of(row) else { return false };
        // A deleted item has no life.
        let life = (inspected.deleted < inspected.count).then_some(opened.base_life);
        if life.is_some() && self.base_life.is_some() && life != self.base_life {
            return false;
        }
        let copied_from = if self.count == 0 {
            self.base_time = opened.base_time;
            opened.items
        } else {
            put_varint(&mut self.body, opened.first_head);
            put_varint(&mut self.body, self.last_time.wrapping_sub(opened.base_time));
            opened.first_rest
        };
        let value = &inspected.last_value;
        self.last_value = if value.start >= copied_from {
            let moved = |at: usize| at - copied_from + self.body.len();
            moved(value.start)..moved(value.end)
        } else {
            self.body.len()..self.body.len()
        };
        self.body.extend_from_slice(&row[copied_from..]);
        self.base_life = self.base_life.or(life);
        (self.last_time, self.last_has_digest) = (inspected.oldest, inspected.last_has_digest);
        self.count += inspected.count;
        true
    }

    /// Appends a cursor's item and, by copying, all later ones, which must follow in the list's order. The row must
    /// then be finished. Returns `false` without appending if copying is impossible: see [`RowBuilder::push_row`].
    pub fn push_rest<R: Borrow<Bytes>>(&mut self, cursor: &RowCursor<R>) -> bool {
        let Some(entry) = cursor.entry() else { return true };
        let (items, count, base_life) = cursor.behind();
        if *self.base_life.get_or_insert(base_life) != base_life {
            return false;
        }
        // The first one separately, because it may share its value with the previous one there.
        self.push_entry(entry, cursor.value());
        self.body.extend_from_slice(items);
        self.count += count;
        true
    }

    /// The timestamp of the last pushed item.
    pub fn last_time(&self) -> u64 {
        self.last_time
    }

    /// The digest of the value of the last item, pushed alone or at the end of a whole row.
    pub fn last_digest(&self) -> ValueDigest {
        digest_of(self.body.get(self.last_value.clone()).unwrap_or_default(), self.last_has_digest)
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The length of the row so far, without its first three integers.
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// The row. The builder is empty afterwards, and retains its buffer.
    pub fn finish(&mut self) -> Bytes {
        let mut row = Vec::with_capacity(self.body.len() + 24);
        put_varint(&mut row, self.count);
        put_varint(&mut row, self.base_time);
        put_varint(&mut row, self.base_life.unwrap_or(0));
        row.extend_from_slice(&self.body);
        self.body.clear();
        *self = Self { body: std::mem::take(&mut self.body), ..Self::default() };
        Bytes::from(row)
    }
}

/// Packs items in any order. The last of equal ones counts.
pub fn pack(mut items: Vec<NewItem>) -> Bytes {
    items.sort_by_key(|item| Reverse(item.timestamp));
    let mut builder = RowBuilder::with_room(items.iter().map(|item| item.value.len() + INTEGERS_LEN).sum());
    for tied in items.chunk_by(|a, b| a.timestamp == b.timestamp) {
        if let [item] = tied {
            builder.push(item.timestamp.as_nanos(), item.expires_at, false, &item.value);
            continue;
        }
        let mut tied: Vec<_> = tied.iter().map(|item| (ValueDigest::of(&item.value), item)).collect();
        // Stable, so that the last of equal items stays last.
        tied.sort_by_key(|(digest, _)| Reverse(digest.text()));
        for (i, (digest, item)) in tied.iter().enumerate() {
            if tied.get(i + 1).is_none_or(|(next, _)| next != digest) {
                builder.push(item.timestamp.as_nanos(), item.expires_at, false, &item.value);
            }
        }
    }
    builder.finish()
}
