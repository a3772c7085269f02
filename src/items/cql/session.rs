//! One session of the store: it lives where it was opened, and carries the operations out.
//!
//! An operation runs as a task of its own, on the same thread: a caller who goes away leaves no
//! request of the driver behind half-way, whose stream would be lost to the connection until the
//! answer comes.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use super::coalesce::{Query, Reads};
use super::connect::Completeness;
use super::dialect::Dialect;
use super::error::NO_INDEX;
use super::found::{self, Found};
use super::gate::Gate;
use super::options::{Consistency, CqlOptions};
use super::permits::{Permit, Permits};
use super::replicas::{cautions, check_replicas, replicas_in};
use super::retry::{Attempts, Request};
use super::schema::{IndexTrouble, SchemaState};
use super::statements::{Prepared, Statement};
use super::store::Shared;
use super::view::Contact;
use super::watch::{Seen, Watch};
use super::write_clock::WriteClock;
use super::{add, connect, contains, entities, get, lookout, remove, statements};
use crate::domain::{FeatureKey, ItemKey, ListKey, NewItem, Order, Timestamp, ValueDigest};
use crate::items::{
    Bounds, Count, Done, EntityPage, EntityPlace, ItemPage, ItemSession, Operation, Range, Removal, StoreError, ToAwait,
};

/// How often a session's reads look at write timestamps.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How often a session looks at the index of values while something is wrong with it.
const INDEX_LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a session that opens waits for its search by value.
const FIND_TIMEOUT: Duration = Duration::from_secs(1);

/// What the operations of a session share.
pub struct Core {
    pub driver: Session,
    pub prepared: Prepared,
    pub attempts: Attempts,
    pub permits: Arc<Permits>,
    pub write_clock: WriteClock,
    pub write_consistency: Consistency,
    pub sampler: Sampler,
    pub reads: Arc<Reads>,
    find: OnceCell<PreparedStatement>,
    index_looked_at: tokio::sync::Mutex<Option<Instant>>,
    options: CqlOptions,
    dialect: Dialect,
    datacenter: String,
    pub gate: Gate,
    pub watch: Arc<Watch>,
}

impl Core {
    /// The search by value. While something is wrong with its index it is refused, and the index looked at
    /// again now and then, by one removal for all: such a look has no permit.
    pub async fn find(&self, deadline: tokio::time::Instant) -> Result<PreparedStatement, StoreError> {
        if self.watch.index_trouble().is_none()
            && let Some(find) = self.find.get()
        {
            return Ok(find.clone());
        }
        let finding = async {
            let mut looked_at = self.index_looked_at.lock().await;
            match (self.watch.index_trouble(), *looked_at) {
                (Some(trouble), Some(at)) if at.elapsed() < INDEX_LOOK_INTERVAL => {
                    return Err(connect::unavailable(trouble));
                }
                _ => *looked_at = Some(Instant::now()),
            }
            let trouble = found::index_trouble(&self.driver, &self.options.keyspace, self.dialect).await?;
            let trouble = trouble.map(|trouble| trouble.to_string());
            self.watch.index_is(trouble.clone());
            if let Some(trouble) = trouble {
                return Err(connect::unavailable(trouble));
            }
            let prepare = || statements::prepare_find(&self.driver, &self.options, self.dialect);
            let find = self.find.get_or_try_init(prepare).await;
            find.cloned().map_err(|_| connect::unavailable(NO_INDEX.to_owned()))
        };
        match tokio::time::timeout_at(deadline, finding).await {
            Ok(found) => found,
            Err(_) => Err(StoreError::Timeout { outcome_unknown: false }),
        }
    }

    /// Refuses an operation for which no node is there, before it takes anything.
    fn admit(&self) -> Result<(), StoreError> {
        let admitted = self.gate.admit(|| self.reaches_a_node());
        if admitted.is_err() {
            self.watch.refused();
        }
        admitted
    }

    /// A permit for an operation that was admitted. One that had to wait may find the cluster gone.
    pub async fn permit(&self, deadline: tokio::time::Instant) -> Result<Permit, StoreError> {
        if let Some(permit) = self.permits.try_take() {
            return Ok(permit);
        }
        let permit = self.permits.take(Some(deadline)).await.map_err(|error| self.cause_of(error))?;
        self.admit().map(|()| permit)
    }

