//! Selects the items of a page: bounds, visibility, limits. The rules are the same for every source of a page. Also
//! offers items to other collectors.

use super::turn::Turn;
use crate::error::ReadError;
use crate::row::merge::Merge;
use crate::row::seek::{Start, key_of};
use crate::row::{self, Entry, RowCursor};

use bytes::Bytes;
use liststore_contract::domain::{Item, ItemKey, MaxItems, Timestamp};
use liststore_storage::{ItemPage, Operation, Range};

/// Whether more items are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Wanted,
    Done,
}

/// Whether an operation sees an item.
pub fn is_visible(op: &Operation, entry: &Entry) -> bool {
    !entry.deleted && op.sees(entry.timestamp, entry.expires_at)
}

/// Selects from items that are offered in the list's order.
pub trait Collect {
    type Found;

    fn offer(&mut self, entry: &Entry, row: &RowCursor) -> Next;

    /// The result, once it wants no more items or there are no more.
    fn finish(&mut self) -> Self::Found;
}

/// Collects a page from items that are offered in the list's order.
pub struct PageBuilder {
    op: Operation,
    range: Range,
    floor: u64,
    start: Start,
    value_bytes: usize,
    page: ItemPage,
    /// The first moment at which one of the visible items expires.
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
}

impl Collect for PageBuilder {
    type Found = ItemPage;

    #[inline]
    fn offer(&mut self, entry: &Entry, row: &RowCursor) -> Next {
        if entry.timestamp < self.floor {
            return Next::Done;
        }
        // The check of its age came first.
        if self.start.is_behind(row) || entry.deleted || self.op.now.as_nanos() >= entry.expires_at {
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

    fn finish(&mut self) -> ItemPage {
        std::mem::take(&mut self.page)
    }
}

/// Offers a collector the visible items of a list, up to the largest number that it shows. It must be offered the list
/// from its newest item on.
pub struct Newest<C> {
    op: Operation,
    left: usize,
    collector: C,
}

impl<C> Newest<C> {
    pub fn new(op: &Operation, max_items: MaxItems, collector: C) -> Self {
        Self { op: *op, left: max_items.get(), collector }
    }
}

impl<C: Collect> Collect for Newest<C> {
    type Found = C::Found;

    fn offer(&mut self, entry: &Entry, row: &RowCursor) -> Next {
        if !is_visible(&self.op, entry) {
            return Next::Wanted;
        }
        let Some(left) = self.left.checked_sub(1) else { return Next::Done };
        self.left = left;
        self.collector.offer(entry, row)
    }

    fn finish(&mut self) -> Self::Found {
        self.collector.finish()
    }
}

/// Finds the last of the visible items that a list shows. It must be offered the list from its newest item
/// on.
pub struct Last {
    op: Operation,
    left: usize,
    found: Option<ItemKey>,
}

impl Last {
    pub fn new(op: &Operation, max_items: MaxItems) -> Self {
        Self { op: *op, left: max_items.get(), found: None }
    }
}

impl Collect for Last {
    /// `None` if there are fewer items.
    type Found = Option<ItemKey>;

    fn offer(&mut self, entry: &Entry, row: &RowCursor) -> Next {
        self.left -= usize::from(is_visible(&self.op, entry));
        if self.left > 0 {
            return Next::Wanted;
        }
        self.found = key_of(row);
        Next::Done
    }

    fn finish(&mut self) -> Self::Found {
        self.found
    }
}

/// Offers the stored items of a list, until the collector wants no more, no more exist, or the turn is over: then it
/// returns `Wanted`.
pub fn collect_from(merge: &mut Merge<'_>, collector: &mut impl Collect, turn: &mut Turn) -> Result<Next, ReadError> {
    while let Some((entry, source)) = merge.current() {
        if !turn.goes_on(source.value()) {
            return Ok(Next::Wanted);
        }
        if collector.offer(entry, source.row()) == Next::Done {
            break;
        }
        merge.advance()?;
    }
    Ok(Next::Done)
}

/// Offers the items of one row. Returns whether more are wanted; `None` for a malformed row.
pub fn collect_row(row: Bytes, collector: &mut impl Collect) -> Option<Next> {
    let mut cursor = RowCursor::new(row).ok()?;
    while let Some(entry) = cursor.entry() {
        if collector.offer(entry, &cursor) == Next::Done {
            return Some(Next::Done);
        }
        cursor.advance().ok()?;
    }
    Some(Next::Wanted)
}

/// Reads the newest visible item from one row, and passes its value to `taken`. `None` if the row has none and
/// `complete` does not state that the list ends with it.
pub fn newest_of_row<'r, T>(
    op: &Operation,
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
pub fn from_row(op: &Operation, range: &Range, row: Bytes, complete: bool) -> Option<(ItemPage, u64)> {
    let mut builder = PageBuilder::new(op, range);
    let next = collect_row(row, &mut builder)?;
    (complete || next == Next::Done).then_some((builder.page, builder.holds_until))
}
