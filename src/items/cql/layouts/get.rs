//! Get List Items: one slice of one partition.

use std::sync::Arc;

use bytes::Bytes;

use super::keys::bounds;
use crate::domain::{Item, ItemKey, Order, Timestamp};
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::error::damaged_row;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::{ItemPage, Range, StoreError};

/// Rows of the first page that is asked for; how large a row is, is not known then.
const FIRST_ROWS: usize = 256;
/// Later pages have as many rows as fit in this, by the rows seen.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_ROWS_MAX: usize = 5_000;

pub async fn get(call: &mut Call, range: &Range, last_shown: Option<ItemKey>) -> Result<FetchedPage, StoreError> {
    let mut page = Page::new(range);
    let after = range.after.map(|key| (key, range.order));
    if let Some((lower, upper)) = bounds(&call.op, &range.bounds(), after, last_shown) {
        fill(call, (&lower, &upper), &mut page).await?;
    }
    Ok(page.into_answer())
}

/// Reads the items of a slice of a partition into a page, until that is full or the slice has ended.
pub async fn fill(call: &mut Call, (lower, upper): (&str, &str), page: &mut Page<'_>) -> Result<(), StoreError> {
    let range = page.range;
    // One more than asked for tells whether more follows.
    let end = range.limit.saturating_add(1);
    let limit = i32::try_from(end - page.items()).unwrap_or(i32::MAX);
    let core = Arc::clone(&call.core);
    let sampled = range.order == Order::Newest && core.sampler.is_due();
    let statement = match range.order {
        Order::Newest if sampled => ListStatement::GetWithWritetime,
        Order::Newest => ListStatement::Get,
        Order::Oldest => ListStatement::GetOldest,
    };
    let query = Query::of_partition(statement, [lower.into(), upper.into(), limit.into()]);
    let (mut pages, mut rows_max, mut full) = (Pages::new(), FIRST_ROWS, false);
    while !full {
        let read = pages.next(call, &query, rows_max.min(end - page.items())).await;
        let at = read.as_ref().err().and_then(|_| page.page.items.last()).map(|last| last.key().to_string());
        let begin = if range.order == Order::Newest { upper } else { lower };
        let place = (&call.list, at.as_deref().unwrap_or(begin), range.order);
        let Some(rows) = core.to_sweep.check(read, place)? else { break };
        if let Some(row_bytes) = rows.bytes().checked_div(rows.rows_count()) {
            rows_max = (PAGE_BYTES / row_bytes.max(1)).clamp(1, PAGE_ROWS_MAX);
            page.page.items.reserve(rows.rows_count());
        }
        full = if sampled {
            rows.rows::<(&str, Bytes, i64)>()?.try_fold(false, |full, row| {
                let (key, value, writetime) = row?;
                core.write_clock.observe(writetime);
                Ok::<_, StoreError>(full || page.push(key, value)?)
            })?
        } else {
            page.push_all(rows.rows::<(&str, Bytes)>()?)?
        };
    }
    Ok(())
}

/// A page that is being filled.
pub struct Page<'a> {
    range: &'a Range,
    page: ItemPage,
    value_bytes: usize,
    /// The timestamp of the item that would have been one too many.
    next: Option<Timestamp>,
}

impl<'a> Page<'a> {
    pub fn new(range: &'a Range) -> Self {
        Self { range, page: ItemPage::default(), value_bytes: 0, next: None }
    }

    pub fn items(&self) -> usize {
        self.page.items.len()
    }

    pub fn is_full(&self) -> bool {
        self.next.is_some()
    }

    /// Takes rows until the page is full. Returns whether it is.
    pub fn push_all(
        &mut self,
        rows: impl Iterator<Item = Result<(impl AsRef<str>, Bytes), StoreError>>,
    ) -> Result<bool, StoreError> {
        for row in rows {
            let (key, value) = row?;
            if self.push(key.as_ref(), value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn push(&mut self, key: &str, value: Bytes) -> Result<bool, StoreError> {
        let digits = key.get(..Timestamp::DIGITS).ok_or_else(damaged_row)?;
        let timestamp = Timestamp::parse(digits).map_err(|_| damaged_row())?;
        self.value_bytes += value.len();
        let items = &mut self.page.items;
        if items.len() == self.range.limit || (!items.is_empty() && self.value_bytes > self.range.value_bytes_max) {
            self.next = Some(timestamp);
            return Ok(true);
        }
        items.push(Item { timestamp, value });
        Ok(false)
    }

    pub fn into_answer(self) -> FetchedPage {
        let page = ItemPage { more: self.next.is_some(), ..self.page };
        FetchedPage { page, next: self.next, expiries: Vec::new() }
    }
}
