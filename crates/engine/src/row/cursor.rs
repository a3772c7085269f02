//! Iterates over rows. Every byte is checked when it is read.

use std::borrow::Borrow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use liststore_contract::domain::ValueDigest;

use super::{DELETED, DIGEST_LEN, Entry, LEN_SHIFT, Malformed, SAME_VALUE, has_digest, has_other_life};
use crate::codec::{take_varint, unzigzag};

/// The number of items according to the row.
pub fn count(row: &[u8]) -> u64 {
    take_varint(row, &mut 0).unwrap_or(0)
}

/// The largest length of the three integers before an item's value.
const INTEGERS_LEN_MAX: usize = 30;

/// Iterates over the items of a shared or borrowed row.
#[derive(Debug)]
pub struct RowCursor<R = Bytes> {
    row: R,
    at: usize,
    count: u64,
    left: u64,
    base_life: u64,
    entry: Option<Entry>,
    /// The last computed digest, and the place of its value.
    digest: Cell<Option<(usize, ValueDigest)>>,
}

/// The place of a cursor in its row.
#[derive(Debug, Clone)]
pub struct Bookmark {
    at: usize,
    left: u64,
    entry: Entry,
}

impl Bookmark {
    /// Greater for later places in their row.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<R: Borrow<Bytes>> RowCursor<R> {
    /// Opens a cursor on the first item, if there is one.
    pub fn new(row: R) -> Result<Self, Malformed> {
        let mut at = 0;
        let Beginning { count, base_life, start } = take_beginning(row.borrow(), &mut at)?;
        let digest = Cell::new(None);
        let mut cursor = Self { row, at, count, left: count, base_life, entry: Some(start), digest };
        cursor.advance()?;
        Ok(cursor)
    }

    fn row(&self) -> &Bytes {
        self.row.borrow()
    }

    /// Its place; `None` past the end.
    pub fn place(&self) -> Option<Bookmark> {
        Some(Bookmark { at: self.at, left: self.left, entry: self.entry.clone()? })
    }

    /// Moves to a place of a cursor of the same row.
    pub fn go_to(&mut self, place: &Bookmark) {
        (self.at, self.left, self.entry) = (place.at, place.left, Some(place.entry.clone()));
    }

    #[inline]
    pub fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    /// The value of the current item, or its digest if the entry has that; empty past the end.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.entry.as_ref().map(|entry| entry.value_in(self.row())).unwrap_or_default()
    }

    /// The same value, sharing the row's memory.
    pub fn value_bytes(&self) -> Bytes {
        self.entry.as_ref().map_or_else(Bytes::new, |entry| self.row().slice(entry.value.clone()))
    }

    /// The digest of the current item's value. It is computed once for adjacent items that share a value.
    pub fn digest(&self) -> ValueDigest {
        self.known_digest().unwrap_or_else(|| self.know_digest(ValueDigest::of(self.value())))
    }

    fn know_digest(&self, digest: ValueDigest) -> ValueDigest {
        #[cfg(test)]
        super::work::digested(self.value().len());
        let start = self.entry.as_ref().map_or(usize::MAX, |entry| entry.value.start);
        self.digest.set(Some((start, digest)));
        digest
    }

    fn known_digest(&self) -> Option<ValueDigest> {
        if let Some(digest) = self.stored_digest() {
            return Some(digest);
        }
        let start = self.entry.as_ref().map(|entry| entry.value.start);
        self.digest.get().filter(|(at, _)| Some(*at) == start).map(|(_, digest)| digest)
    }

    /// The digest that replaces the value.
    fn stored_digest(&self) -> Option<ValueDigest> {
        self.entry.as_ref().filter(|entry| entry.has_digest)?;
        self.value().try_into().ok().map(ValueDigest::from_bytes)
    }

    /// The order of the current items of two cursors with equal timestamps.
    pub fn cmp_tied(&self, other: &Self) -> Ordering {
        if let (Some(ours), Some(theirs)) = (self.known_digest(), other.known_digest()) {
            return ours.cmp(&theirs);
        }
        // Shared values occur repeatedly, so comparing their bytes each time would cost more.
        let come_again = self.shares_value() || other.shares_value();
        let has_digest = self.stored_digest().is_some() || other.stored_digest().is_some();
        if !come_again && !has_digest && self.value() == other.value() {
            return Ordering::Equal;
        }
        if self.known_digest().is_none() && other.known_digest().is_none() {
            let (ours, theirs) = ValueDigest::of_two(self.value(), other.value());
            self.know_digest(ours);
            other.know_digest(theirs);
            return ours.cmp(&theirs);
        }
        self.digest().cmp(&other.digest())
    }

    /// Whether the value is the previous item's.
    fn shares_value(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.value.end < self.at)
    }

    /// The whole row, if the cursor is on its first item.
    pub fn whole(&self) -> Option<&Bytes> {
        (self.entry.is_some() && self.left + 1 == self.count).then(|| self.row())
    }

    /// The largest encoded length of the current item and all later ones.
    pub fn rest_len(&self) -> usize {
        self.value().len() + (self.row().len() - self.at) + INTEGERS_LEN_MAX
    }

    /// The items after the current one: packed, with their number, and with the life that their differences refer to.
    pub fn behind(&self) -> (&[u8], u64, u64) {
        (&self.row()[self.at..], self.left, self.base_life)
    }

    /// Whether no item follows the current one.
    #[inline]
    pub fn is_on_last(&self) -> bool {
        self.left == 0
    }

    /// Moves to the end without reading the rest.
    pub fn leave(&mut self) {
        (self.entry, self.left, self.at) = (None, 0, self.row().len());
    }

    /// Moves to the next item. At a malformed one it stays, and fails again.
    #[inline]
    pub fn advance(&mut self) -> Result<(), Malformed> {
        let Some(entry) = &mut self.entry else { return Ok(()) };
        let row: &Bytes = self.row.borrow();
        if self.left == 0 {
            self.entry = None;
            return if self.at == row.len() { Ok(()) } else { Err(Malformed) };
        }
        let mut at = self.at;
        take_item(row, &mut at, self.base_life, entry)?;
        self.at = at;
        self.left -= 1;
        Ok(())
    }
}

