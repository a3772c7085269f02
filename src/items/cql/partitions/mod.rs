//! The requests that operations make: reads and writes of partitions. The driver carries them out, and in unit tests a
//! simulated cluster does.
//!
//! | files | content |
//! | --- | --- |
//! | `mod` | the trait, and pages of rows |
//! | `swap` | the conditional change of a bag |
//! | `driver` | the cluster as the driver reaches it |
//! | `simulated` | a small cluster in memory for unit tests |

pub mod driver;
#[cfg(test)]
pub mod simulated;
mod swap;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use scylla::deserialize::result::TypedRowIterator;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::LoadBalancingPolicy;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::batch::BatchType;
use tokio::time::Instant;
use uuid::Uuid;

use super::error::damaged_row;
use super::statements::{Query, Writes};
use crate::items::StoreError;

pub use swap::{BagPut, BagStates, SwapAnswer};

/// The answer to one attempt. `None` if it cannot be read.
pub type Answer<T> = BoxFuture<'static, Result<Option<T>, ExecutionError>>;

/// Where an attempt goes, and how long the cluster may work on it.
pub struct Attempt {
    pub route: Arc<dyn LoadBalancingPolicy>,
    pub deadline: Instant,
}

/// A cluster that stores partitions. Each call is one attempt of one request: permits, retries and routes are decided
/// above it.
pub trait Partitions: Send + Sync + 'static {
    /// One page of a read, and where the next page begins. A page may be short, or empty, without being the last.
    fn page(
        self: Arc<Self>,
        query: &Query<'_>,
        from: PagingState,
        rows_max: i32,
        attempt: Attempt,
    ) -> Answer<(Page, Option<PagingState>)>;

    /// One write or deletion.
    fn write(self: Arc<Self>, query: &Query<'_>, attempt: Attempt) -> Answer<()>;

    /// Writes that are carried out as one.
    fn batch(self: Arc<Self>, kind: BatchType, writes: Arc<dyn Writes>, attempt: Attempt) -> Answer<()>;

    /// Puts another row in the place of the row of a bag, if that is the row that was read.
    fn swap(self: Arc<Self>, put: Arc<BagPut>, attempt: Attempt) -> Answer<SwapAnswer>;

    /// Prepares the search by value. Returns the defect of its index, if it has one.
    fn prepare_search(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>>;

    /// Whether a node is connected that is not suspect.
    fn reaches_a_node(&self, is_suspect: &dyn Fn(Uuid) -> bool) -> bool;

    /// Whether each read sees every acknowledged write, of any server.
    fn reads_see_all_writes(&self) -> bool;
}

/// A page of rows.
#[derive(Debug)]
pub struct Page(Content);

#[derive(Debug)]
enum Content {
    Received(QueryRowsResult),
    #[cfg(test)]
    Simulated(simulated::SimulatedRows),
}

impl Page {
    pub fn received(rows: QueryRowsResult) -> Self {
        Self(Content::Received(rows))
    }

    #[cfg(test)]
    pub fn simulated(rows: simulated::SimulatedRows) -> Self {
        Self(Content::Simulated(rows))
    }

    pub fn rows_count(&self) -> usize {
        match &self.0 {
            Content::Received(rows) => rows.rows_num(),
            #[cfg(test)]
            Content::Simulated(rows) => rows.rows.len(),
        }
    }

    /// The size of the rows in bytes, as the cluster sent them.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Content::Received(rows) => rows.rows_bytes_size(),
            #[cfg(test)]
            Content::Simulated(rows) => rows.rows.iter().map(bytes::Bytes::len).sum(),
        }
    }

    /// The rows, as a type that has their columns.
    pub fn rows<'p, R: DeserializeRow<'p, 'p>>(&'p self) -> Result<Rows<'p, R>, StoreError> {
        match &self.0 {
            Content::Received(rows) => rows.rows().map(Rows::Received).map_err(|_| damaged_row()),
            #[cfg(test)]
            Content::Simulated(rows) => Ok(Rows::Simulated(rows, 0)),
        }
    }

    pub fn first<'p, R: DeserializeRow<'p, 'p>>(&'p self) -> Result<Option<R>, StoreError> {
        self.rows()?.next().transpose()
    }
}

/// The rows of a page, one after the other.
pub enum Rows<'p, R> {
    Received(TypedRowIterator<'p, 'p, R>),
    /// With the place of the next row.
    #[cfg(test)]
    Simulated(&'p simulated::SimulatedRows, usize),
}

impl<'p, R: DeserializeRow<'p, 'p>> Iterator for Rows<'p, R> {
    type Item = Result<R, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Received(rows) => rows.next().map(|row| row.map_err(|_| damaged_row())),
            #[cfg(test)]
            Self::Simulated(rows, next) => {
                *next += 1;
                rows.row(*next - 1)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Received(rows) => rows.size_hint(),
            #[cfg(test)]
            Self::Simulated(rows, next) => (rows.rows.len() - *next, None),
        }
    }
}
