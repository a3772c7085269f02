//! Walks: the rows of a list in order, newest or oldest first, from a bound on. Each layout has a walk, and one
//! collector serves all of them.
//!
//! A walk reads page by page, and offers the rows of each page to a collector without copying them.

use std::future::Future;

use bytes::Bytes;

use crate::domain::{ItemKey, MaxItems, Order, Timestamp, ValueDigest};
use crate::items::StoreError;
use crate::items::collect::{Collect, Next, Offered, PageBuilder};
use crate::items::cql::call::Call;
use crate::items::cql::error::damaged_row;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::{ItemPage, OpContext, Range};

/// The rows of a walk: `lower <= key < upper`, in an order.
#[derive(Debug, Clone)]
pub struct Slice {
    pub order: Order,
    pub lower: String,
    pub upper: String,
}

impl Slice {
    /// The bound at which a walk begins.
    pub fn begin(&self) -> &str {
        if self.order == Order::Newest { &self.upper } else { &self.lower }
    }
}

/// The part of each row that a walk reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Keys and values, in pages that are bounded in bytes.
    Items,
    /// Keys alone, where the layout stores them apart from values.
    Keys,
}

/// How far a walk has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// More rows may follow.
    More,
    /// The slice has no more rows, or as many were offered as were requested.
    Ended,
    /// The collector wants no more.
    Full,
}

/// A walk over a slice of a list.
pub trait Walk: Send {
    /// Offers the rows of the next page, of which there may be none.
    fn next<C: Collect + Send>(
        &mut self,
        call: &mut Call,
        collector: &mut C,
    ) -> impl Future<Output = Result<Step, StoreError>> + Send;
}

/// Offers a collector the rows of a walk until it wants no more. Returns it.
pub async fn collect<C: Collect + Send>(
    call: &mut Call,
    mut walk: impl Walk,
    mut collector: C,
) -> Result<C, StoreError> {
    while walk.next(call, &mut collector).await? == Step::More {}
    Ok(collector)
}

/// A row of a list of items. Expired rows are dropped by the database, and by the bounds of a walk.
pub struct Row<'a> {
    key: &'a str,
    timestamp: Timestamp,
    value: Bytes,
}

impl<'a> Row<'a> {
    pub fn new(key: &'a str, value: Bytes) -> Result<Self, StoreError> {
        let digits = key.get(..Timestamp::DIGITS).ok_or_else(damaged_row)?;
        let timestamp = Timestamp::parse(digits).map_err(|_| damaged_row())?;
        Ok(Self { key, timestamp, value })
    }
}

impl Offered for Row<'_> {
    fn timestamp(&self) -> u64 {
        self.timestamp.as_nanos()
    }

    fn expires_at(&self) -> u64 {
        u64::MAX
    }

    fn is_deleted(&self) -> bool {
        false
    }

    fn digest(&self) -> ValueDigest {
        self.key().map_or_else(|| ValueDigest::of(&self.value), |key| key.digest)
    }

    fn value(&self) -> &[u8] {
        &self.value
    }

    fn value_bytes(&self) -> Bytes {
        self.value.clone()
    }

    fn key(&self) -> Option<ItemKey> {
        ItemKey::parse(self.key).ok()
    }
}

/// Counts rows up to a number, and finds the key at a place.
#[derive(Debug, Default)]
pub struct Keys {
    pub count: u64,
    /// The key at the place, if there are so many rows.
    pub at: Option<ItemKey>,
    max: u64,
    place: u64,
}

impl Keys {
    /// `place` counts from 1.
    pub fn new(max: u64, place: u64) -> Self {
        Self { count: 0, at: None, max, place }
    }
}

impl Collect for Keys {
    type Found = u64;

    fn offer(&mut self, item: &impl Offered) -> Next {
        self.count += 1;
        if self.count == self.place {
            self.at = item.key();
        }
        if self.count < self.max { Next::Wanted } else { Next::Done }
    }

    fn finish(&mut self) -> u64 {
        self.count
    }
}

/// Finds the last item that a list shows, if the list has more. `walk` begins at the newest item, and reads one item
/// more than are shown. Gives the permit back afterwards: callers that wait for one come next.
pub async fn last_shown(call: &mut Call, max_items: MaxItems, walk: impl Walk) -> Result<Option<ItemKey>, StoreError> {
    let shown = max_items.as_u64();
    let keys = collect(call, walk, Keys::new(shown + 1, shown)).await?;
    call.release();
    if keys.count <= shown {
        return Ok(None);
    }
    call.core.overlong.note(&call.op, &call.list);
    Ok(keys.at)
}

/// A page, with what coalesced reads need to answer at different moments.
pub struct PageCollector {
    builder: PageBuilder,
    /// Of the items offered, where rows outlive their items.
    expiries: Option<Vec<u64>>,
}

impl PageCollector {
    /// A page of a range whose bounds the walk has.
    pub fn new(op: &OpContext, range: &Range, with_expiries: bool) -> Self {
        let builder = PageBuilder::new(op, &Range { after: None, ..*range });
        Self { builder, expiries: with_expiries.then(Vec::new) }
    }

    pub fn into_page(mut self) -> FetchedPage {
        let (page, expiries) = (self.builder.finish(), self.expiries.unwrap_or_default());
        FetchedPage { page, next: self.builder.next(), expiries }
    }
}

impl Collect for PageCollector {
    type Found = ItemPage;

    fn offer(&mut self, item: &impl Offered) -> Next {
        if let Some(expiries) = &mut self.expiries {
            expiries.push(item.expires_at());
        }
        self.builder.offer(item)
    }

    fn finish(&mut self) -> ItemPage {
        self.builder.finish()
    }
}
