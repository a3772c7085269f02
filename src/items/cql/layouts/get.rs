//! Get List Items: one slice of one partition.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use scylla::response::PagingState;

use super::keys::{bounds, read};
use crate::domain::{Item, ItemKey, ListKey, Order, Timestamp};
use crate::items::cql::core::Core;
use crate::items::cql::error::damaged_row;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::lists::Statement;
use crate::items::{ItemPage, Operation, Range, StoreError};

/// Rows of the first page that is asked for; how large a row is, is not known then.
const FIRST_ROWS: usize = 256;
/// Later pages have as many rows as fit in this, by the rows seen.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_ROWS_MAX: usize = 5_000;

pub async fn get(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    range: &Range,
    last_shown: Option<ItemKey>,
    permit: Permit,
) -> Result<FetchedPage, StoreError> {
    let mut page = Page::new(range);
    let after = range.after.map(|key| (key, range.order));
    if let Some((lower, upper)) = bounds(op, &range.bounds(), after, last_shown) {
        fill(core, op, list, (&lower, &upper), &mut page, permit).await?;
    }
    Ok(page.into_answer())
}

/// Reads the items of a slice of a partition into a page, until that is full or the slice has ended.
pub async fn fill(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    (lower, upper): (&str, &str),
    page: &mut Page<'_>,
    mut permit: Permit,
) -> Result<Permit, StoreError> {
    let range = page.range;
    // One more than asked for tells whether more follows.
    let end = range.limit.saturating_add(1);
    let wanted = end - page.items();
    let limit = i32::try_from(wanted).unwrap_or(i32::MAX);
    let sampled = range.order == Order::Newest && core.sampler.is_due();
    let statement = match range.order {
        Order::Newest if sampled => &core.prepared.get_with_writetime,
        Order::Newest => &core.prepared.get,
        Order::Oldest => &core.prepared.get_oldest,
    };
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let (mut state, mut rows_max) = (PagingState::start(), FIRST_ROWS);
    // A page may be cut short, and even be empty, without being the last.
    loop {
        let rows = rows_max.min(end - page.items());
        let read = core
            .attempts
            .run(core.request(Statement::Get, op), permit, |route| {
                let mut statement = statement.clone();
                statement.set_page_size(i32::try_from(rows).unwrap_or(i32::MAX));
                statement.set_load_balancing_policy(Some(route));
                let bound = match core.prepared.within(op.deadline) {
                    None => statement.bind(&(feature_key, entity_id, lower, upper, limit)),
                    Some(timeout) => statement.bind(&(feature_key, entity_id, lower, upper, limit, timeout)),
                };
                read(Arc::clone(core), bound, state.clone())
            })
            .await;
        let at = read.as_ref().err().and_then(|_| page.page.items.last()).map(|last| last.key().to_string());
        let begin = if range.order == Order::Newest { upper } else { lower };
        let ((result, next), kept) = core.to_sweep.check(read, (list, at.as_deref().unwrap_or(begin), range.order))?;
        permit = kept;
        let result = result.into_rows_result().map_err(|_| damaged_row())?;
        if result.rows_num() > 0 {
            let row_bytes = (result.rows_bytes_size() / result.rows_num()).max(1);
            rows_max = (PAGE_BYTES / row_bytes).clamp(1, PAGE_ROWS_MAX);
            page.page.items.reserve(result.rows_num());
        }
        let full = if sampled {
            let mut rows = result.rows::<(&str, Bytes, i64)>().map_err(|_| damaged_row())?;
            rows.try_fold(false, |full, row| {
                let (key, value, writetime) = row.map_err(|_| damaged_row())?;
                core.write_clock.observe(writetime);
                Ok::<_, StoreError>(full || page.push(key, value)?)
            })?
        } else {
            page.push_all(result.rows::<(&str, Bytes)>().map_err(|_| damaged_row())?)?
        };
        match next.into_paging_control_flow() {
            ControlFlow::Continue(next) if !full => state = next,
            _ => return Ok(permit),
        }
    }
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
    pub fn push_all<E>(
        &mut self,
        rows: impl Iterator<Item = Result<(impl AsRef<str>, Bytes), E>>,
    ) -> Result<bool, StoreError> {
        for row in rows {
            let (key, value) = row.map_err(|_| damaged_row())?;
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
