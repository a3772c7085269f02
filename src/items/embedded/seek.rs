//! Where in a list reading begins, and how a source gets there without a look at all that lies before:
//! a walk of a long list, page by page, must not begin each page at the list's first item. That holds
//! among items of one timestamp too, where the order is that of digests, which are dear.

use std::sync::Arc;

use bytes::Bytes;

use super::row::{self, Malformed, Place, RowCursor};
use crate::domain::ValueDigest;
use crate::items::Range;

/// Items between two bookmarks.
const BOOKMARK_EVERY: u64 = 256;

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

    /// Whether the item that a cursor stands on lies before.
    pub fn is_behind(&self, cursor: &RowCursor) -> bool {
        cursor.entry().is_some_and(|entry| {
            entry.timestamp > self.ceiling
                || entry.timestamp == self.ceiling && self.below.is_some_and(|below| cursor.digest() >= below)
        })
    }
}

/// Walks a row once. `None` for one that makes no sense, which is told to whoever reads it.
fn bookmarks(row: &Bytes) -> Option<Arc<[Place]>> {
    let mut cursor = RowCursor::new(row.clone()).ok()?;
    let mut places = Vec::new();
    let mut passed = 0_u64;
    while cursor.entry().is_some() {
        if passed.is_multiple_of(BOOKMARK_EVERY) {
            places.extend(cursor.place());
        }
        passed += 1;
        cursor.advance().ok()?;
    }
    Some(places.into())
}

/// A row in memory that reading may begin anywhere in.
#[derive(Debug, Clone)]
pub struct HeldRow {
    pub row: Bytes,
    /// Places in a long row, in order.
    bookmarks: Option<Arc<[Place]>>,
}

impl HeldRow {
    pub fn new(row: Bytes) -> Self {
        let bookmarks = (row::count(&row) > BOOKMARK_EVERY).then(|| bookmarks(&row)).flatten();
        Self { row, bookmarks }
    }

    /// Bytes of memory beside the row's own.
    pub fn bookmark_bytes(&self) -> usize {
        self.bookmarks.as_ref().map_or(0, |places| size_of_val(&**places))
    }

    /// Stands on the first item that is wanted.
    pub fn cursor(&self, start: &Start) -> Result<RowCursor, Malformed> {
        let mut cursor = RowCursor::new(self.row.clone())?;
        if !start.is_behind(&cursor) {
            return Ok(cursor);
        }
        if let Some(places) = &self.bookmarks {
            let behind = places.partition_point(|place| {
                cursor.go_to(place);
                start.is_behind(&cursor)
            });
            cursor.go_to(&places[behind.saturating_sub(1)]);
        }
        while start.is_behind(&cursor) {
            cursor.advance()?;
        }
        Ok(cursor)
    }
}
