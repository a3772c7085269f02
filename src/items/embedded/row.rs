//! Rows: several items of one list, packed, in the list's order. The one format that items have in
//! the log, in memory and in files.
//!
//! A row is `count, base time, base life`, then each item as
//! `head [time to live difference] time difference [value]`, all integers varints. `docs/engine.md`
//! has it byte by byte. A row is never changed once it is made.

use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::ops::Range;

use bytes::Bytes;

use super::codec::{put_varint, take_varint, unzigzag, zigzag};
use crate::domain::{NewItem, ValueDigest};

const DELETED: u64 = 1;
const OTHER_LIFE: u64 = 2;
const SAME_VALUE: u64 = 4;
const LEN_SHIFT: u32 = 3;

/// Bytes that are no row. Where they lie is known to the layer that read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// One item of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Nanoseconds since the Unix epoch; meaningless for a deleted item.
    pub expires_at: u64,
    /// It says that the item of this timestamp and value is gone from all older sources.
    pub deleted: bool,
    /// Where the value stands in the row.
    value: Range<usize>,
}

/// Packs items that come in the list's order.
#[derive(Debug, Default)]
pub struct RowBuilder {
    body: Vec<u8>,
    count: u64,
    base_time: u64,
    base_life: Option<u64>,
    last_time: u64,
    last_value: Range<usize>,
}

impl RowBuilder {
    /// Whether the next item would share this value's bytes with the one before it.
    pub fn repeats(&self, value: &[u8]) -> bool {
        self.count > 0 && self.body.get(self.last_value.clone()) == Some(value)
    }

    /// Appends an item, which must follow the one before it in the list's order.
    pub fn push(&mut self, timestamp: u64, expires_at: u64, deleted: bool, value: &[u8]) {
        if self.count == 0 {
            self.base_time = timestamp;
            self.last_time = timestamp;
        }
        let mut head = if deleted { DELETED } else { 0 };
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
        if head & OTHER_LIFE != 0 {
            put_varint(&mut self.body, zigzag(life_difference.cast_signed()));
        }
        if !same {
            let start = self.body.len();
            self.body.extend_from_slice(value);
            self.last_value = start..self.body.len();
        }
        self.last_time = timestamp;
        self.count += 1;
    }

    /// Appends a whole row, which must follow in the list's order, by copying it. `false` if it cannot
    /// be had like that, since its base life is another one: then its items are to be pushed.
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
        self.last_time = inspected.oldest;
        self.count += inspected.count;
        true
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of the row so far, without its first three integers.
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// The row; the builder is empty afterwards, and keeps its buffer.
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

/// How many items a row says that it has.
pub fn count(row: &[u8]) -> u64 {
    take_varint(row, &mut 0).unwrap_or(0)
}

/// Walks a row, item by item.
#[derive(Debug)]
pub struct RowCursor {
    row: Bytes,
    at: usize,
    count: u64,
    left: u64,
    base_life: u64,
    entry: Option<Entry>,
    /// The digest that was asked for last, and where its value begins.
    digest: Cell<Option<(usize, ValueDigest)>>,
}

/// Where in its row a cursor stands.
#[derive(Debug, Clone)]
pub struct Bookmark {
    at: usize,
    left: u64,
    entry: Entry,
}

impl Bookmark {
    /// Greater for places further on in their row.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl RowCursor {
    /// Stands on the first item, if there is one.
    pub fn new(row: Bytes) -> Result<Self, Malformed> {
        let mut at = 0;
        let mut integer = || take_varint(&row, &mut at).ok_or(Malformed);
        let (count, base_time, base_life) = (integer()?, integer()?, integer()?);
        let start = Entry { timestamp: base_time, expires_at: 0, deleted: false, value: 0..0 };
        let digest = Cell::new(None);
        let mut cursor = Self { row, at, count, left: count, base_life, entry: Some(start), digest };
        cursor.advance()?;
        Ok(cursor)
    }

    /// Where it stands; `None` past the end.
    pub fn place(&self) -> Option<Bookmark> {
        Some(Bookmark { at: self.at, left: self.left, entry: self.entry.clone()? })
    }

