//! The start of a read in a list, and how a source reaches it without reading all earlier items. A walk of a long list,
//! page by page, must not begin each page at the list's first item. That includes items with one timestamp, whose order
//! depends on expensive digests.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::{ItemKey, Timestamp, ValueDigest};
use liststore_storage::Range;
use liststore_storage::collect::Offered;

use crate::row::{self, Bookmark, Entry, Malformed, RowCursor};

/// Items between two bookmarks: for a list that is read page by page, and for one with lookups of single places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    Pages = 256,
    Places = 32,
}

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// No newer item is wanted. Nanoseconds since the Unix epoch.
    pub ceiling: u64,
    /// Of the items with exactly that timestamp, only those with a lower digest are wanted.
    pub below: Option<ValueDigest>,
}

impl Start {
    /// At the list's newest item.
    pub const NEWEST: Self = Self { ceiling: u64::MAX, below: None };

    pub fn of(range: &Range) -> Self {
        match range.after {
            Some(after) if after.timestamp <= range.max_timestamp => {
                Self { ceiling: after.timestamp.as_nanos(), below: Some(after.digest) }
            }
            _ => Self { ceiling: range.max_timestamp.as_nanos(), below: None },
        }
    }

    /// At the first item after this one, newest first.
    pub fn below(key: ItemKey) -> Self {
        Self { ceiling: key.timestamp.as_nanos(), below: Some(key.digest) }
    }

    /// Whether the item at a cursor comes before the start.
    pub fn is_behind(&self, cursor: &RowCursor) -> bool {
        cursor.entry().is_some_and(|entry| {
            entry.timestamp > self.ceiling
                || entry.timestamp == self.ceiling && self.below.is_some_and(|below| cursor.digest() >= below)
        })
    }
}

/// Newest first.
impl Ord for Start {
    fn cmp(&self, other: &Self) -> Ordering {
        // Without a digest it comes before all items of its timestamp.
        let by_digest = || match (self.below, other.below) {
            (Some(ours), Some(theirs)) => theirs.cmp(&ours),
            (ours, theirs) => ours.is_some().cmp(&theirs.is_some()),
        };
        other.ceiling.cmp(&self.ceiling).then_with(by_digest)
    }
}

impl PartialOrd for Start {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The start of a read that begins at the oldest item. Items below it are not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Of the items with exactly that timestamp, only those with a higher digest are wanted.
    digest: Option<ValueDigest>,
    /// Whether the item with exactly that digest is wanted too.
    inclusive: bool,
}

impl Floor {
    /// All items of a timestamp are wanted.
    pub fn from(timestamp: Timestamp) -> Self {
        Self { timestamp: timestamp.as_nanos(), digest: None, inclusive: true }
    }

    /// An item is wanted, and all items above it.
    pub fn at(key: ItemKey) -> Self {
        Self { timestamp: key.timestamp.as_nanos(), digest: Some(key.digest), inclusive: true }
    }

    /// Only items above an item are wanted.
    pub fn above(key: ItemKey) -> Self {
        Self { inclusive: false, ..Self::at(key) }
    }

    /// The order of an item and the floor. Any item of the timestamp is above, if all of them are wanted.
    fn order_of(&self, timestamp: u64, digest: impl FnOnce() -> ValueDigest) -> Ordering {
        let by_digest = || self.digest.map_or(Ordering::Greater, |floor| digest().cmp(&floor));
        timestamp.cmp(&self.timestamp).then_with(by_digest)
    }

    /// Whether an item is wanted.
    pub fn is_reached(&self, item: &impl Offered) -> bool {
        let order = self.order_of(item.timestamp(), || item.digest());
        order == Ordering::Greater || (order == Ordering::Equal && self.inclusive)
    }

    /// Whether the item at a cursor is above the floor: a read that restarts there has progressed.
    pub fn is_passed(&self, cursor: &RowCursor) -> bool {
        let order = |entry: &Entry| self.order_of(entry.timestamp, || cursor.digest());
        cursor.entry().map(order) == Some(Ordering::Greater)
    }

