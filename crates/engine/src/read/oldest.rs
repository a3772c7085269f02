//! Pages that begin at a list's oldest item.
//!
//! Rows are packed newest first, and cannot be read backwards. So such a page is read in *windows*, from below. Each
//! window begins a few blocks, or bookmarks, above the start of the previous one. It is read downwards like any page,
//! and is then reversed. A window holds at most the missing part of the page. Each item is read once, except unneeded
//! items of the last window.

use std::collections::VecDeque;
use std::sync::Arc;

use liststore_contract::domain::{Item, ItemKey, Timestamp};
use liststore_storage::collect::{Offered, is_visible};
use liststore_storage::{ItemPage, OpContext, Range};

use super::tables::{InMemory, View};
use crate::collect::page::{self, Collect, Last, Next};
use crate::collect::turn::Turn;
use crate::error::ReadError;
use crate::list_id::ListId;
use crate::row::merge::Merge;
use crate::row::seek::{Floor, Start};

/// The estimated number of items in a block, or between two bookmarks.
const ITEMS_OF_STEP: usize = 128;
/// The largest number of blocks, or bookmarks, of the first window, and of any window.
const FIRST_STEPS_MAX: usize = 16;
const STEPS_MAX: usize = 64;

/// The page, and the window that is being read for it.
pub struct OldestPage {
    op: OpContext,
    range: Range,
    floor: Floor,
    /// Newest first: the oldest offered items, as many as the page may still need.
    window: VecDeque<Item>,
    window_bytes: usize,
    page: ItemPage,
    page_bytes: usize,
}

impl OldestPage {
    pub fn new(op: &OpContext, range: &Range) -> Self {
        let lowest = op.ttl.visible_from(op.now).max(range.min_timestamp);
        let floor = match range.after {
            Some(after) if after.timestamp >= lowest => Floor::above(after),
            _ => Floor::from(lowest),
        };
        Self {
            op: *op,
            range: *range,
            floor,
            window: VecDeque::new(),
            window_bytes: 0,
            page: ItemPage::default(),
            page_bytes: 0,
        }
    }

    /// Leaves out the items below an item.
    pub fn begin_at(&mut self, lowest: ItemKey) {
        let is_behind = self.range.after.is_some_and(|after| after >= lowest);
        if !is_behind && lowest.timestamp.as_nanos() >= self.floor.timestamp {
            self.floor = Floor::at(lowest);
        }
    }

    /// Whether the page has no space for an item, given its content by then.
    fn is_full(&self, value_bytes: usize) -> bool {
        let items = self.page.items.len();
        items >= self.range.limit || (items > 0 && value_bytes > self.range.value_bytes_max)
    }

    /// Drops items without space in the page, except one, which shows that there are more.
    fn shorten_window(&mut self) {
        let items_max = self.range.limit.saturating_sub(self.page.items.len()).saturating_add(1);
        let bytes_max = self.range.value_bytes_max.saturating_sub(self.page_bytes);
        while self.window.len() > 2
            && let Some(newest) = self.window.front()
            && (self.window.len() > items_max || self.window_bytes - newest.value.len() > bytes_max)
        {
            self.window_bytes -= newest.value.len();
            self.window.pop_front();
        }
    }

    /// Ends a window: its items follow the page's items, up to the first without space. Returns whether the page is
    /// complete.
    fn end_window(&mut self) -> bool {
        while let Some(item) = self.window.pop_back()
            && !self.page.more
        {
            let value_bytes = self.page_bytes.saturating_add(item.value.len());
            self.page.more = self.is_full(value_bytes);
            if !self.page.more {
                self.page_bytes = value_bytes;
                self.page.items.push(item);
            }
        }
        self.window.clear();
        self.window_bytes = 0;
        self.page.more
    }
}

impl Collect for OldestPage {
    type Found = ItemPage;

