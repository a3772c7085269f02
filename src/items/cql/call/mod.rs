//! One operation on one partition, and its requests: each goes by [`Attempts`](super::pressure::retry::Attempts), and
//! hands its permit on to the next.
//!
//! | files | what they own |
//! | --- | --- |
//! | `mod` | the call, its permit, and single requests |
//! | `query` | a statement with its values |
//! | `pages` | the pages of a query, one after the other |
//! | `lanes` | several requests at once |

mod lanes;
mod pages;
mod query;

use std::future::Future;
use std::sync::Arc;

use scylla::errors::{BadQuery, ExecutionError};
use scylla::policies::load_balancing::LoadBalancingPolicy;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::SerializationError;
use scylla::statement::bound::BoundStatement;

pub use pages::Pages;
pub use query::Query;

use super::core::Core;
use super::error::damaged_row;
use super::pressure::permits::Permit;
use super::pressure::retry::Request;
use super::statements::Statement;
use crate::domain::ListKey;
use crate::items::{Operation, StoreError};

/// What the queries of a call are about.
pub trait Subject: Clone {
    /// The feature key and the entity ID of its partition.
    fn partition(&self) -> Option<[&str; 2]>;
}

impl Subject for ListKey {
    fn partition(&self) -> Option<[&str; 2]> {
        Some([self.feature_key.as_str(), self.entity_id.as_str()])
    }
}

/// Queries that name their partitions by themselves.
impl Subject for () {
    fn partition(&self) -> Option<[&str; 2]> {
        None
    }
}

/// An operation on a list, set or bag, or on the partition of a bucket.
pub struct Call<L = ListKey> {
    pub core: Arc<Core>,
    pub op: Operation,
    pub list: L,
    /// None before the first request, and after a request that failed: its attempts may be under way still.
    permit: Option<Permit>,
}

impl<L: Subject> Call<L> {
    /// A call that takes its permit with its first request.
    pub fn new(core: &Arc<Core>, op: &Operation, list: &L) -> Self {
        Self { core: Arc::clone(core), op: *op, list: list.clone(), permit: None }
    }

    pub fn with_permit(core: &Arc<Core>, op: &Operation, list: &L, permit: Permit) -> Self {
        Self { permit: Some(permit), ..Self::new(core, op, list) }
    }

    /// The permit of the next request: the one that is held, or else another.
    async fn permit(&mut self) -> Result<Permit, StoreError> {
        match self.permit.take() {
            Some(permit) => Ok(permit),
            None => self.core.permit(self.op.deadline).await,
        }
    }

    /// Takes a permit now, before anything depends on there being one.
    pub async fn begin(&mut self) -> Result<(), StoreError> {
        self.permit = Some(self.permit().await?);
        Ok(())
    }

    /// Gives the permit back: what follows takes time and sends nothing.
    pub fn release(&mut self) {
        self.permit = None;
    }

    /// Turns to another partition, or back to its list. Returns which one it was before.
    pub fn turn_to(&mut self, list: L) -> L {
        std::mem::replace(&mut self.list, list)
    }

    fn request(&self, statement: Statement) -> Request {
        Request { statement, deadline: self.op.deadline }
    }

    /// Carries a request out. `make` starts an attempt along a route.
    pub async fn send<T, F>(
        &mut self,
        statement: Statement,
        make: impl Fn(Arc<dyn LoadBalancingPolicy>) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ExecutionError>> + Send + 'static,
    {
        let permit = self.permit().await?;
        let (done, permit) = self.core.attempts.run(self.request(statement), permit, make).await?;
        self.permit = Some(permit);
        Ok(done)
    }

    /// The same of a write, which answers with no rows.
    pub async fn send_write<F>(
        &mut self,
        statement: Statement,
        make: impl Fn(Arc<dyn LoadBalancingPolicy>) -> F,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<QueryResult, ExecutionError>> + Send + 'static,
    {
        self.send(statement, make).await?.result_not_rows().map_err(|_| damaged_row())
    }

    /// Carries one write out.
    pub async fn write(&mut self, query: &Query<'_>) -> Result<(), StoreError> {
        let (core, list, deadline) = (Arc::clone(&self.core), self.list.clone(), self.op.deadline);
        let make = |route| {
            let mut prepared = query.prepared.clone();
            prepared.set_load_balancing_policy(Some(route));
            whole(Arc::clone(&core), query.bind(prepared, list.partition(), core.within(deadline)))
        };
        self.send_write(query.statement, make).await
    }

    /// One page of a query, which may be short, or empty, without being the last. Returns where the next one begins.
    async fn page(
        &mut self,
        query: &Query<'_>,
        from: PagingState,
        rows_max: usize,
    ) -> Result<(QueryRowsResult, Option<PagingState>), StoreError> {
        let (core, list, deadline) = (Arc::clone(&self.core), self.list.clone(), self.op.deadline);
        let page_rows = i32::try_from(rows_max).unwrap_or(i32::MAX).max(1);
        let make = |route| {
            let mut prepared = query.prepared.clone();
            prepared.set_page_size(page_rows);
            prepared.set_load_balancing_policy(Some(route));
            let bound = query.bind(prepared, list.partition(), core.within(deadline));
            one_page(Arc::clone(&core), bound, from.clone())
        };
        let (result, next) = self.send(query.statement, make).await?;
        let result = result.into_rows_result().map_err(|_| damaged_row())?;
        Ok((result, next.into_paging_control_flow().continue_value()))
    }

    /// The first page of a query that has one.
    pub async fn rows(&mut self, query: &Query<'_>, rows_max: usize) -> Result<QueryRowsResult, StoreError> {
        self.page(query, PagingState::start(), rows_max).await.map(|(rows, _)| rows)
    }
}

/// Reads one page.
pub async fn one_page(
    core: Arc<Core>,
    bound: Result<BoundStatement, SerializationError>,
    from: PagingState,
) -> Result<(QueryResult, PagingStateResponse), ExecutionError> {
    core.driver.execute_bound_single_page(&bound.map_err(BadQuery::from)?, from).await
}

async fn whole(
    core: Arc<Core>,
    bound: Result<BoundStatement, SerializationError>,
) -> Result<QueryResult, ExecutionError> {
    core.driver.execute_bound_unpaged(&bound.map_err(BadQuery::from)?).await
}
