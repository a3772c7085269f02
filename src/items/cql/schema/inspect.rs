//! Looking at a cluster for people: which nodes, which dialect and releases, which schema.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};

use super::dialect::Dialect;
use super::found::FoundSchema;
use super::replicas::{cautions, check_replicas, replicas_in};
use super::state::SchemaState;
use super::tombstone_gc;
use crate::items::StoreError;
use crate::items::cql::connect::connection_errors::unavailable;
use crate::items::cql::connect::datacenter::{LocalDatacenter, NoDatacenter};
use crate::items::cql::connect::driver::{self, Completeness};
use crate::items::cql::connect::tls::{self, Tls};
use crate::items::cql::options::{Consistency, CqlOptions};
use crate::items::cql::query::query;

/// The driver counts the connections to shards only.
pub const CONTROL_CONNECTIONS: u64 = 1;

/// The result of an inspection. Its session is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub cluster_name: String,
    pub dialect: Dialect,
    /// Sorted by address.
    pub nodes: Vec<NodeInspection>,
    /// The datacenter whose nodes are asked.
    pub datacenter: String,
    pub schema: SchemaState,
    /// Replicas of the keyspace in that datacenter.
    pub replicas: Option<u32>,
    /// Whether the keyspace uses ScyllaDB's tablets.
    pub tablets: bool,
    pub default_ttl_secs: Option<i32>,
    /// Connections of one session, the control connection included; each list actor has a session.
    pub connections: u64,
    /// What works and gives something up.
    pub cautions: Vec<String>,
    /// Why `serve` would not start, or not be ready. Empty if it would.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInspection {
    pub address: String,
    pub datacenter: String,
    pub rack: String,
    /// `None` if the node does not answer.
    pub release: Option<String>,
    /// Of ScyllaDB; Cassandra counts as one.
    pub shards: u16,
}

/// Connects, looks, and disconnects.
pub async fn inspect(options: &CqlOptions) -> Result<Inspection, StoreError> {
    options.validate().map_err(|error| unavailable(error.to_string()))?;
    let tls = options.tls.as_ref().map(|tls| tls::load(tls, &options.contact_points)).transpose();
    let tls = tls.map_err(|error| unavailable(error.to_string()))?;
    let local = Arc::new(LocalDatacenter::of(options.datacenter.as_deref()));
    let session = driver::connect(options, tls.as_ref(), &local, Completeness::AllNodes).await?;
    let cluster = session.get_cluster_state();
    let dialect = Dialect::of(options.dialect, &cluster);
    let datacenter = local.in_cluster(&cluster)?.to_owned();
    let replicas = replicas_in(&cluster, &options.keyspace, &datacenter);
    let wanted = options.replicas(&datacenter);
    let here = wanted.iter().find(|(name, _)| *name == datacenter).map_or(0, |(_, replicas)| *replicas);
    let judged = replicas.unwrap_or(here);
    let mut problems = Vec::new();
    let mut consistency = options.read_consistency;
    if let Err(StoreError::Unavailable { reason, .. }) = check_replicas(options, &cluster, &datacenter, judged) {
        problems.push(reason);
        // The record can still be read from any node that has it.
        consistency = Consistency::One;
    }
    problems.extend(dialect.check_consistency(options).err().map(str::to_owned));
    let found = FoundSchema::read(&session, &options.keyspace, consistency).await?;
    let schema = found.state(dialect);
    if !schema.is_served() {
        problems.push(schema.to_string());
    }
    let mut cautions = cautions(options, &cluster, &datacenter);
    if let SchemaState::NoIndex(defect) = &schema {
        cautions.push(defect.to_string());
    }
    cautions.extend(tombstone_gc::note(&session, dialect, &options.keyspace, replicas).await);
    if options.datacenter.is_none() {
        cautions.push(format!(
            "items.cql.datacenter is not set: set it to {datacenter}, because a server cannot start without it after \
             another datacenter is added"
        ));
    }
    let mut nodes = Vec::new();
    for node in cluster.get_nodes_info() {
        nodes.push(inspect_node(&session, dialect, node).await);
    }
    nodes.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(Inspection {
        cluster_name: cluster.cluster_name().to_owned(),
        dialect,
        nodes,
        datacenter,
        schema,
        replicas,
        tablets: cluster.get_keyspace(&options.keyspace).is_some_and(|keyspace| keyspace.tablet_based),
        default_ttl_secs: found.default_ttl_secs,
        connections: session.get_metrics().get_total_connections() + CONTROL_CONNECTIONS,
        cautions,
        problems,
    })
}

async fn inspect_node(session: &Session, dialect: Dialect, node: &Arc<Node>) -> NodeInspection {
    let mut query = query(dialect.release_query(), Consistency::One);
    query.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(
        NodeIdentifier::Node(Arc::clone(node)),
        None,
    )));
    let answer = session.query_unpaged(query, ()).await.ok().and_then(|result| result.into_rows_result().ok());
    NodeInspection {
        address: node.address.to_string(),
        datacenter: node.datacenter.clone().unwrap_or_default(),
        rack: node.rack.clone().unwrap_or_default(),
        release: answer.and_then(|rows| rows.single_row::<(String,)>().ok()).map(|(release,)| release),
        shards: node.sharder().map_or(1, |sharder| sharder.nr_shards.get()),
    }
}

/// Whether a server can ever work with a cluster as that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fitness {
    Fit,
    /// It cannot start before the settings change, or the content of the keyspace, which is named here.
    Unfit(String),
}

/// Looks whether `serve` may start.
pub async fn fitness(
    options: &CqlOptions,
    tls: Option<&Tls>,
    datacenter: &Arc<LocalDatacenter>,
) -> Result<Fitness, StoreError> {
    let session = driver::connect(options, tls, datacenter, Completeness::SomeNodes).await?;
    let cluster = session.get_cluster_state();
    let dialect = Dialect::of(options.dialect, &cluster);
    if let Err(why @ NoDatacenter::Several { .. }) = datacenter.in_cluster(&cluster) {
        return Ok(Fitness::Unfit(why.to_string()));
    }
    if let Err(why) = dialect.check_consistency(options) {
        return Ok(Fitness::Unfit(why.to_owned()));
    }
    let state = FoundSchema::read(&session, &options.keyspace, options.read_consistency).await?.state(dialect);
    Ok(if state.is_served() || state.awaits_migration() { Fitness::Fit } else { Fitness::Unfit(state.to_string()) })
}

/// The state of the schema alone.
pub async fn schema_state(
    options: &CqlOptions,
    tls: Option<&Tls>,
    datacenter: &Arc<LocalDatacenter>,
) -> Result<SchemaState, StoreError> {
    let session = driver::connect(options, tls, datacenter, Completeness::SomeNodes).await?;
    let dialect = Dialect::of(options.dialect, &session.get_cluster_state());
    Ok(FoundSchema::read(&session, &options.keyspace, options.read_consistency).await?.state(dialect))
}
