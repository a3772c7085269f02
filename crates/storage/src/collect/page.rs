//! Which of a list's items make up a page: bounds, visibility, limits. The same rules for every source that a page is
//! read from.

use liststore_contract::domain::{Item, ItemKey, MaxItems, Timestamp, ValueDigest};

use super::{Collect, Next, Offered, is_visible};
use crate::OpContext;
use crate::request::{ItemPage, Range};

/// Collects a page from items that are offered in the list's order.
pub struct PageBuilder {
    op: OpContext,
    range: Range,
    floor: u64,
    /// Where the page begins: nothing newer, and of the items of that timestamp only those with a lower digest.
    ceiling: u64,
    below: Option<ValueDigest>,
    value_bytes: usize,
    page: ItemPage,
    /// The first moment at which an item that was looked at and was visible is so no longer.
    holds_until: u64,
    next: Option<Timestamp>,
}

impl PageBuilder {
    #[inline]
    pub fn new(op: &OpContext, range: &Range) -> Self {
        let floor = op.ttl.visible_from(op.now).max(range.min_timestamp).as_nanos();
        let (ceiling, below) = match range.after {
            Some(after) if after.timestamp <= range.max_timestamp => (after.timestamp.as_nanos(), Some(after.digest)),
            _ => (range.max_timestamp.as_nanos(), None),
        };
        Self {
            op: *op,
            range: *range,
            floor,
            ceiling,
            below,
            value_bytes: 0,
            page: ItemPage::default(),
            holds_until: u64::MAX,
            next: None,
        }
    }

    /// The first moment at which one of the offered visible items expires, in nanoseconds since the Unix epoch.
    pub fn holds_until(&self) -> u64 {
        self.holds_until
    }

    /// The timestamp of the first visible item that the page has no room for.
    pub fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// Whether an item lies before the page.
    #[inline]
    fn is_before(&self, item: &impl Offered) -> bool {
        let timestamp = item.timestamp();
        timestamp > self.ceiling || timestamp == self.ceiling && self.below.is_some_and(|below| item.digest() >= below)
    }
}

impl Collect for PageBuilder {
    type Found = ItemPage;

    #[inline]
    fn offer(&mut self, item: &impl Offered) -> Next {
        if item.timestamp() < self.floor {
            return Next::Done;
        }
        let expires_at = item.expires_at();
        // The floor has excluded items that are too old to be visible.
        if self.is_before(item) || item.is_deleted() || self.op.now.as_nanos() >= expires_at {
            return Next::Wanted;
        }
        let Ok(timestamp) = Timestamp::from_nanos(item.timestamp()) else { return Next::Wanted };
        let visible_until = expires_at.min(self.op.ttl.expiry_of(timestamp));
        self.holds_until = self.holds_until.min(visible_until);
        self.value_bytes = self.value_bytes.saturating_add(item.value().len());
        let full = self.page.items.len() >= self.range.limit;
        if full || (!self.page.items.is_empty() && self.value_bytes > self.range.value_bytes_max) {
            (self.page.more, self.next) = (true, Some(timestamp));
            return Next::Done;
        }
        if self.page.items.capacity() == 0 {
            self.page.items.reserve(self.range.limit.min(64));
        }
        self.page.items.push(Item { timestamp, value: item.value_bytes() });
        Next::Wanted
    }

    #[inline]
    fn finish(&mut self) -> ItemPage {
        std::mem::take(&mut self.page)
    }
}

/// Offers a collector the visible items of a list up to the most that it shows. It must be offered the list
/// from its newest item on.
pub struct Newest<C> {
    op: OpContext,
    left: usize,
    collector: C,
}

impl<C> Newest<C> {
    pub fn new(op: &OpContext, max_items: MaxItems, collector: C) -> Self {
        Self { op: *op, left: max_items.get(), collector }
    }
}

impl<C: Collect> Collect for Newest<C> {
    type Found = C::Found;

    fn offer(&mut self, item: &impl Offered) -> Next {
        if !is_visible(&self.op, item) {
            return Next::Wanted;
        }
        let Some(left) = self.left.checked_sub(1) else { return Next::Done };
        self.left = left;
        self.collector.offer(item)
    }

    fn finish(&mut self) -> Self::Found {
        self.collector.finish()
    }
}

/// Finds the last of the visible items that a list shows. It must be offered the list from its newest item
/// on.
pub struct Last {
    op: OpContext,
    left: usize,
    found: Option<ItemKey>,
}

impl Last {
    pub fn new(op: &OpContext, max_items: MaxItems) -> Self {
        Self { op: *op, left: max_items.get(), found: None }
    }
}

impl Collect for Last {
    /// `None` if there are fewer than so many.
    type Found = Option<ItemKey>;

    fn offer(&mut self, item: &impl Offered) -> Next {
        self.left -= usize::from(is_visible(&self.op, item));
        if self.left > 0 {
            return Next::Wanted;
        }
        self.found = item.key();
        Next::Done
    }

    fn finish(&mut self) -> Self::Found {
        self.found
    }
}