/// The values of a row before its items.
struct Beginning {
    count: u64,
    base_life: u64,
    /// The base of the first item's differences.
    start: Entry,
}

#[inline]
fn take_beginning(row: &[u8], at: &mut usize) -> Result<Beginning, Malformed> {
    let mut integer = || take_varint(row, at).ok_or(Malformed);
    let (count, base_time, base_life) = (integer()?, integer()?, integer()?);
    Ok(Beginning {
        count,
        base_life,
        start: Entry { timestamp: base_time, expires_at: 0, deleted: false, has_digest: false, value: 0..0 },
    })
}

/// Reads the item at a place, and replaces the previous one.
#[inline]
fn take_item(row: &[u8], at: &mut usize, base_life: u64, entry: &mut Entry) -> Result<(), Malformed> {
    #[cfg(test)]
    super::work::walked();
    let head = take_varint(row, at).ok_or(Malformed)?;
    let older_by = take_varint(row, at).ok_or(Malformed)?;
    let mut life = base_life;
    if has_other_life(head) {
        let difference = take_varint(row, at).ok_or(Malformed)?;
        life = life.wrapping_add(unzigzag(difference).cast_unsigned());
    }
    if head & SAME_VALUE == 0 {
        let len = usize::try_from(head >> LEN_SHIFT).map_err(|_| Malformed)?;
        let end = at.checked_add(len).filter(|end| *end <= row.len()).ok_or(Malformed)?;
        entry.value = *at..end;
        *at = end;
    }
    entry.timestamp = entry.timestamp.checked_sub(older_by).ok_or(Malformed)?;
    entry.expires_at = entry.timestamp.wrapping_add(life);
    entry.deleted = head & DELETED != 0;
    entry.has_digest = has_digest(head);
    if entry.has_digest && entry.value.len() != DIGEST_LEN { Err(Malformed) } else { Ok(()) }
}

/// The first item of a row and its value, if it has one, at a lower cost than a cursor.
pub fn first(row: &[u8]) -> Result<Option<(Entry, &[u8])>, Malformed> {
    let mut at = 0;
    let Beginning { count, base_life, start: mut entry } = take_beginning(row, &mut at)?;
    if count == 0 {
        return if at == row.len() { Ok(None) } else { Err(Malformed) };
    }
    take_item(row, &mut at, base_life, &mut entry)?;
    let value = entry.value_in(row);
    Ok(Some((entry, value)))
}

/// The digest of a value with these bytes in a row.
pub(super) fn digest_of(stored: &[u8], is_digest: bool) -> ValueDigest {
    match stored.try_into() {
        Ok(digest) if is_digest => ValueDigest::from_bytes(digest),
        _ => ValueDigest::of(stored),
    }
}

/// The content of a row, from one walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    pub count: u64,
    pub deleted: u64,
    /// Nanoseconds since the Unix epoch; 0 if there is no item.
    pub oldest: u64,
    /// When the first item that is not deleted expires; `u64::MAX` if there is none.
    pub first_expiry: u64,
    /// The place of the last item's value in the row.
    pub(super) last_value: Range<usize>,
    /// Whether that is a digest.
    pub(super) last_has_digest: bool,
}

impl Inspected {
    /// The digest of the value of the last item of the inspected row.
    pub fn last_digest(&self, row: &Bytes) -> ValueDigest {
        digest_of(row.get(self.last_value.clone()).unwrap_or_default(), self.last_has_digest)
    }
}

/// Reads a complete row.
pub fn inspect(row: &Bytes) -> Result<Inspected, Malformed> {
    let mut cursor = RowCursor::new(row)?;
    let (first_expiry, last_value, last_has_digest) = (u64::MAX, 0..0, false);
    let mut found = Inspected { count: 0, deleted: 0, oldest: 0, first_expiry, last_value, last_has_digest };
    while let Some(entry) = cursor.entry() {
        found.count += 1;
        found.deleted += u64::from(entry.deleted);
        found.oldest = entry.timestamp;
        if !entry.deleted {
            found.first_expiry = found.first_expiry.min(entry.expires_at);
        }
        (found.last_value, found.last_has_digest) = (entry.value.clone(), entry.has_digest);
        cursor.advance()?;
    }
    Ok(found)
}
