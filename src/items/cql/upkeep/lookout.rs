//! Checks continuously which nodes a session reaches: shuts and opens its gate, finds out why nothing is reached, and
//! asks nodes that are silent or slow whether they answer again in time, so that no caller has to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::errors::{ConnectionPoolError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::PagingState;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};
use uuid::Uuid;

use crate::items::cql::connect::connection_errors::explain_lost_connections;
use crate::items::cql::core::Core;
use crate::items::cql::health::view::{Contact, SILENT};
use crate::items::cql::health::watch::Seen;
use crate::items::cql::options::Consistency;
use crate::items::cql::partitions::driver::Cluster;
use crate::items::cql::query::query;
use crate::items::cql::statements::lists::ListStatement;

/// How often it looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How often it checks why no node is reached. The reason may change: a node that was silent is stopped, say.
const WHY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a silent node may take to show that it is not. Each is asked once a second.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);
/// A list that cannot exist: no feature is without a name.
const NO_LIST: &str = "#";

/// A session and its cluster, as the lookout sees them.
pub struct Lookout {
    pub core: Arc<Core>,
    pub cluster: Arc<Cluster>,
}

impl Seen for Lookout {
    fn nodes(&self) -> Vec<(SocketAddr, Contact)> {
        let (cluster, health) = (self.cluster.session.get_cluster_state(), &self.core.attempts.health);
        let nodes = cluster.get_nodes_info().iter();
        let ours = nodes.filter(|node| node.datacenter.as_deref() == Some(&self.cluster.datacenter));
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
        self.cluster.session.get_metrics().get_total_connections()
    }

    fn outage_reason(&self) -> Option<String> {
        self.core.gate.why()
    }
}

/// Looks out for a session, until the task is dropped.
pub async fn watch_cluster(lookout: Arc<Lookout>) {
    let (core, cluster) = (&lookout.core, &lookout.cluster);
    let (mut asked_why, mut probes) = (None, JoinSet::new());
    loop {
        sleep(CHECK_INTERVAL).await;
        let (now, reached) = (Instant::now(), lookout.nodes().iter().any(|(_, contact)| *contact == Contact::Answers));
        core.gate.note(reached, now);
        if reached {
            asked_why = None;
        } else if asked_why.is_none_or(|at| now.saturating_duration_since(at) >= WHY_INTERVAL) {
            find_outage_reason(&lookout).await;
            asked_why = Some(now);
        }
        core.attempts.health.paces.judge(now);
        while probes.try_join_next().is_some() {}
        for node in cluster.session.get_cluster_state().get_nodes_info() {
            let health = &core.attempts.health;
            let may_probe = health.may_probe(node.host_id, now) || health.paces.may_probe(node.host_id, now);
            if node.is_connected() && may_probe {
                probes.spawn(probe(Arc::clone(&lookout), node.host_id));
            }
        }
        core.watch.log_changes(now);
    }
}

/// Finds out why no node is reached. Where none is connected the driver has nowhere to send this, and says
/// so at once.
async fn find_outage_reason(Lookout { core, cluster }: &Lookout) {
    if cluster.session.get_cluster_state().get_nodes_info().iter().any(|node| node.is_connected()) {
        return core.gate.set_reason(SILENT.to_owned());
    }
    let asked = cluster.session.query_unpaged(query("SELECT key FROM system.local", Consistency::One), ());
    if let Ok(Err(ExecutionError::ConnectionPoolError(ConnectionPoolError::Broken { last_connection_error, .. }))) =
        timeout(CHECK_INTERVAL, asked).await
    {
        core.gate.set_reason(explain_lost_connections(&last_connection_error));
    }
}

/// Asks a silent or slow node as a get does, so that it is well again when a get would be answered in time.
async fn probe(lookout: Arc<Lookout>, node: Uuid) {
    let Lookout { core, cluster } = &*lookout;
    let deadline = tokio::time::Instant::now() + PROBE_TIME_MAX;
    let Some(mut get) = cluster.prepared(ListStatement::Get).cloned() else { return };
    get.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(node), None)));
    let bound = match cluster.within(deadline) {
        None => get.bind(&(NO_LIST, NO_LIST, "0", "1", 1)),
        Some(time_left) => get.bind(&(NO_LIST, NO_LIST, "0", "1", 1, time_left)),
    };
    let Ok(bound) = bound else { return };
    let (asked, began) = (cluster.session.execute_bound_single_page(&bound, PagingState::start()), Instant::now());
    // An error is an answer too.
    if let Ok(Ok(_) | Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(..)))) =
        timeout_at(deadline, asked).await
    {
        core.attempts.health.answered(node);
        core.attempts.health.paces.probed(node, began.elapsed(), Instant::now());
    }
}
