//! One session of the store: it lives where it was opened, and carries the four operations out.
//!
//! An operation runs as a task of its own, on the same thread: a caller who goes away leaves no
//! request of the driver behind half-way, whose stream would be lost to the connection until the
//! answer comes.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use scylla::client::session::Session;

use super::coalesce::{Query, Reads};
use super::dialect::Dialect;
use super::options::{Consistency, CqlOptions};
use super::retry::{Attempts, Request};
use super::schema::{Found, SchemaState, check_replicas, replicas_in};
use super::statements::{Prepared, Statement};
use super::store::Shared;
use super::turns::Turns;
use super::write_clock::WriteClock;
use super::{add, connect, get, remove};
use crate::domain::{ListKey, NewItem};
use crate::items::{ItemPage, ItemSession, Operation, Range, StoreError};

/// How often a session's reads look at write timestamps.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// What the operations of a session share.
pub struct Core {
    pub driver: Session,
    pub prepared: Prepared,
    pub attempts: Attempts,
    pub write_clock: WriteClock,
    pub write_consistency: Consistency,
    pub sampler: Sampler,
    pub removals: Turns,
    pub reads: Arc<Reads>,
}

impl Core {
    pub fn request(&self, statement: Statement, op: &Operation) -> Request {
        Request { statement, deadline: op.deadline }
    }
}

/// A session with the cluster.
pub struct CqlSession {
    core: Arc<Core>,
}

impl CqlSession {
    /// Connects, checks what is there, and prepares the statements.
    pub async fn open(shared: &Shared) -> Result<Self, StoreError> {
        let options = &shared.options;
        let driver = connect::connect(options, shared.tls.as_ref()).await?;
        check(&driver, options).await?;
        let prepared = Prepared::prepare(&driver, options).await.map_err(|error| {
            tracing::warn!(%error, "cannot prepare the statements");
            connect::unavailable("the cluster refuses to prepare the statements".to_owned())
        })?;
        shared.metrics.opened(&driver.get_metrics());
        let attempts = Attempts {
            plan: connect::plan(options),
            health: Arc::default(),
            budget: Arc::clone(&shared.budget),
            speculative_after: options.speculative_after,
            metrics: Arc::clone(&shared.metrics),
        };
        let core = Core {
            driver,
            prepared,
            attempts,
            write_clock: shared.write_clock.clone(),
            write_consistency: options.write_consistency,
            sampler: Sampler::new(),
            removals: Turns::default(),
            reads: Arc::new(Reads::new(shared.metrics.reads_joined.clone())),
        };
        Ok(Self { core: Arc::new(core) })
    }

    /// Runs a write to its end, whether or not somebody still waits for it.
    async fn to_the_end<T, F>(&self, operation: impl FnOnce(Arc<Core>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        match tokio::spawn(operation(Arc::clone(&self.core))).await {
            Ok(result) => result,
            Err(error) => {
                let reason = if error.is_panic() { "an operation panicked" } else { "the session was closed" };
                Err(StoreError::Internal { reason: reason.to_owned(), outcome_unknown: true })
            }
        }
    }
}

/// Refuses a cluster that this program cannot work with, with the reason.
async fn check(driver: &Session, options: &CqlOptions) -> Result<(), StoreError> {
    let cluster = driver.get_cluster_state();
    let datacenter = connect::datacenter(options, &cluster)?;
    if let Some(replicas) = replicas_in(&cluster, &options.keyspace, &datacenter) {
        check_replicas(options, &cluster, &datacenter, replicas)?;
    }
    let found = Found::read(driver, &options.keyspace, options.read_consistency).await?;
    let dialect = Dialect::of(options.dialect, &cluster);
    match found.state(dialect) {
        SchemaState::Current => {
            tracing::info!(%dialect, datacenter, nodes = cluster.get_nodes_info().len(), "opened a CQL session");
            Ok(())
        }
        other => Err(connect::unavailable(other.to_string())),
    }
}

#[async_trait(?Send)]
impl ItemSession for CqlSession {
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        let query = Query { list: list.clone(), ttl: op.ttl, range: *range };
        let core = Arc::clone(&self.core);
        let send = move |op: Operation, query: Query| {
            let core = Arc::clone(&core);
            async move { get::get(&core, &op, &query.list, &query.range).await }
        };
        self.core.reads.read(op, query, send).await
    }

    async fn add(&self, op: &Operation, list: &ListKey, items: Vec<NewItem>) -> Result<(), StoreError> {
        let (op, list) = (*op, list.clone());
        self.to_the_end(|core| async move { add::add(&core, &op, &list, &items).await }).await
    }

    async fn remove_value(&self, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
        let (op, list, value) = (*op, list.clone(), value.to_vec());
        self.to_the_end(|core| async move { remove::value(&core, &op, &list, &value).await }).await
    }

    async fn remove_all(&self, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
        let (op, list) = (*op, list.clone());
        self.to_the_end(|core| async move { remove::all(&core, &op, &list).await }).await
    }
}

/// Says once a second that a read shall look at write timestamps: they cost a little in every row,
/// and one page a second tells of other servers' clocks.
pub struct Sampler {
    since: Instant,
    /// Milliseconds from `since`.
    next: AtomicU64,
}

impl Sampler {
    fn new() -> Self {
        Self { since: Instant::now(), next: AtomicU64::new(0) }
    }

    pub fn is_due(&self) -> bool {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(SAMPLE_INTERVAL.as_millis() as u64);
        now >= next && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_a_second_looks_at_write_timestamps() {
        let sampler = Sampler::new();
        assert!(sampler.is_due());
        assert_eq!((0..100).filter(|_| sampler.is_due()).count(), 0);
    }
}