    fn offer(&mut self, item: &impl Offered) -> Next {
        if !self.floor.is_reached(item) {
            return Next::Done;
        }
        let in_bounds = item.timestamp() <= self.range.max_timestamp.as_nanos();
        if in_bounds
            && is_visible(&self.op, item)
            && let Ok(timestamp) = Timestamp::from_nanos(item.timestamp())
        {
            self.window_bytes = self.window_bytes.saturating_add(item.value().len());
            self.window.push_back(Item { timestamp, value: item.value_bytes() });
            self.shorten_window();
        }
        Next::Wanted
    }

    fn finish(&mut self) -> ItemPage {
        self.end_window();
        std::mem::take(&mut self.page)
    }
}

/// Reads a page window by window. Its input is fixed at construction.
pub struct OldestRead {
    view: Arc<View>,
    in_memory: InMemory,
    list: ListId,
    page: OldestPage,
    /// Finds the last item that the list shows, if it does not show all.
    last: Option<Last>,
    finding: Option<Merge<'static>>,
    /// Blocks, or bookmarks, of the next window.
    steps: usize,
    window: Option<Window>,
}

struct Window {
    merge: Merge<'static>,
    /// The end of the next window. `None` if there is none.
    next: Option<Floor>,
}

impl OldestRead {
    /// `in_memory` has the memory content of the list: up to the newest wanted item, or all of it if the operation has
    /// a bound on the number of items.
    pub fn new(view: Arc<View>, in_memory: InMemory, list: ListId, op: &OpContext, range: &Range) -> Self {
        let steps = (range.limit / ITEMS_OF_STEP).clamp(1, FIRST_STEPS_MAX);
        let last = op.max_items.map(|max_items| Last::new(op, max_items));
        Self { view, in_memory, list, page: OldestPage::new(op, range), last, finding: None, steps, window: None }
    }

    /// Continues the search for the last shown item. Returns whether it is known.
    fn find_last(&mut self, turn: &mut Turn) -> Result<bool, ReadError> {
        let Self { view, in_memory, list, page, last, finding, .. } = self;
        let Some(collector) = last else { return Ok(true) };
        let merge = match finding {
            Some(merge) => merge,
            None => finding.insert(view.merge(list, &Start::NEWEST, in_memory)?),
        };
        if page::collect_from(merge, collector, turn)? == Next::Wanted {
            return Ok(false);
        }
        if let Some(lowest) = collector.finish() {
            page.begin_at(lowest);
        }
        (*last, *finding) = (None, None);
        Ok(true)
    }

    fn open_window(&mut self, turn: &mut Turn) -> Result<Window, ReadError> {
        let top = Start { ceiling: self.page.range.max_timestamp.as_nanos(), below: None };
        let climbed = self.view.climb(&self.list, &self.in_memory, &self.page.floor, self.steps)?;
        let climbed = climbed.filter(|place| place.timestamp.as_nanos() <= top.ceiling);
        let start = climbed.map_or(top, Start::below);
        let merge = self.view.merge(&self.list, &start, &self.in_memory)?;
        turn.opened(merge.sources());
        self.steps = (2 * self.steps).min(STEPS_MAX);
        Ok(Window { merge, next: climbed.map(Floor::at) })
    }

    /// Continues for a turn. `None` if that was not enough. Must not be called again after any other result.
    pub fn turn(&mut self) -> Result<Option<ItemPage>, ReadError> {
        let mut turn = Turn::new();
        if !self.find_last(&mut turn)? {
            return Ok(None);
        }
        loop {
            let window = match self.window.take() {
                Some(window) => window,
                None => self.open_window(&mut turn)?,
            };
            let Window { merge, next } = self.window.insert(window);
            if page::collect_from(merge, &mut self.page, &mut turn)? == Next::Wanted {
                return Ok(None);
            }
            let next = next.take();
            self.window = None;
            match next {
                Some(floor) if !self.page.end_window() => self.page.floor = floor,
                _ => return Ok(Some(self.page.finish())),
            }
        }
    }
}