    /// Goes to a place that a cursor of the same row has told.
    pub fn go_to(&mut self, place: &Bookmark) {
        (self.at, self.left, self.entry) = (place.at, place.left, Some(place.entry.clone()));
    }

    pub fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    /// The value of the present item; empty past the end.
    pub fn value(&self) -> &[u8] {
        self.entry.as_ref().and_then(|entry| self.row.get(entry.value.clone())).unwrap_or_default()
    }

    /// The same, sharing the row's memory.
    pub fn value_bytes(&self) -> Bytes {
        self.entry.as_ref().map_or_else(Bytes::new, |entry| self.row.slice(entry.value.clone()))
    }

    /// The digest of the present item's value. It is computed once for a value, however many items
    /// that lie one behind the other share it.
    pub fn digest(&self) -> ValueDigest {
        let start = self.entry.as_ref().map_or(usize::MAX, |entry| entry.value.start);
        match self.known_digest() {
            Some(digest) => digest,
            None => {
                #[cfg(test)]
                work::digested(self.value().len());
                let digest = ValueDigest::of(self.value());
                self.digest.set(Some((start, digest)));
                digest
            }
        }
    }

    fn known_digest(&self) -> Option<ValueDigest> {
        let start = self.entry.as_ref().map(|entry| entry.value.start);
        self.digest.get().filter(|(at, _)| Some(*at) == start).map(|(_, digest)| digest)
    }

    /// The order of the present items of two cursors that stand on equal timestamps.
    pub fn cmp_tied(&self, other: &Self) -> Ordering {
        if let (Some(ours), Some(theirs)) = (self.known_digest(), other.known_digest()) {
            return ours.cmp(&theirs);
        }
        // Values that items share come again: comparing their bytes each time would be the dearer way.
        let come_again = self.shares_value() || other.shares_value();
        if !come_again && self.value() == other.value() {
            return Ordering::Equal;
        }
        self.digest().cmp(&other.digest())
    }

    /// Whether the value is that of the item before.
    fn shares_value(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.value.end < self.at)
    }

    /// The whole row, if it stands on the first item of one.
    pub fn whole(&self) -> Option<&Bytes> {
        (self.entry.is_some() && self.left + 1 == self.count).then_some(&self.row)
    }

    /// Goes to the end without a look at what is left.
    pub fn leave(&mut self) {
        (self.entry, self.left, self.at) = (None, 0, self.row.len());
    }

    #[inline]
    pub fn advance(&mut self) -> Result<(), Malformed> {
        let Some(entry) = &mut self.entry else { return Ok(()) };
        if self.left == 0 {
            self.entry = None;
            return if self.at == self.row.len() { Ok(()) } else { Err(Malformed) };
        }
        self.left -= 1;
        #[cfg(test)]
        work::walked();
        let row: &[u8] = &self.row;
        let head = take_varint(row, &mut self.at).ok_or(Malformed)?;
        let older_by = take_varint(row, &mut self.at).ok_or(Malformed)?;
        let mut life = self.base_life;
        if head & OTHER_LIFE != 0 {
            let difference = take_varint(row, &mut self.at).ok_or(Malformed)?;
            life = life.wrapping_add(unzigzag(difference).cast_unsigned());
        }
        if head & SAME_VALUE == 0 {
            let len = usize::try_from(head >> LEN_SHIFT).map_err(|_| Malformed)?;
            let end = self.at.checked_add(len).filter(|end| *end <= row.len()).ok_or(Malformed)?;
            entry.value = self.at..end;
            self.at = end;
        }
        entry.timestamp = entry.timestamp.checked_sub(older_by).ok_or(Malformed)?;
        entry.expires_at = entry.timestamp.wrapping_add(life);
        entry.deleted = head & DELETED != 0;
        Ok(())
    }
}

/// The beginning of a row that has items, taken apart.
struct Opened {
    count: u64,
    base_time: u64,
    base_life: u64,
    /// Where the items begin.
    items: usize,
    first_head: u64,
    /// Where the rest of the first item begins, behind its time difference.
    first_rest: usize,
}

