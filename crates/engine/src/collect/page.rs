//! Offers the items of rows to collectors, and reads pages and newest items from single rows.

use std::ops::ControlFlow;

use bytes::Bytes;
use liststore_contract::domain::{Timestamp, ValueDigest};
use liststore_storage::collect::Offered;
use liststore_storage::{ItemPage, OpContext, Range};

use super::turn::Turn;
use crate::error::ReadError;
use crate::row::merge::{self, Merge};
use crate::row::{self, Entry, RowCursor};

pub use liststore_storage::collect::{Collect, Counter, Finder, Last, Newest, Next, PageBuilder};

/// An item of a row, and the cursor that stands on it.
pub struct StoredItem<'a> {
    pub entry: &'a Entry,
    pub row: &'a RowCursor,
}

impl Offered for StoredItem<'_> {
    #[inline]
    fn timestamp(&self) -> u64 {
        self.entry.timestamp
    }

    #[inline]
    fn expires_at(&self) -> u64 {
        self.entry.expires_at
    }

    #[inline]
    fn is_deleted(&self) -> bool {
        self.entry.deleted
    }

    fn digest(&self) -> ValueDigest {
        self.row.digest()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.row.value()
    }

    #[inline]
    fn value_bytes(&self) -> Bytes {
        self.row.value_bytes()
    }
}

/// Whether an operation sees an item.
pub fn is_visible(op: &OpContext, entry: &Entry) -> bool {
    !entry.deleted && op.sees(entry.timestamp, entry.expires_at)
}

/// Offers the stored items of a list, until the collector wants no more, no more exist, or the turn is over: then it
/// returns `Wanted`.
pub fn collect_from(merge: &mut Merge<'_>, collector: &mut impl Collect, turn: &mut Turn) -> Result<Next, ReadError> {
    let offer = |entry: &Entry, row: &RowCursor| {
        if !turn.spend(row.value()) {
            return ControlFlow::Break(Next::Wanted);
        }
        match collector.offer(&StoredItem { entry, row }) {
            Next::Wanted => ControlFlow::Continue(()),
            Next::Done => ControlFlow::Break(Next::Done),
        }
    };
    Ok(merge.walk(offer)?.break_value().unwrap_or(Next::Done))
}

/// Offers the items of a row, from the cursor on, as [`collect_from`] does.
pub fn collect_rest(cursor: &mut RowCursor, collector: &mut impl Collect, turn: &mut Turn) -> Result<Next, ReadError> {
    while let Some(entry) = cursor.entry() {
        if !turn.spend(cursor.value()) {
            return Ok(Next::Wanted);
        }
        if collector.offer(&StoredItem { entry, row: cursor }) == Next::Done {
            break;
        }
        cursor.advance().map_err(|_| merge::broken())?;
    }
    Ok(Next::Done)
}

/// Offers the items of one row. Returns whether more are wanted; `None` for a malformed row.
pub fn collect_row(row: Bytes, collector: &mut impl Collect) -> Option<Next> {
    let mut cursor = RowCursor::new(row).ok()?;
    while let Some(entry) = cursor.entry() {
        if collector.offer(&StoredItem { entry, row: &cursor }) == Next::Done {
            return Some(Next::Done);
        }
        cursor.advance().ok()?;
    }
    Some(Next::Wanted)
}

/// Reads the newest visible item from one row, and passes its value to `taken`. `None` if the row has none and
/// `complete` does not state that the list ends with it.
pub fn newest_of_row<'r, T>(
    op: &OpContext,
    row: &'r Bytes,
    complete: bool,
    taken: impl FnOnce(Timestamp, &'r [u8]) -> T,
) -> Option<Option<T>> {
    let visible = |entry: &Entry| Timestamp::from_nanos(entry.timestamp).ok().filter(|_| is_visible(op, entry));
    // It usually is the first one.
    if let Some((entry, value)) = row::first(row).ok()?
        && let Some(timestamp) = visible(&entry)
    {
        return Some(Some(taken(timestamp, value)));
    }
    let mut cursor = RowCursor::new(row).ok()?;
    while let Some(entry) = cursor.entry() {
        if let Some(timestamp) = visible(entry) {
            return Some(Some(taken(timestamp, entry.value_in(row))));
        }
        cursor.advance().ok()?;
    }
    complete.then_some(None)
}

/// Reads a page from one row, and returns when it becomes outdated without a write. `None` if the row ends before the
/// page does and `complete` does not state that the list ends there too.
pub fn from_row(op: &OpContext, range: &Range, row: Bytes, complete: bool) -> Option<(ItemPage, u64)> {
    let mut builder = PageBuilder::new(op, range);
    let next = collect_row(row, &mut builder)?;
    let holds_until = builder.holds_until();
    (complete || next == Next::Done).then(|| (builder.finish(), holds_until))
}
