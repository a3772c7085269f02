//! Reads several buckets of a list in one request: where they have few items each, one request for each would cost far
//! more than what it brings.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;

use crate::domain::ListKey;
use crate::items::cql::core::Core;
use crate::items::cql::error::damaged_row;
use crate::items::cql::layouts::keys::read;
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::lists::Statement;
use crate::items::{Operation, StoreError};

/// Buckets of one request. It has no one replica to go to: whoever takes it asks those of each bucket.
pub const SEVERAL_MAX: usize = 16;
/// Rows of one page, at most.
const PAGE_ROWS: usize = 500;
const PAGE_KEYS: i32 = 5_000;
/// Once there are more bytes than this, the rest is read bucket by bucket.
const BYTES_MAX: usize = 4 << 20;
/// Pages that may come beyond the number that the rows fill: a node may cut pages short.
const MORE_PAGES: usize = 4;

/// Rows of a page, and how many pages are read of several buckets, of which so many rows each are asked for.
///
/// ScyllaDB does not hand `PER PARTITION LIMIT` on to replicas: its coordinator reads a long bucket to its end, page by
/// page, and drops the rows beyond (scylladb/scylladb issue 14242). So a page has no more rows than are asked for, and
/// where they bring too little the buckets are read one by one, by a `LIMIT` that replicas know.
fn paging(each: usize, buckets: usize) -> (i32, usize) {
    let rows = each.saturating_mul(buckets).max(1);
    let page = rows.min(PAGE_ROWS);
    (i32::try_from(page).unwrap_or(i32::MAX), rows.div_ceil(page).saturating_add(MORE_PAGES))
}

/// Item key and value, newest first; where keys are all that is read, values are empty.
pub type Row = (String, Bytes);

/// What of several buckets is read.
pub struct Slice<'a> {
    pub list: &'a ListKey,
    pub names: &'a [String],
    pub lower: &'a str,
    pub upper: &'a str,
    pub with_values: bool,
}

impl Slice<'_> {
    fn feature_keys(&self) -> Vec<String> {
        self.names.iter().map(|name| self.list.feature_key.in_bucket(name).as_str().to_owned()).collect()
    }

    async fn page(
        &self,
        core: &Arc<Core>,
        op: &Operation,
        (each, page_rows): (usize, i32),
        state: &PagingState,
        permit: Permit,
    ) -> Result<(QueryRowsResult, PagingStateResponse, Permit), StoreError> {
        let (statement, prepared) = if self.with_values {
            (Statement::Get, &core.for_buckets.several)
        } else {
            (Statement::Keys, &core.for_buckets.several_keys)
        };
        let (feature_keys, each) = (self.feature_keys(), i32::try_from(each).unwrap_or(i32::MAX));
        let (entity_id, lower, upper) = (self.list.entity_id.as_str(), self.lower, self.upper);
        let bind = |statement: PreparedStatement| match core.prepared.within(op.deadline) {
            None => statement.bind(&(&feature_keys, entity_id, lower, upper, each)),
            Some(timeout) => statement.bind(&(&feature_keys, entity_id, lower, upper, each, timeout)),
        };
        let ((result, next), permit): ((QueryResult, PagingStateResponse), Permit) = core
            .attempts
            .run(core.request(statement, op), permit, |route| {
                let mut statement = prepared.clone();
                statement.set_page_size(page_rows);
                statement.set_load_balancing_policy(Some(route));
                read(Arc::clone(core), bind(statement), state.clone())
            })
            .await?;
        Ok((result.into_rows_result().map_err(|_| damaged_row())?, next, permit))
    }

    /// The rows of each bucket, in the order of the names; none of one that has at least `each`, and may have more, or
    /// that there was no room for, and none at all if there are too many tombstones between them.
    pub async fn rows(
        &self,
        core: &Arc<Core>,
        op: &Operation,
        each: usize,
        mut permit: Permit,
    ) -> Result<(Vec<Option<Vec<Row>>>, Permit), StoreError> {
        let feature_keys = self.feature_keys();
        let mut found: Vec<Vec<Row>> = vec![Vec::new(); feature_keys.len()];
        let (mut state, mut bytes, mut at) = (PagingState::start(), 0, 0);
        let (page_rows, mut pages_left) = paging(each, feature_keys.len());
        loop {
            let (result, next);
            (result, next, permit) = match self.page(core, op, (each, page_rows), &state, permit).await {
                // Reads of single buckets show which of them it is, and where.
                Err(StoreError::TooManyTombstones { .. }) => {
                    return Ok((vec![None; feature_keys.len()], core.permit(op.deadline).await?));
                }
                page => page?,
            };
            bytes += result.rows_bytes_size();
            pages_left = pages_left.saturating_sub(1);
            let mut take = |feature_key: &str, row: Row| {
                // Rows of one partition come together.
                if feature_keys.get(at).is_none_or(|key| key != feature_key) {
                    at = feature_keys.iter().position(|key| key == feature_key).ok_or_else(damaged_row)?;
                }
                found.get_mut(at).ok_or_else(damaged_row)?.push(row);
                Ok::<_, StoreError>(())
            };
            if self.with_values {
                for row in result.rows::<(&str, &str, Bytes)>().map_err(|_| damaged_row())? {
                    let (feature_key, key, value) = row.map_err(|_| damaged_row())?;
                    take(feature_key, (key.to_owned(), value))?;
                }
            } else {
                for row in result.rows::<(&str, &str)>().map_err(|_| damaged_row())? {
                    let (feature_key, key) = row.map_err(|_| damaged_row())?;
                    take(feature_key, (key.to_owned(), Bytes::new()))?;
                }
            }
            match next.into_paging_control_flow() {
                // Nobody knows which of them are whole.
                ControlFlow::Continue(_) if bytes > BYTES_MAX || pages_left == 0 => {
                    return Ok((vec![None; feature_keys.len()], permit));
                }
                ControlFlow::Continue(next) => state = next,
                ControlFlow::Break(()) => break,
            }
        }
        Ok((found.into_iter().map(|rows| Some(rows).filter(|rows| rows.len() < each)).collect(), permit))
    }

    /// How many rows there are, of all buckets together; it counts no further than a little beyond `max`. None if there
    /// are too many tombstones between them.
    pub async fn count(
        &self,
        core: &Arc<Core>,
        op: &Operation,
        max: u64,
        mut permit: Permit,
    ) -> Result<(Option<u64>, Permit), StoreError> {
        let each = usize::try_from(max).unwrap_or(usize::MAX);
        let (mut state, mut count) = (PagingState::start(), 0);
        loop {
            let (result, next);
            (result, next, permit) = match self.page(core, op, (each, PAGE_KEYS), &state, permit).await {
                Err(StoreError::TooManyTombstones { .. }) => return Ok((None, core.permit(op.deadline).await?)),
                page => page?,
            };
            count += result.rows_num() as u64;
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) if count < max => state = next,
                _ => return Ok((Some(count), permit)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_large_as_what_is_asked_for_and_end() {
        assert_eq!(paging(8, 16), (128, 1 + MORE_PAGES));
        assert_eq!(paging(125, 16), (500, 4 + MORE_PAGES));
        assert_eq!(paging(0, 16), (1, 1 + MORE_PAGES));
        assert_eq!(paging(usize::MAX, 2).0, 500);
    }
}