impl Opened {
    /// `None` for a row without items, or one that no [`RowBuilder`] made.
    fn of(row: &[u8]) -> Option<Self> {
        let mut at = 0;
        let (count, base_time, base_life) =
            (take_varint(row, &mut at)?, take_varint(row, &mut at)?, take_varint(row, &mut at)?);
        let items = at;
        let (first_head, first_difference) = (take_varint(row, &mut at)?, take_varint(row, &mut at)?);
        let sound = count > 0 && first_difference == 0 && first_head & SAME_VALUE == 0;
        sound.then_some(Self { count, base_time, base_life, items, first_head, first_rest: at })
    }
}

/// Where the first so many items end of those that begin at `at`.
fn skip_items(row: &[u8], mut at: usize, count: u64) -> Option<usize> {
    for _ in 0..count {
        let head = take_varint(row, &mut at)?;
        take_varint(row, &mut at)?;
        if head & OTHER_LIFE != 0 {
            take_varint(row, &mut at)?;
        }
        if head & SAME_VALUE == 0 {
            at = at.checked_add(usize::try_from(head >> LEN_SHIFT).ok()?)?;
        }
    }
    (at <= row.len()).then_some(at)
}

/// Puts a row in front of the first `older_max` items of an older one by copying both, if no item of
/// the older one is as new as `newer_oldest`, the timestamp of the newer row's last item, and both
/// have the same base life, as rows of one feature mostly do. `None` if they have to be merged item
/// by item.
pub fn join(newer: &[u8], newer_oldest: u64, older: &[u8], older_max: u64) -> Option<Bytes> {
    let (first, second) = (Opened::of(newer)?, Opened::of(older)?);
    if first.base_life != second.base_life || newer_oldest <= second.base_time || older_max == 0 {
        return None;
    }
    let (older_count, older_end) = if older_max < second.count {
        (older_max, skip_items(older, second.items, older_max)?)
    } else {
        (second.count, older.len())
    };
    let mut row = Vec::with_capacity(newer.len() + older_end + 10);
    for integer in [first.count + older_count, first.base_time, first.base_life] {
        put_varint(&mut row, integer);
    }
    row.extend_from_slice(&newer[first.items..]);
    put_varint(&mut row, second.first_head);
    put_varint(&mut row, newer_oldest - second.base_time);
    row.extend_from_slice(&older[second.first_rest..older_end]);
    Some(Bytes::from(row))
}

/// What a row holds, as one walk tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    pub count: u64,
    pub deleted: u64,
    /// Nanoseconds since the Unix epoch; 0 if there is no item.
    pub oldest: u64,
    /// When the first item that is not deleted expires; `u64::MAX` if there is none.
    pub first_expiry: u64,
    /// Where the value of the last item stands in the row.
    last_value: Range<usize>,
}

impl Inspected {
    /// The value of the last item of the row that was inspected.
    pub fn last_value<'a>(&self, row: &'a Bytes) -> &'a [u8] {
        row.get(self.last_value.clone()).unwrap_or_default()
    }
}

/// Reads all of a row.
pub fn inspect(row: &Bytes) -> Result<Inspected, Malformed> {
    let mut cursor = RowCursor::new(row.clone())?;
    let mut found = Inspected { count: 0, deleted: 0, oldest: 0, first_expiry: u64::MAX, last_value: 0..0 };
    while let Some(entry) = cursor.entry() {
        found.count += 1;
        found.deleted += u64::from(entry.deleted);
        found.oldest = entry.timestamp;
        if !entry.deleted {
            found.first_expiry = found.first_expiry.min(entry.expires_at);
        }
        found.last_value = entry.value.clone();
        cursor.advance()?;
    }
    Ok(found)
}

/// What tests count: digests cost most where timestamps tie, and items that are walked over elsewhere.
#[cfg(test)]
pub mod work {
    use std::cell::Cell;

    thread_local! {
        static DIGESTS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        static WALKED: Cell<u64> = const { Cell::new(0) };
    }

