//! Looking at a cluster for people: which nodes, which dialect and releases, which schema.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};

use super::connect::{self, Tls};
use super::dialect::Dialect;
use super::options::{Consistency, CqlOptions};
use super::schema::{Found, SchemaState, check_replicas, query, replicas_in};
use super::tls;
use crate::items::StoreError;

/// The driver counts the connections to shards only.
pub const CONTROL_CONNECTIONS: u64 = 1;

/// What was found. The session that found it is closed.
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
    /// Why `serve` would not start. Empty if it would.
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
    options.validate().map_err(|error| connect::unavailable(error.to_string()))?;
    let tls = options.tls.as_ref().map(tls::load).transpose();
    let tls = tls.map_err(|error| connect::unavailable(error.to_string()))?;
    let session = connect::connect(options, tls.as_ref()).await?;
    let cluster = session.get_cluster_state();
    let dialect = Dialect::of(options.dialect, &cluster);
    let datacenter = connect::datacenter(options, &cluster)?;
    let replicas = replicas_in(&cluster, &options.keyspace, &datacenter);
    let judged = replicas.unwrap_or(options.replication_factor);
    let mut problems = Vec::new();
    let mut consistency = options.read_consistency;
    if let Err(StoreError::Unavailable { reason, .. }) = check_replicas(options, &cluster, &datacenter, judged) {
        problems.push(reason);
        // The record can still be read from whoever has it.
        consistency = Consistency::One;
    }
    let found = Found::read(&session, &options.keyspace, consistency).await?;
    let schema = found.state(dialect);
    if !schema.is_current() {
        problems.push(schema.to_string());
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

/// The state of the schema alone.
pub async fn schema_state(options: &CqlOptions, tls: Option<&Tls>) -> Result<SchemaState, StoreError> {
    let session = connect::connect(options, tls).await?;
    let dialect = Dialect::of(options.dialect, &session.get_cluster_state());
    Ok(Found::read(&session, &options.keyspace, options.read_consistency).await?.state(dialect))
}