    /// That permits are all taken has a cause of its own where nodes hold them and do not answer.
    fn cause_of(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Overloaded { .. } if self.gate.is_shut() => {
                self.watch.refused();
                self.gate.refusal()
            }
            other => other,
        }
    }

    fn reaches_a_node(&self) -> bool {
        let (cluster, health) = (self.driver.get_cluster_state(), &self.attempts.health);
        cluster.get_nodes_info().iter().any(|node| node.is_connected() && !health.is_suspect(node.host_id))
    }

    pub fn request(&self, statement: Statement, op: &Operation) -> Request {
        Request { statement, deadline: op.deadline }
    }
}

impl Seen for Core {
    fn nodes(&self) -> Vec<(SocketAddr, Contact)> {
        let (cluster, health) = (self.driver.get_cluster_state(), &self.attempts.health);
        let nodes = cluster.get_nodes_info().iter();
        let ours = nodes.filter(|node| node.datacenter.as_deref() == Some(&self.datacenter));
        ours.map(|node| {
            let address = SocketAddr::new(node.address.ip(), node.address.port());
            let contact = match (node.is_connected(), health.is_suspect(node.host_id)) {
                (false, _) => Contact::Gone,
                (true, true) => Contact::Silent,
                (true, false) => Contact::Answers,
            };
            (address, contact)
        })
        .collect()
    }

    fn connections(&self) -> u64 {
        self.driver.get_metrics().get_total_connections()
    }

    fn why_none(&self) -> Option<String> {
        self.gate.why()
    }
}

/// A session with the cluster.
pub struct CqlSession {
    core: Arc<Core>,
    lookout: AbortHandle,
}

impl Drop for CqlSession {
    fn drop(&mut self) {
        self.lookout.abort();
    }
}

impl CqlSession {
    /// Connects, checks what is there, and prepares the statements.
    pub async fn open(shared: &Shared) -> Result<Self, StoreError> {
        let options = &shared.options;
        let driver =
            connect::connect(options, shared.tls.as_ref(), &shared.datacenter, Completeness::SomeNodes).await?;
        let (datacenter, dialect, index_trouble) = check(&driver, shared).await?;
        let prepared = Prepared::prepare(&driver, options, dialect).await.map_err(|error| {
            tracing::debug!(%error, "cannot prepare the statements");
            let reason = "the cluster does not prepare the statements: may this login read and write the table \
                          list_items, and does it answer?";
            connect::unavailable(reason.to_owned())
        })?;
        shared.metrics.watch.index_is(index_trouble.map(|trouble| trouble.to_string()));
        let permits = shared.permits.of_a_session(options);
        let attempts = Attempts {
            plan: connect::plan(datacenter, options.rack.as_deref()),
            health: Arc::default(),
            permits: Arc::clone(&permits),
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
            reads: Arc::new(Reads::new(Arc::clone(&permits), shared.metrics.reads_joined.clone())),
            permits,
            find: OnceCell::new(),
            index_looked_at: tokio::sync::Mutex::default(),
            options: options.clone(),
            dialect,
            datacenter: datacenter.to_owned(),
            gate: Gate::default(),
            watch: Arc::clone(&shared.metrics.watch),
        };
        let core = Arc::new(core);
        let seen: Arc<dyn Seen> = Arc::clone(&core) as _;
        core.watch.opened(Arc::downgrade(&seen));
        let lookout = tokio::spawn(lookout::look_out(Arc::clone(&core))).abort_handle();
        // So that the first removal need not; what is wrong is known by now, and said.
        let _ = core.find(tokio::time::Instant::now() + FIND_TIMEOUT).await;
        Ok(Self { core, lookout })
    }

