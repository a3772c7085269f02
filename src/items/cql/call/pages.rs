//! The pages of a query, one after the other.

use scylla::response::PagingState;

use super::{Call, Subject};
use crate::items::StoreError;
use crate::items::cql::partitions::Page;
use crate::items::cql::statements::Query;

/// Where the next page begins. A page may be short, or empty, without being the last.
#[derive(Debug)]
pub struct Pages {
    next: Option<PagingState>,
}

impl Pages {
    pub fn new() -> Self {
        Self { next: Some(PagingState::start()) }
    }

    /// The next page, of at most so many rows; none at the end, and after an error.
    pub async fn next<L: Subject>(
        &mut self,
        call: &mut Call<L>,
        query: &Query<'_>,
        rows_max: usize,
    ) -> Result<Option<Page>, StoreError> {
        let Some(from) = self.next.take() else { return Ok(None) };
        let (rows, next) = call.page(query, from, rows_max).await?;
        self.next = next;
        Ok(Some(rows))
    }

    pub fn are_over(&self) -> bool {
        self.next.is_none()
    }
}
