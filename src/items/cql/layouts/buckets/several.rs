//! Reads several buckets of a list in one request: if buckets have few items, a request for each costs far more than it
//! returns.

use bytes::Bytes;

use crate::domain::ListKey;
use crate::items::StoreError;
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::error::damaged_row;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::buckets::BucketStatement;

/// Buckets of one request. It has no single replica: its coordinator asks the replicas of each bucket.
pub const SEVERAL_MAX: usize = 16;
/// Rows of one page, at most.
const PAGE_ROWS: usize = 500;
const PAGE_KEYS: usize = 5_000;
/// Once there are more bytes than this, the rest is read bucket by bucket.
const BYTES_MAX: usize = 4 << 20;
/// Pages that may come beyond the number that the rows fill: a node may cut pages short.
const MORE_PAGES: usize = 4;

/// Rows of a page, and how many pages are read of several buckets, of which so many rows each are requested.
///
/// ScyllaDB does not hand `PER PARTITION LIMIT` on to replicas: its coordinator reads a long bucket to its end, page by
/// page, and drops the rows beyond (scylladb/scylladb issue 14242). So a page has no more rows than requested, and
/// where they bring too little the buckets are read one by one, by a `LIMIT` that replicas know.
fn paging(each: usize, buckets: usize) -> (usize, usize) {
    let rows = each.saturating_mul(buckets).max(1);
    let page = rows.min(PAGE_ROWS);
    (page, rows.div_ceil(page).saturating_add(MORE_PAGES))
}

/// Item key and value, newest first; where keys are all that is read, values are empty.
pub type Row = (String, Bytes);

/// The requested part of several buckets.
pub struct Several<'a> {
    pub list: &'a ListKey,
    pub names: &'a [String],
    pub lower: &'a str,
    pub upper: &'a str,
    pub with_values: bool,
}

impl Several<'_> {
    fn feature_keys(&self) -> Vec<String> {
        self.names.iter().map(|name| self.list.feature_key.in_bucket(name).as_str().to_owned()).collect()
    }

    /// The query, given the partitions and how many rows of each to read.
    fn query<'q>(&'q self, feature_keys: &'q [String], each: usize) -> Query<'q> {
        let statement = if self.with_values { BucketStatement::Several } else { BucketStatement::SeveralKeys };
        let each = i32::try_from(each).unwrap_or(i32::MAX);
        let entity_id = self.list.entity_id.as_str();
        let values = [feature_keys.into(), entity_id.into(), self.lower.into(), self.upper.into(), each.into()];
        Query::timed(statement, values)
    }

    /// The rows of each bucket, in the order of the names; none of one that has at least `each`, and may have more, or
    /// that there was no room for, and none at all if there are too many tombstones between them.
    pub async fn rows(&self, call: &mut Call, each: usize) -> Result<Vec<Option<Vec<Row>>>, StoreError> {
        let feature_keys = self.feature_keys();
        let mut found: Vec<Vec<Row>> = vec![Vec::new(); feature_keys.len()];
        let (mut pages, mut bytes, mut at) = (Pages::new(), 0, 0);
        let (page_rows, mut pages_left) = paging(each, feature_keys.len());
        let query = self.query(&feature_keys, each);
        loop {
            let page = match pages.next(call, &query, page_rows).await {
                // Reads of single buckets show which of them it is, and where.
                Err(StoreError::TooManyTombstones { .. }) => return Ok(vec![None; feature_keys.len()]),
                page => page?,
            };
            let Some(page) = page else { break };
            bytes += page.bytes();
            pages_left = pages_left.saturating_sub(1);
            let mut take = |feature_key: &str, row: Row| {
                // Rows of one partition are adjacent.
                if feature_keys.get(at).is_none_or(|key| key != feature_key) {
                    at = feature_keys.iter().position(|key| key == feature_key).ok_or_else(damaged_row)?;
                }
                found.get_mut(at).ok_or_else(damaged_row)?.push(row);
                Ok::<_, StoreError>(())
            };
            if self.with_values {
                for row in page.rows::<(&str, &str, Bytes)>()? {
                    let (feature_key, key, value) = row?;
                    take(feature_key, (key.to_owned(), value))?;
                }
            } else {
                for row in page.rows::<(&str, &str)>()? {
                    let (feature_key, key) = row?;
                    take(feature_key, (key.to_owned(), Bytes::new()))?;
                }
            }
            // No bucket is known to be complete.
            if !pages.are_over() && (bytes > BYTES_MAX || pages_left == 0) {
                return Ok(vec![None; feature_keys.len()]);
            }
        }
        Ok(found.into_iter().map(|rows| Some(rows).filter(|rows| rows.len() < each)).collect())
    }

    /// How many rows there are, of all buckets together; it counts no further than a little beyond `max`. None if there
    /// are too many tombstones between them.
    pub async fn count(&self, call: &mut Call, max: u64) -> Result<Option<u64>, StoreError> {
        let feature_keys = self.feature_keys();
        let query = self.query(&feature_keys, usize::try_from(max).unwrap_or(usize::MAX));
        let (mut pages, mut count) = (Pages::new(), 0);
        while count < max {
            match pages.next(call, &query, PAGE_KEYS).await {
                Ok(Some(page)) => count += page.rows_count() as u64,
                Ok(None) => break,
                Err(StoreError::TooManyTombstones { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_requested_size_and_end() {
        assert_eq!(paging(8, 16), (128, 1 + MORE_PAGES));
        assert_eq!(paging(125, 16), (500, 4 + MORE_PAGES));
        assert_eq!(paging(0, 16), (1, 1 + MORE_PAGES));
        assert_eq!(paging(usize::MAX, 2).0, 500);
    }
}
