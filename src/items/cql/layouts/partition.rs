//! A walk over one partition of items: a list, or a bucket of a list.

use bytes::Bytes;

use super::walk::{Row, Slice, Step, Walk, What};
use crate::domain::Order;
use crate::items::StoreError;
use crate::items::collect::{Collect, Next};
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::partitions::Page;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::lists::ListStatement;

/// Rows of the first page: the size of rows is unknown until it has been read.
const FIRST_ROWS: usize = 256;
/// Later pages have as many rows as fit in this, by the rows that were read.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_ROWS_MAX: usize = 5_000;

/// A walk over the partition of its call.
pub struct PartitionWalk {
    slice: Slice,
    statement: ListStatement,
    /// The most rows of the walk.
    limit: i32,
    /// How many of them were not offered yet.
    pub left: usize,
    pages: Pages,
    rows_max: usize,
    /// The last key that was read.
    at: Option<String>,
}

impl PartitionWalk {
    pub fn new(call: &Call, slice: Slice, what: What, limit: usize) -> Self {
        let (statement, rows_max) = match (what, slice.order) {
            (What::Items, Order::Newest) if call.core.sampler.is_due() => (ListStatement::GetWithWritetime, FIRST_ROWS),
            (What::Items, Order::Newest) => (ListStatement::Get, FIRST_ROWS),
            (What::Items, Order::Oldest) => (ListStatement::GetOldest, FIRST_ROWS),
            (What::Keys, Order::Newest) => (ListStatement::Keys, PAGE_ROWS_MAX),
            (What::Keys, Order::Oldest) => (ListStatement::KeysOldest, PAGE_ROWS_MAX),
        };
        let (count, pages, at) = (i32::try_from(limit).unwrap_or(i32::MAX), Pages::new(), None);
        Self { slice, statement, limit: count, left: limit, pages, rows_max, at }
    }

    fn offer<C: Collect>(&mut self, call: &Call, page: &Page, collector: &mut C) -> Result<Next, StoreError> {
        match self.statement {
            ListStatement::GetWithWritetime => {
                let rows = page.rows::<(&str, Bytes, i64)>()?.map(|row| {
                    let (key, value, writetime) = row?;
                    call.core.write_clock.observe(writetime);
                    Ok((key, value))
                });
                self.offer_all(rows, collector)
            }
            ListStatement::Keys | ListStatement::KeysOldest => {
                let keys = page.rows::<(&str,)>()?.map(|row| row.map(|(key,)| (key, Bytes::new())));
                self.offer_all(keys, collector)
            }
            _ => self.offer_all(page.rows::<(&str, Bytes)>()?, collector),
        }
    }

    fn offer_all<'p, C: Collect>(
        &mut self,
        rows: impl Iterator<Item = Result<(&'p str, Bytes), StoreError>>,
        collector: &mut C,
    ) -> Result<Next, StoreError> {
        let mut last = None;
        for row in rows {
            let (key, value) = row?;
            self.left = self.left.saturating_sub(1);
            if collector.offer(&Row::new(key, value)?) == Next::Done {
                return Ok(Next::Done);
            }
            last = Some(key);
        }
        if let Some(last) = last {
            last.clone_into(self.at.get_or_insert_default());
        }
        Ok(Next::Wanted)
    }
}

impl Walk for PartitionWalk {
    async fn next<C: Collect + Send>(&mut self, call: &mut Call, collector: &mut C) -> Result<Step, StoreError> {
        let Slice { order, lower, upper } = &self.slice;
        let values = [lower.as_str().into(), upper.as_str().into(), self.limit.into()];
        let query = Query::of_partition(self.statement, values);
        let read = self.pages.next(call, &query, self.rows_max.min(self.left)).await;
        let place = (&call.list, self.at.as_deref().unwrap_or(self.slice.begin()), *order);
        let Some(page) = call.core.to_sweep.check(read, place)? else { return Ok(Step::Ended) };
        if let Some(row_bytes) = page.bytes().checked_div(page.rows_count()) {
            self.rows_max = (PAGE_BYTES / row_bytes.max(1)).clamp(1, PAGE_ROWS_MAX);
        }
        if self.offer(call, &page, collector)? == Next::Done {
            return Ok(Step::Full);
        }
        if self.pages.are_over() || self.left == 0 {
            return Ok(Step::Ended);
        }
        Ok(Step::More)
    }
}
