//! The cluster as the driver reaches it: a session, and the statements that it prepared.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scylla::client::session::Session;
use scylla::errors::{BadQuery, PrepareError};
use scylla::policies::load_balancing::LoadBalancingPolicy;
use scylla::response::PagingState;
use scylla::serialize::SerializationError;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlDuration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Answer, Attempt, BagPut, Page, Partitions, SwapAnswer};
use crate::items::StoreError;
use crate::items::cql::connect::connection_errors::unavailable;
use crate::items::cql::connect::driver::{self, Completeness};
use crate::items::cql::error::NO_INDEX;
use crate::items::cql::options::CqlOptions;
use crate::items::cql::schema::dialect::Dialect;
use crate::items::cql::schema::found::{self, FoundSchema, IndexDefect};
use crate::items::cql::schema::replicas::{cautions, check_replicas, quorums_overlap, replicas_in};
use crate::items::cql::schema::state::SchemaState;
use crate::items::cql::shared::Shared;
use crate::items::cql::statements::bags::{BagStatement, PreparedForBags};
use crate::items::cql::statements::buckets::PreparedForBuckets;
use crate::items::cql::statements::lists::{self, ListStatement, Prepared};
use crate::items::cql::statements::sets::{PreparedForSets, SetStatement};
use crate::items::cql::statements::{Name, Query, Writes};

/// The cluster, as one session has it.
pub struct Cluster {
    pub session: Session,
    pub dialect: Dialect,
    pub datacenter: String,
    lists: Prepared,
    sets: PreparedForSets,
    bags: PreparedForBags,
    buckets: PreparedForBuckets,
    find: OnceCell<PreparedStatement>,
    options: CqlOptions,
}

impl Cluster {
    /// Connects, checks the cluster and its schema, and prepares the statements.
    pub async fn open(shared: &Shared) -> Result<Self, StoreError> {
        let options = &shared.options;
        let session =
            driver::connect(options, shared.tls.as_ref(), &shared.datacenter, Completeness::SomeNodes).await?;
        let (datacenter, dialect, index_defect) = check(&session, shared).await?;
        let preparing = Prepared::prepare(&session, options, dialect);
        let sets = PreparedForSets::prepare(&session, options, dialect);
        let bags = PreparedForBags::prepare(&session, options, dialect);
        let buckets = PreparedForBuckets::prepare(&session, options, dialect);
        let prepared = tokio::try_join!(preparing, sets, bags, buckets);
        let (lists, sets, bags, buckets) = prepared.map_err(|error| unprepared(&error))?;
        shared.metrics.watch.index_is(index_defect.map(|defect| defect.to_string()));
        let (datacenter, options) = (datacenter.to_owned(), options.clone());
        Ok(Self { session, dialect, datacenter, lists, sets, bags, buckets, find: OnceCell::new(), options })
    }

    /// The nodes to ask, in order.
    pub fn plan(&self) -> Arc<dyn LoadBalancingPolicy> {
        driver::plan(&self.datacenter, self.options.rack.as_deref())
    }

    /// The time until a deadline as statements bind it, where the dialect takes it.
    pub fn within(&self, deadline: Instant) -> Option<CqlDuration> {
        lists::within(self.dialect, deadline)
    }

    pub fn prepared(&self, name: impl Into<Name>) -> Option<&PreparedStatement> {
        match name.into() {
            Name::List(ListStatement::Find) => self.find.get(),
            Name::List(name) => self.lists.named(name),
            Name::Set(name) => self.sets.named(name),
            Name::Bag(name) => self.bags.named(name),
            Name::Bucket(name) => self.buckets.named(name),
        }
    }

    /// A statement to send along a route, with its values. `None` if it is not prepared.
    fn bind(
        &self,
        query: &Query<'_>,
        within: Option<CqlDuration>,
        route: Arc<dyn LoadBalancingPolicy>,
        rows_max: Option<i32>,
    ) -> Option<Result<BoundStatement, SerializationError>> {
        let mut prepared = self.prepared(query.name)?.clone();
        if let Some(rows_max) = rows_max {
            prepared.set_page_size(rows_max);
        }
        if let Some(consistency) = query.consistency {
            prepared.set_consistency(consistency);
        }
        prepared.set_load_balancing_policy(Some(route));
        Some(prepared.bind(&query.bound(within)))
    }

    /// The only write of a batch as a separate statement, if it needs no batch to be atomic. Only ScyllaDB takes a time
    /// limit, and only outside of batches.
    fn alone<'q>(&self, queries: &[Query<'q>], deadline: Instant) -> Option<(Query<'q>, Option<CqlDuration>)> {
        let [only] = queries else { return None };
        match only.name {
            Name::List(ListStatement::Add) => {
                let within = self.within(deadline)?;
                Some((only.named(ListStatement::AddOne), Some(within)))
            }
            Name::List(ListStatement::DeleteGap) | Name::Set(SetStatement::DeleteGap) => Some((*only, None)),
            _ => None,
        }
    }
}

impl Partitions for Cluster {
    fn page(
        self: Arc<Self>,
        query: &Query<'_>,
        from: PagingState,
        rows_max: i32,
        Attempt { route, deadline }: Attempt,
    ) -> Answer<(Page, Option<PagingState>)> {
        let bound = self.bind(query, self.within(deadline), route, Some(rows_max));
        async move {
            let Some(bound) = bound else { return Ok(None) };
            let (result, next) = self.session.execute_bound_single_page(&bound.map_err(BadQuery::from)?, from).await?;
            let next = next.into_paging_control_flow().continue_value();
            Ok(result.into_rows_result().ok().map(|rows| (Page::received(rows), next)))
        }
        .boxed()
    }