    pub fn walked() {
        WALKED.with(|walked| walked.set(walked.get() + 1));
    }

    /// How many items this thread has walked over while it did something.
    pub fn walked_by<T>(something: impl FnOnce() -> T) -> (T, u64) {
        let before = WALKED.with(Cell::get);
        let done = something();
        (done, WALKED.with(Cell::get) - before)
    }

    pub fn digested(bytes: usize) {
        DIGESTS.with(|counted| counted.set((counted.get().0 + 1, counted.get().1 + bytes as u64)));
    }

    /// How many digests this thread has computed of rows' values while it did something, and of how
    /// many bytes.
    pub fn digests_of<T>(something: impl FnOnce() -> T) -> (T, u64, u64) {
        let before = DIGESTS.with(Cell::get);
        let done = something();
        let after = DIGESTS.with(Cell::get);
        (done, after.0 - before.0, after.1 - before.1)
    }
}

/// Packs items that come in any order, with the last of equal ones.
pub fn pack(mut items: Vec<NewItem>) -> Bytes {
    items.sort_by_key(|item| Reverse(item.timestamp));
    let mut builder = RowBuilder::default();
    for tied in items.chunk_by(|a, b| a.timestamp == b.timestamp) {
        if let [item] = tied {
            builder.push(item.timestamp.as_nanos(), item.expires_at, false, &item.value);
            continue;
        }
        let mut tied: Vec<_> = tied.iter().map(|item| (ValueDigest::of(&item.value), item)).collect();
        // Stable: of equal items the one that was given last stays last.
        tied.sort_by_key(|(digest, _)| Reverse(digest.text()));
        for (i, (digest, item)) in tied.iter().enumerate() {
            if tied.get(i + 1).is_none_or(|(next, _)| next != digest) {
                builder.push(item.timestamp.as_nanos(), item.expires_at, false, &item.value);
            }
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{ItemKey, Timestamp};

    fn unpack(row: Bytes) -> Result<Vec<(u64, u64, bool, Bytes)>, Malformed> {
        let mut cursor = RowCursor::new(row)?;
        let mut items = Vec::new();
        while let Some(entry) = cursor.entry() {
            items.push((entry.timestamp, entry.expires_at, entry.deleted, cursor.value_bytes()));
            cursor.advance()?;
        }
        Ok(items)
    }

    #[test]
    fn a_short_value_a_second_apart_takes_few_bytes() {
        let mut builder = RowBuilder::default();
        for i in 0..100_u64 {
            let time = 1_700_000_000_000_000_000 - i * 1_000_000_000;
            builder.push(time, time + 5, false, format!("value-{i:06}").as_bytes());
        }
        let row = builder.finish();
        assert!(row.len() <= 100 * (12 + 1 + 5) + 12, "{}", row.len());
    }

    #[test]
    fn equal_values_are_written_once() {
        let mut builder = RowBuilder::default();
        for i in 0..100 {
            builder.push(1_000 - i, 0, true, &[7; 1_000]);
        }
        let row = builder.finish();
        assert!(row.len() < 1_300, "{}", row.len());
        assert!(unpack(row).unwrap().iter().all(|(_, _, deleted, value)| *deleted && **value == [7; 1_000]));
    }

    #[test]
    fn a_row_without_items_is_a_row() {
        assert_eq!(unpack(RowBuilder::default().finish()), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn rows_round_trip(mut items: Vec<(u64, u64, bool, Vec<u8>)>) {
            items.sort_by_key(|item| Reverse(item.0));
            let mut builder = RowBuilder::default();
            for (timestamp, expires_at, deleted, value) in &items {
                builder.push(*timestamp, *expires_at, *deleted, value);
            }
            let row = builder.finish();
            let read = unpack(row.clone()).unwrap();
            prop_assert_eq!(read.len(), items.len());
            for (read, item) in read.iter().zip(&items) {
                prop_assert_eq!((read.0, read.2, &*read.3), (item.0, item.2, &*item.3));
                prop_assert!(item.2 || read.1 == item.1);
            }
            // Every cut is noticed, and none panics.
            for cut in 0..row.len() {
                prop_assert!(unpack(row.slice(..cut)).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>, others: Vec<u8>) {
            let _ = (join(&bytes, 7, &others, u64::MAX), join(&bytes, 7, &others, 3));
            let _ = unpack(Bytes::from(bytes));
        }

        #[test]
        fn rows_are_joined_and_appended_as_their_items_would_be(
            mut items in prop::collection::vec((0_u64..1_000, 0_u64..2, any::<bool>(), prop::collection::vec(0_u8..3, 0..3)), 2..40),
            cut in 1_usize..39,
            older_max in 1_usize..40,
        ) {
            items.sort_by_key(|item| Reverse(item.0));
            let built = |items: &[(u64, u64, bool, Vec<u8>)]| {
                let mut builder = RowBuilder::default();
                items.iter().for_each(|(time, life, deleted, value)| builder.push(*time, time + life, *deleted, value));
                builder
            };
            let life = |items: &[(u64, u64, bool, Vec<u8>)]| items.iter().find(|item| !item.2).map(|item| item.1);
            let (newer, older) = items.split_at(cut.min(items.len() - 1));
            let (newest_below, oldest_above) = (older[0].0, newer[newer.len() - 1].0);
            let (newer_row, older_row) = (built(newer).finish(), built(older).finish());
            let kept = &older[..older_max.min(older.len())];
            let holds = |row: Bytes, expected: &[(u64, u64, bool, Vec<u8>)]| {
                let read = unpack(row).unwrap();
                read.len() == expected.len()
                    && read.iter().zip(expected).all(|(read, item)| {
                        let same_item = (read.0, read.2, &*read.3) == (item.0, item.2, &*item.3);
                        same_item && (item.2 || read.1 == item.0 + item.1)
                    })
            };
            match join(&newer_row, oldest_above, &older_row, older_max as u64) {
                Some(joined) => {
                    prop_assert!(oldest_above > newest_below);
                    prop_assert!(holds(joined, &[newer, kept].concat()));
                }
                None => prop_assert!(oldest_above <= newest_below || life(newer).unwrap_or(0) != life(older).unwrap_or(0)),
            }
            // Behind a row of either kind, items find what they follow.
            let mut builder = built(newer);
            let inspected = inspect(&older_row).unwrap();
            if builder.push_row(&older_row, &inspected) {
                let last = older.last().unwrap();
                builder.push(last.0, last.0 + last.1, last.2, &last.3);
                builder.push(last.0, last.0 + last.1, last.2, b"another");
                let another = (last.0, last.1, last.2, b"another".to_vec());
                prop_assert!(holds(builder.finish(), &[newer, older, &[last.clone(), another]].concat()));
            } else {
                prop_assert!(life(newer).is_some() && life(older).is_some() && life(newer) != life(older));
            }
            let mut alone = RowBuilder::default();
            prop_assert!(alone.push_row(&older_row, &inspected));
            prop_assert_eq!(alone.finish(), older_row);
        }

        #[test]
        fn items_are_packed_in_the_order_of_their_keys(raw in prop::collection::vec((0_u64..4, 0_u8..4, 0_u64..100), 1..40)) {
            let items: Vec<_> = raw.iter().map(|(t, v, e)| NewItem {
                timestamp: Timestamp::from_nanos(*t).unwrap(), value: Bytes::from(vec![*v]), expires_at: *e,
            }).collect();
            let mut model = std::collections::BTreeMap::new();
            for item in &items {
                model.insert(ItemKey::new(item.timestamp, ValueDigest::of(&item.value)), item.expires_at);
            }
            let packed: Vec<_> = unpack(pack(items)).unwrap().into_iter().map(|(t, e, _, v)| {
                (ItemKey::new(Timestamp::from_nanos(t).unwrap(), ValueDigest::of(&v)), e)
            }).collect();
            prop_assert_eq!(packed, model.into_iter().rev().collect::<Vec<_>>());
        }
    }
}