    /// Whether some items of the timestamp itself are not wanted.
    pub fn splits_ties(&self) -> bool {
        self.digest.is_some()
    }
}

/// The key of the item at a cursor.
pub fn key_of(cursor: &RowCursor) -> Option<ItemKey> {
    let timestamp = Timestamp::from_nanos(cursor.entry()?.timestamp).ok()?;
    Some(ItemKey::new(timestamp, cursor.digest()))
}

/// Walks a row once. `None` for a malformed row, which its readers report.
fn bookmarks(row: &Bytes, spacing: Spacing) -> Option<Bookmarks> {
    let mut cursor = RowCursor::new(row.clone()).ok()?;
    let mut places = Vec::new();
    let (mut passed, mut oldest) = (0_u64, 0);
    while let Some(entry) = cursor.entry() {
        oldest = entry.timestamp;
        if passed.is_multiple_of(spacing as u64) {
            places.extend(cursor.place());
        }
        passed += 1;
        cursor.advance().ok()?;
    }
    Some(Bookmarks { places: places.into(), oldest })
}

/// Places in a long row, in order, and the timestamp of its last item.
#[derive(Debug, Clone)]
struct Bookmarks {
    places: Arc<[Bookmark]>,
    oldest: u64,
}

/// A row in memory, with random access for readers.
#[derive(Debug, Clone)]
pub struct HeldRow {
    pub row: Bytes,
    bookmarks: Option<Bookmarks>,
}

impl HeldRow {
    pub fn new(row: Bytes, spacing: Spacing) -> Self {
        let bookmarks = (row::count(&row) > spacing as u64).then(|| bookmarks(&row, spacing)).flatten();
        Self { row, bookmarks }
    }

    /// A row that is always walked from its beginning.
    pub fn without_bookmarks(row: Bytes) -> Self {
        Self { row, bookmarks: None }
    }

    /// Its memory in addition to the row's.
    pub fn bookmark_bytes(&self) -> usize {
        self.bookmarks.as_ref().map_or(0, |bookmarks| size_of_val(&*bookmarks.places))
    }

    /// The item of the bookmark `steps` above a floor; `None` if there are fewer.
    pub fn climb(&self, floor: &Floor, steps: usize) -> Result<Option<ItemKey>, Malformed> {
        let Some(Bookmarks { places, .. }) = &self.bookmarks else { return Ok(None) };
        let mut cursor = RowCursor::new(self.row.clone())?;
        let above = places.partition_point(|place| {
            cursor.go_to(place);
            floor.is_passed(&cursor)
        });
        let Some(place) = above.checked_sub(steps).and_then(|place| places.get(place)) else { return Ok(None) };
        cursor.go_to(place);
        Ok(key_of(&cursor))
    }

    /// Opens a cursor on the first wanted item.
    pub fn cursor(&self, start: &Start) -> Result<RowCursor, Malformed> {
        let mut cursor = RowCursor::new(self.row.clone())?;
        self.seek(&mut cursor, start)?;
        Ok(cursor)
    }

    /// Moves a cursor of the row to the first wanted item, unless it is there or after it.
    pub fn seek(&self, cursor: &mut RowCursor, start: &Start) -> Result<(), Malformed> {
        if !start.is_behind(cursor) {
            return Ok(());
        }
        if let Some(Bookmarks { places, oldest }) = &self.bookmarks {
            if *oldest > start.ceiling {
                cursor.leave();
                return Ok(());
            }
            let present = cursor.place();
            let behind = places.partition_point(|place| {
                cursor.go_to(place);
                start.is_behind(cursor)
            });
            let last_behind = behind.checked_sub(1).and_then(|last| places.get(last));
            // It may have been further already.
            if let Some(place) = present.as_ref().into_iter().chain(last_behind).max_by_key(|place| place.offset()) {
                cursor.go_to(place);
            }
        }
        while start.is_behind(cursor) {
            cursor.advance()?;
        }
        Ok(())
    }
}
