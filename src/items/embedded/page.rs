//! Which of a list's items make up a page: bounds, visibility, limits. The same rules for every
//! source that a page is read from.

use crate::domain::{Item, Timestamp};
use crate::items::{ItemPage, Operation, Range};

use super::error::ReadError;
use super::merge::Merge;
use super::read::Turn;
use super::row::{Entry, RowCursor};
use super::seek::Start;

use bytes::Bytes;

/// Whether more items are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Wanted,
    Done,
}

/// Whether an operation sees an item.
pub fn is_visible(op: &Operation, entry: &Entry) -> bool {
    !entry.deleted && op.now.as_nanos() < entry.expires_at && entry.timestamp >= op.ttl.visible_from(op.now).as_nanos()
}

/// Collects a page from items that are offered in the list's order.
pub struct PageBuilder {
    op: Operation,
    range: Range,
    floor: u64,
    start: Start,
    value_bytes: usize,
    page: ItemPage,
    /// The first moment at which an item that was looked at and was visible is so no longer.
    holds_until: u64,
}

impl PageBuilder {
    pub fn new(op: &Operation, range: &Range) -> Self {
        let floor = op.ttl.visible_from(op.now).max(range.min_timestamp).as_nanos();
        Self {
            op: *op,
            range: *range,
            floor,
            start: Start::of(range),
            value_bytes: 0,
            page: ItemPage::default(),
            holds_until: u64::MAX,
        }
    }

    #[inline]
    pub fn offer(&mut self, entry: &Entry, row: &RowCursor) -> Next {
        if entry.timestamp < self.floor {
            return Next::Done;
        }
        if self.start.is_behind(row) || !is_visible(&self.op, entry) {
            return Next::Wanted;
        }
        let Ok(timestamp) = Timestamp::from_nanos(entry.timestamp) else { return Next::Wanted };
        let visible_until = entry.expires_at.min(self.op.ttl.expiry_of(timestamp));
        self.holds_until = self.holds_until.min(visible_until);
        self.value_bytes = self.value_bytes.saturating_add(row.value().len());
        let full = self.page.items.len() >= self.range.limit;
        if full || (!self.page.items.is_empty() && self.value_bytes > self.range.value_bytes_max) {
            self.page.more = true;
            return Next::Done;
        }
        if self.page.items.capacity() == 0 {
            self.page.items.reserve(self.range.limit.min(64));
        }
        self.page.items.push(Item { timestamp, value: row.value_bytes() });
        Next::Wanted
    }

    /// The page, once it is whole.
    pub fn take(&mut self) -> ItemPage {
        std::mem::take(&mut self.page)
    }
}

/// Adds to a page from all that is stored of a list, until it is whole or the turn is over.
pub fn add_from(merge: &mut Merge<'_>, builder: &mut PageBuilder, turn: &mut Turn) -> Result<Next, ReadError> {
    while let Some((entry, source)) = merge.current() {
        if !turn.goes_on(source.value()) {
            return Ok(Next::Wanted);
        }
        if builder.offer(entry, source.row()) == Next::Done {
            break;
        }
        merge.advance()?;
    }
    Ok(Next::Done)
}

/// Reads a page from one row, and tells until when it holds if nothing is written. `None` if the row
/// ends before the page does and `complete` does not say that the list ends there too.
pub fn from_row(op: &Operation, range: &Range, row: Bytes, complete: bool) -> Option<(ItemPage, u64)> {
    let mut builder = PageBuilder::new(op, range);
    let mut cursor = RowCursor::new(row).ok()?;
    while let Some(entry) = cursor.entry() {
        if builder.offer(entry, &cursor) == Next::Done {
            return Some((builder.page, builder.holds_until));
        }
        cursor.advance().ok()?;
    }
    complete.then_some((builder.page, builder.holds_until))
}
