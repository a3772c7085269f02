//! Reads of a list of any layout: each is a collector over the walk of the layout.

use super::buckets::{self, BucketsWalk};
use super::keys::bounds;
use super::members::{self, SetWalk};
use super::partition::PartitionWalk;
use super::walk::{self, Keys, PageCollector, Slice, Step, Walk, What, collect};
use crate::domain::{ItemKey, ListKey, MaxItems, Order, Timestamp};
use crate::items::collect::Collect;
use crate::items::cql::call::Call;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::{Bounds, Count, Range, StoreError};

/// How a list is stored: as items in one partition, as items in buckets, or as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Items,
    Buckets,
    Set,
}

impl Layout {
    pub fn of(list: &ListKey) -> Self {
        if list.identity().is_set() {
            Self::Set
        } else if list.bucket().is_some() {
            Self::Buckets
        } else {
            Self::Items
        }
    }

    /// A walk over the list of a call, of so many rows at most.
    pub fn walk(self, call: &Call, slice: Slice, what: What, limit: usize) -> LayoutWalk {
        match self {
            Self::Items => LayoutWalk::Items(PartitionWalk::new(call, slice, what, limit)),
            Self::Buckets => LayoutWalk::Buckets(Box::new(BucketsWalk::new(call, slice, what, limit))),
            Self::Set => LayoutWalk::Set(SetWalk::new(slice, what, limit)),
        }
    }

    /// Counts the visible items of a list that is stored so, up to a number, and finds the key at a place.
    pub async fn keys(
        self,
        call: &mut Call,
        within: &Bounds,
        last_shown: Option<ItemKey>,
        (max, place): (u64, u64),
    ) -> Result<Keys, StoreError> {
        let keys = Keys::new(max, place);
        let Some(slice) = bounds(&call.op, within, (Order::Newest, None), last_shown) else { return Ok(keys) };
        let walk = self.walk(call, slice, What::Keys, usize::try_from(max).unwrap_or(usize::MAX));
        collect(call, walk, keys).await
    }
}

/// The walk of a layout.
pub enum LayoutWalk {
    Items(PartitionWalk),
    Buckets(Box<BucketsWalk>),
    Set(SetWalk),
}

impl Walk for LayoutWalk {
    async fn next<C: Collect + Send>(&mut self, call: &mut Call, collector: &mut C) -> Result<Step, StoreError> {
        match self {
            Self::Items(walk) => walk.next(call, collector).await,
            Self::Buckets(walk) => walk.next(call, collector).await,
            Self::Set(walk) => walk.next(call, collector).await,
        }
    }
}

/// The last item that a list shows, if it has more. Gives the permit back.
pub async fn last_shown(call: &mut Call) -> Result<Option<ItemKey>, StoreError> {
    let Some(max_items) = call.op.max_items else { return Ok(None) };
    let Some(slice) = bounds(&call.op, &Bounds::ALL, (Order::Newest, None), None) else { return Ok(None) };
    let walk = Layout::of(&call.list).walk(call, slice, What::Keys, max_items.get() + 1);
    walk::last_shown(call, max_items, walk).await
}

/// A page of a list.
pub async fn page(call: &mut Call, range: &Range, last_shown: Option<ItemKey>) -> Result<FetchedPage, StoreError> {
    let layout = Layout::of(&call.list);
    let page = PageCollector::new(&call.op, range, layout == Layout::Set);
    let Some(slice) = bounds(&call.op, &range.bounds(), (range.order, range.after), last_shown) else {
        return Ok(page.into_page());
    };
    // One item more than the page has shows whether more follow.
    let walk = layout.walk(call, slice, What::Items, range.limit.saturating_add(1));
    collect(call, walk, page).await.map(PageCollector::into_page)
}

/// Counts the visible items between two moments, up to a number.
pub async fn count(call: &mut Call, within: &Bounds, max: u64) -> Result<Count, StoreError> {
    let shown = call.op.max_items.map_or(u64::MAX, MaxItems::as_u64);
    let max = max.min(shown);
    let counted = count_up_to(call, within, max.saturating_add(1)).await?;
    call.core.wide.note(&call.list, counted);
    // Items that were added during the count may have made them more than are shown.
    let counted = counted.min(shown);
    Ok(Count { items: counted.min(max), exact: counted <= max })
}

async fn count_up_to(call: &mut Call, within: &Bounds, enough: u64) -> Result<u64, StoreError> {
    let layout = Layout::of(&call.list);
    if layout == Layout::Set
        && let Some(counted) = members::count_whole(call, within, enough).await?
    {
        return Ok(counted);
    }
    let last_shown = match within.max_timestamp {
        // From the newest item on, the first items are the shown ones.
        Timestamp::MAX => None,
        _ => last_shown(call).await?,
    };
    let order = if layout == Layout::Set { members::order_of_moves(&call.list) } else { Order::Newest };
    let Some(slice) = bounds(&call.op, within, (order, None), last_shown) else { return Ok(0) };
    if layout == Layout::Buckets {
        return buckets::count(call, &slice, enough).await;
    }
    let walk = layout.walk(call, slice, What::Keys, usize::try_from(enough).unwrap_or(usize::MAX));
    collect(call, walk, Keys::new(enough, 0)).await.map(|keys| keys.count)
}
