//! Follows the clocks of nodes where this server's clock is far behind, so that no [sweep](super::sweeps) takes its
//! writes for settled.

use std::sync::Arc;
use std::time::Duration;

use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::items::cql::core::Core;
use crate::items::cql::layouts::settled::SETTLED_TENTHS;
use crate::items::cql::options::Consistency;
use crate::items::cql::partitions::driver::Cluster;
use crate::items::cql::query::query;

const INTERVAL: Duration = Duration::from_secs(60);
/// Where no node has answered: at the start, say.
const INTERVAL_UNANSWERED: Duration = Duration::from_secs(1);
/// Nodes that are asked at once.
const NODES_MAX: usize = 5;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
const MICROS_PER_MILLI: i64 = 1_000;

/// Follows them for a session, until it is dropped.
pub async fn follow(core: Arc<Core>, cluster: Arc<Cluster>) {
    loop {
        let nodes = some_nodes(&cluster);
        let asked = nodes.into_iter().map(|node| timeout(ANSWER_TIME_MAX, ahead(&core, &cluster, node)));
        let answers = futures_util::future::join_all(asked).await;
        let median = median(answers.into_iter().filter_map(|answer| answer.ok().flatten()).collect());
        if let Some(ahead) = median {
            core.write_clock.nodes_are_ahead_by(ahead, core.settled_after() * SETTLED_TENTHS / 10);
        }
        sleep(if median.is_some() { INTERVAL } else { INTERVAL_UNANSWERED }).await;
    }
}

/// Some of the nodes that a session is connected to.
fn some_nodes(cluster: &Cluster) -> Vec<Uuid> {
    let cluster = cluster.session.get_cluster_state();
    let mut nodes: Vec<_> =
        cluster.get_nodes_info().iter().filter(|node| node.is_connected()).map(|node| node.host_id).collect();
    fastrand::shuffle(&mut nodes);
    nodes.truncate(NODES_MAX);
    nodes
}

/// By how much the clock of a node is ahead of ours, in microseconds: less by up to the time that its answer takes.
async fn ahead(core: &Core, cluster: &Cluster, node: Uuid) -> Option<i64> {
    let mut query = query("SELECT toUnixTimestamp(now()) FROM system.local", Consistency::One);
    let only = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(node), None);
    query.set_load_balancing_policy(Some(only));
    let result = cluster.session.query_unpaged(query, ()).await.ok()?.into_rows_result().ok()?;
    let (now,) = result.first_row::<(i64,)>().ok()?;
    let own = i64::try_from(core.write_clock.wall().as_micros()).ok()?;
    Some(now.saturating_mul(MICROS_PER_MILLI).saturating_sub(own))
}

/// The median, so that one wrong clock has no effect; of two the lower.
fn median(mut all: Vec<i64>) -> Option<i64> {
    all.sort_unstable();
    all.get(all.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_clock_does_not_change_the_estimate() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![7]), Some(7));
        assert_eq!(median(vec![9_000, 7]), Some(7));
        assert_eq!(median(vec![9_000, 7, -3]), Some(7));
        assert_eq!(median(vec![-9_000, 7, 8]), Some(7));
    }
}