    /// Runs a read to its end, whether or not somebody still waits for it.
    async fn read<T, F>(&self, operation: impl FnOnce(Arc<Core>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.to_the_end(operation).await.map_err(StoreError::with_nothing_done)
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

/// Refuses a cluster that this program cannot work with, with the reason. Returns the datacenter to ask.
async fn check<'a>(
    driver: &Session,
    shared: &'a Shared,
) -> Result<(&'a str, Dialect, Option<IndexTrouble>), StoreError> {
    let (options, cluster) = (&shared.options, driver.get_cluster_state());
    let datacenter = shared.datacenter.in_cluster(&cluster)?;
    if let Some(replicas) = replicas_in(&cluster, &options.keyspace, datacenter) {
        check_replicas(options, &cluster, datacenter, replicas)?;
    }
    let dialect = Dialect::of(options.dialect, &cluster);
    dialect.check_consistency(options).map_err(|why| connect::unavailable(why.to_owned()))?;
    let found = Found::read(driver, &options.keyspace, options.read_consistency).await?;
    match found.state(dialect) {
        state if state.is_served() => {
            if !shared.cautioned.swap(true, Ordering::Relaxed) {
                let newer = matches!(state, SchemaState::NewerServed { .. }).then(|| state.to_string());
                for caution in cautions(options, &cluster, datacenter).into_iter().chain(newer) {
                    tracing::warn!("{caution}");
                }
            }
            tracing::info!(%dialect, datacenter, nodes = cluster.get_nodes_info().len(), "opened a CQL session");
            Ok((datacenter, dialect, found.index_trouble(dialect)))
        }
        other => Err(connect::unavailable(other.to_string())),
    }
}

#[async_trait(?Send)]
impl ItemSession for CqlSession {
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        self.core.admit()?;
        if range.order == Order::Oldest {
            // Reads that share an answer take what has expired for one of them off its end; here that
            // would be its beginning.
            let (op, list, range) = (*op, list.clone(), *range);
            return self
                .read(|core| async move {
                    let permit = core.permit(op.deadline).await?;
                    get::get(&core, &op, &list, &range, permit).await.map(|answer| answer.page)
                })
                .await;
        }
        let query = Query { list: list.clone(), ttl: op.ttl, range: *range };
        let core = Arc::clone(&self.core);
        let send = move |op: Operation, query: Query, permit: Permit| {
            let core = Arc::clone(&core);
            async move { get::get(&core, &op, &query.list, &query.range, permit).await }
        };
        self.core.reads.read(op, query, send).await.map_err(|error| self.core.cause_of(error))
    }

    async fn contains(
        &self,
        op: &Operation,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        self.core.admit()?;
        let (op, list, within, values) = (*op, list.clone(), *within, values.to_vec());
        self.read(|core| async move { contains::contains(&core, &op, &list, &within, &values).await }).await
    }

    async fn count(&self, op: &Operation, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        self.core.admit()?;
        let (op, list, within) = (*op, list.clone(), *within);
        self.read(|core| async move { get::count(&core, &op, &list, &within, max).await }).await
    }

    fn start_add(self: Rc<Self>, op: Operation, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Some(Box::pin(async move {
            let added = match self.core.admit() {
                Ok(()) => self.to_the_end(|core| async move { add::add(&core, &op, &list, &items).await }).await,
                Err(refused) => Err(refused),
            };
            done(added);
        }))
    }

    async fn remove(&self, op: &Operation, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        self.core.admit()?;
        let (op, list, removal) = (*op, list.clone(), removal.clone());
        let removed = self.to_the_end(|core| async move {
            match removal {
                Removal::Value(value) => remove::value(&core, &op, &list, &value).await,
                Removal::Items(items) => {
                    let key =
                        |(timestamp, value): &(Timestamp, Bytes)| ItemKey::new(*timestamp, ValueDigest::of(value));
                    let keys: BTreeSet<_> = items.iter().map(key).collect();
                    remove::items(&core, &op, &list, &keys.into_iter().collect::<Vec<_>>()).await
                }
                Removal::Between(within) => remove::between(&core, &op, &list, &within).await,
            }
        });
        let removed = removed.await;
        if let Err(StoreError::Unavailable { reason, .. }) = &removed
            && reason == NO_INDEX
        {
            self.core.watch.index_is(Some(reason.clone()));
        }
        removed
    }

    async fn entities(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.core.admit()?;
        let (op, feature_key, from) = (*op, feature_key.clone(), from.cloned());
        self.read(|core| async move { entities::entities(&core, &op, &feature_key, from.as_ref(), limit).await }).await
    }

    async fn remove_all(&self, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
        self.core.admit()?;
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
