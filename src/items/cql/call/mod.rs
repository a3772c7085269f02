//! One operation on one partition, and its requests: each goes by [`Attempts`](super::pressure::retry::Attempts), and
//! hands its permit on to the next.
//!
//! | files | content |
//! | --- | --- |
//! | `mod` | the call, its permit, and single requests |
//! | `pages` | the pages of a query, one after the other |
//! | `lanes` | several requests at once |

mod lanes;
mod pages;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use scylla::errors::ExecutionError;
use scylla::response::PagingState;
use scylla::statement::batch::BatchType;

pub use pages::Pages;

use super::core::Core;
use super::error::damaged_row;
use super::partitions::{Answer, Attempt, BagPut, Page, SwapAnswer};
use super::pressure::permits::Permit;
use super::pressure::retry::RetriedRequest;
use super::statements::{Query, Statement, Writes};
use crate::domain::ListKey;
use crate::items::{OpContext, StoreError};

/// The subject of a call's queries.
pub trait Subject: Clone {
    /// The feature key and the entity ID of its partition.
    fn partition(&self) -> Option<[&str; 2]>;
}

impl Subject for ListKey {
    fn partition(&self) -> Option<[&str; 2]> {
        Some([self.feature_key.as_str(), self.entity_id.as_str()])
    }
}

/// Queries that contain the names of their partitions.
impl Subject for () {
    fn partition(&self) -> Option<[&str; 2]> {
        None
    }
}

/// An operation on a list, set or bag, or on the partition of a bucket.
pub struct Call<L = ListKey> {
    pub core: Arc<Core>,
    pub op: OpContext,
    pub list: L,
    /// None before the first request, and after a request that failed: its attempts may be under way still.
    permit: Option<Permit>,
}

impl<L: Subject> Call<L> {
    /// A call that takes its permit with its first request.
    pub fn new(core: &Arc<Core>, op: &OpContext, list: &L) -> Self {
        Self { core: Arc::clone(core), op: *op, list: list.clone(), permit: None }
    }

    pub fn with_permit(core: &Arc<Core>, op: &OpContext, list: &L, permit: Permit) -> Self {
        Self { permit: Some(permit), ..Self::new(core, op, list) }
    }

    /// The permit of the next request: the current one, or a new one.
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

    /// Carries a request out. `make` starts an attempt. Returns `None` for an answer that cannot be read.
    async fn send<T: Send + 'static>(
        &mut self,
        label: Statement,
        make: impl Fn(Attempt) -> Answer<T>,
    ) -> Result<Option<T>, StoreError> {
        let (permit, deadline) = (self.permit().await?, self.op.deadline);
        let request = RetriedRequest { statement: label, deadline };
        let make =
            |route| -> BoxFuture<'static, Result<Option<T>, ExecutionError>> { make(Attempt { route, deadline }) };
        let (done, permit) = self.core.attempts.run(request, permit, make).await?;
        self.permit = Some(permit);
        Ok(done)
    }

    /// Carries one write out.
    pub async fn write(&mut self, query: &Query<'_>) -> Result<(), StoreError> {
        let (cluster, list) = (Arc::clone(&self.core.cluster), self.list.clone());
        let query = query.with_partition(list.partition());
        let make = |attempt| Arc::clone(&cluster).write(&query, attempt);
        self.send(query.label, make).await?.ok_or_else(damaged_row)
    }

    /// Carries several writes out as one. A logged batch may be about several partitions.
    pub async fn batch(
        &mut self,
        label: Statement,
        kind: BatchType,
        writes: Arc<impl Writes>,
    ) -> Result<(), StoreError> {
        let cluster = Arc::clone(&self.core.cluster);
        let make = |attempt| Arc::clone(&cluster).batch(kind, Arc::clone(&writes) as Arc<dyn Writes>, attempt);
        self.send(label, make).await?.ok_or_else(damaged_row)
    }

    /// Changes the row of a bag. Returns the answer, and whether there was more than one attempt.
    pub async fn swap(&mut self, put: BagPut) -> Result<(SwapAnswer, bool), StoreError> {
        let (cluster, put, attempts) = (Arc::clone(&self.core.cluster), Arc::new(put), AtomicUsize::new(0));
        let make = |attempt| {
            attempts.fetch_add(1, Ordering::Relaxed);
            Arc::clone(&cluster).swap(Arc::clone(&put), attempt)
        };
        let answer = self.send(Statement::Swap, make).await?;
        let answer = answer.ok_or_else(|| damaged_row().with_outcome_unknown())?;
        Ok((answer, attempts.into_inner() > 1))
    }

    /// One page of a query, which may be short, or empty, without being the last. Returns where the next one begins.
    async fn page(
        &mut self,
        query: &Query<'_>,
        from: PagingState,
        rows_max: usize,
    ) -> Result<(Page, Option<PagingState>), StoreError> {
        let (cluster, list) = (Arc::clone(&self.core.cluster), self.list.clone());
        let query = query.with_partition(list.partition());
        let rows_max = i32::try_from(rows_max).unwrap_or(i32::MAX).max(1);
        let make = |attempt| Arc::clone(&cluster).page(&query, from.clone(), rows_max, attempt);
        self.send(query.label, make).await?.ok_or_else(damaged_row)
    }

    /// The first page of a query that has one.
    pub async fn rows(&mut self, query: &Query<'_>, rows_max: usize) -> Result<Page, StoreError> {
        self.page(query, PagingState::start(), rows_max).await.map(|(page, _)| page)
    }
}
