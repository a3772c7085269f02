//! Where in a list reading begins, and how a source gets there without a look at all that lies before:
//! a walk of a long list, page by page, must not begin each page at the list's first item. That holds
//! among items of one timestamp too, where the order is that of digests, which are dear.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::{ItemKey, Timestamp, ValueDigest};
use liststore_storage::Range;

use crate::row::{self, Bookmark, Malformed, RowCursor};

/// Items between two bookmarks: of a list that is read page by page, and of one in which single places are
/// looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    Pages = 256,
    Places = 32,
}

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Nothing newer is wanted. Nanoseconds since the Unix epoch.
    pub ceiling: u64,
    /// Of the items of that very timestamp only those with a lower digest.
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

    /// At the first item that comes after this one, newest first.
    pub fn below(key: ItemKey) -> Self {
        Self { ceiling: key.timestamp.as_nanos(), below: Some(key.digest) }
    }

    /// Whether the item that a cursor stands on lies before.
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
        // Without a digest it lies before all items of its timestamp.
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

/// Where a read that begins at the oldest item begins: what lies below is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Of the items of that very timestamp only those with a higher digest.
    digest: Option<ValueDigest>,
    /// Whether the item of that very digest is wanted too.
    inclusive: bool,
}

impl Floor {
    /// All items of a timestamp are wanted.
    pub fn from(timestamp: Timestamp) -> Self {
        Self { timestamp: timestamp.as_nanos(), digest: None, inclusive: true }
    }

    /// An item is wanted, and what lies above it.
    pub fn at(key: ItemKey) -> Self {
        Self { timestamp: key.timestamp.as_nanos(), digest: Some(key.digest), inclusive: true }
    }

    /// Only what lies above an item is wanted.
    pub fn above(key: ItemKey) -> Self {
        Self { inclusive: false, ..Self::at(key) }
    }

    /// How the item that a cursor stands on lies to it. Any item of the timestamp lies above, if all of
    /// them are wanted.
    fn order_of(&self, cursor: &RowCursor) -> Ordering {
        let Some(entry) = cursor.entry() else { return Ordering::Less };
        let by_digest = || self.digest.map_or(Ordering::Greater, |digest| cursor.digest().cmp(&digest));
        entry.timestamp.cmp(&self.timestamp).then_with(by_digest)
    }

    /// Whether the item that a cursor stands on is wanted.
    pub fn is_reached(&self, cursor: &RowCursor) -> bool {
        let order = self.order_of(cursor);
        order == Ordering::Greater || (order == Ordering::Equal && self.inclusive)
    }

    /// Whether that item lies above: a read that begins anew there has come further.
    pub fn is_passed(&self, cursor: &RowCursor) -> bool {
        self.order_of(cursor) == Ordering::Greater
    }

    /// Whether some items of the timestamp itself are not wanted.
    pub fn splits_ties(&self) -> bool {
        self.digest.is_some()
    }
}

/// The key of the item that a cursor stands on.
pub fn key_of(cursor: &RowCursor) -> Option<ItemKey> {
    let timestamp = Timestamp::from_nanos(cursor.entry()?.timestamp).ok()?;
    Some(ItemKey::new(timestamp, cursor.digest()))
}

/// Walks a row once. `None` for one that makes no sense, which is told to whoever reads it.
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

/// A row in memory that reading may begin anywhere in.
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

    /// One that is walked from its beginning.
    pub fn without_bookmarks(row: Bytes) -> Self {
        Self { row, bookmarks: None }
    }

    /// Bytes of memory beside the row's own.
    pub fn bookmark_bytes(&self) -> usize {
        self.bookmarks.as_ref().map_or(0, |bookmarks| size_of_val(&*bookmarks.places))
    }

    /// The item of the bookmark that is so many above a floor; `None` if there are fewer.
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

    /// Stands on the first item that is wanted.
    pub fn cursor(&self, start: &Start) -> Result<RowCursor, Malformed> {
        let mut cursor = RowCursor::new(self.row.clone())?;
        self.seek(&mut cursor, start)?;
        Ok(cursor)
    }

    /// Has a cursor of the row go on to the first item that is wanted, unless it stands there or behind it.
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
            // It may have stood further on already.
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