    fn write(self: Arc<Self>, query: &Query<'_>, Attempt { route, deadline }: Attempt) -> Answer<()> {
        let bound = self.bind(query, self.within(deadline), route, None);
        async move {
            let Some(bound) = bound else { return Ok(None) };
            let result = self.session.execute_bound_unpaged(&bound.map_err(BadQuery::from)?).await?;
            Ok(result.result_not_rows().ok())
        }
        .boxed()
    }

    fn batch(
        self: Arc<Self>,
        kind: BatchType,
        writes: Arc<dyn Writes>,
        Attempt { route, deadline }: Attempt,
    ) -> Answer<()> {
        async move {
            let queries = writes.queries();
            let result = if let Some((alone, within)) = self.alone(&queries, deadline) {
                let Some(bound) = self.bind(&alone, within, route, None) else { return Ok(None) };
                self.session.execute_bound_unpaged(&bound.map_err(BadQuery::from)?).await?
            } else {
                let statements = queries.iter().filter_map(|query| self.prepared(query.name));
                let statements = statements.map(|prepared| prepared.clone().into()).collect();
                let mut batch = Batch::new_with_statements(kind, statements);
                batch.set_consistency(self.options.write_consistency.of_driver());
                batch.set_is_idempotent(true);
                batch.set_load_balancing_policy(Some(route));
                let bound: Vec<_> = queries.iter().map(|query| query.bound(None)).collect();
                self.session.batch(&batch, &bound).await?
            };
            Ok(result.result_not_rows().ok())
        }
        .boxed()
    }

    fn swap(self: Arc<Self>, put: Arc<BagPut>, Attempt { route, .. }: Attempt) -> Answer<SwapAnswer> {
        async move {
            let BagPut { list, ttl_secs, state, states, written, bag, before } = &*put;
            let Some(mut statement) = self.prepared(BagStatement::Put).cloned() else { return Ok(None) };
            statement.set_load_balancing_policy(Some(route));
            let stamp = bag.as_ref().map(|bag| bag.timestamp.as_nanos().cast_signed());
            let expires_at = bag.as_ref().map(|bag| bag.expires_at.cast_signed());
            let document = bag.as_ref().map(|bag| &bag.value[..]);
            let values = (
                *ttl_secs,
                *state,
                &states[..],
                *written,
                stamp,
                expires_at,
                document,
                list.feature_key.as_str(),
                list.entity_id.as_str(),
                before.state,
                before.states.as_deref(),
            );
            let bound = statement.bind(&values).map_err(BadQuery::from)?;
            Ok(SwapAnswer::read(self.session.execute_bound_unpaged(&bound).await?))
        }
        .boxed()
    }

    fn prepare_search(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        async {
            let defect = found::index_defect(&self.session, &self.options.keyspace, self.dialect).await?;
            if let Some(defect) = defect {
                return Ok(Some(defect.to_string()));
            }
            let prepare = || lists::prepare_find(&self.session, &self.options, self.dialect);
            let find = self.find.get_or_try_init(prepare).await;
            find.map(|_| None).map_err(|_| unavailable(NO_INDEX.to_owned()))
        }
        .boxed()
    }

    fn reaches_a_node(&self, is_suspect: &dyn Fn(Uuid) -> bool) -> bool {
        let cluster = self.session.get_cluster_state();
        cluster.get_nodes_info().iter().any(|node| node.is_connected() && !is_suspect(node.host_id))
    }

    fn reads_see_all_writes(&self) -> bool {
        quorums_overlap(&self.options, &self.session.get_cluster_state(), &self.datacenter)
    }
}

fn unprepared(error: &PrepareError) -> StoreError {
    tracing::debug!(%error, "cannot prepare the statements");
    let reason = "the cluster does not prepare the statements: check that it responds, and that this login can read \
                  and write the tables list_items, list_members, list_bags, list_bag_swaps and list_buckets";
    unavailable(reason.to_owned())
}

/// Refuses a cluster that this program cannot work with, with the reason. Returns the datacenter to ask.
async fn check<'a>(
    driver: &Session,
    shared: &'a Shared,
) -> Result<(&'a str, Dialect, Option<IndexDefect>), StoreError> {
    let (options, cluster) = (&shared.options, driver.get_cluster_state());
    let datacenter = shared.datacenter.in_cluster(&cluster)?;
    if let Some(replicas) = replicas_in(&cluster, &options.keyspace, datacenter) {
        check_replicas(options, &cluster, datacenter, replicas)?;
    }
    let dialect = Dialect::of(options.dialect, &cluster);
    dialect.check_consistency(options).map_err(|why| unavailable(why.to_owned()))?;
    let found = FoundSchema::read(driver, &options.keyspace, options.read_consistency).await?;
    let state = found.state(dialect);
    shared.awaited.store(state.awaits_migration().then(|| Arc::new(state.to_string())));
    match state {
        state if state.is_served() => {
            if !shared.cautioned.swap(true, Ordering::Relaxed) {
                let newer = matches!(state, SchemaState::NewerServed { .. }).then(|| state.to_string());
                for caution in cautions(options, &cluster, datacenter).into_iter().chain(newer) {
                    tracing::warn!("{caution}");
                }
            }
            tracing::info!(%dialect, datacenter, nodes = cluster.get_nodes_info().len(), "opened a CQL session");
            Ok((datacenter, dialect, found.index_defect(dialect)))
        }
        other => Err(unavailable(other.to_string())),
    }
}
