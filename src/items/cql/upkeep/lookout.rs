//! Looks all the time what a session reaches: shuts and opens its gate, finds out why nothing is reached,
//! and asks nodes that are silent or slow whether they answer again in time, so that no caller has to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::errors::{ConnectionPoolError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::PagingState;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};
use uuid::Uuid;

use crate::items::cql::call::one_page;
use crate::items::cql::connect::connection_errors::why_no_more;
use crate::items::cql::core::Core;
use crate::items::cql::health::view::{Contact, SILENT};
use crate::items::cql::health::watch::Seen;
use crate::items::cql::options::Consistency;
use crate::items::cql::query::query;

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How often it looks why nothing is reached, which may change: a node that was silent is stopped, say.
const WHY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a silent node may take to show that it is not. Each is asked once a second.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);
/// A list that nobody has: no feature is without a name.
const NO_LIST: &str = "#";

/// Looks out for a session, until it is told to end.
pub async fn look_out(core: Arc<Core>) {
    let (mut asked_why, mut probes) = (None, JoinSet::new());
    loop {
        sleep(LOOK_INTERVAL).await;
        let (now, reached) = (Instant::now(), core.nodes().iter().any(|(_, contact)| *contact == Contact::Answers));
        core.gate.note(reached, now);
        if reached {
            asked_why = None;
        } else if asked_why.is_none_or(|at| now.saturating_duration_since(at) >= WHY_INTERVAL) {
            ask_why(&core).await;
            asked_why = Some(now);
        }
        core.attempts.health.paces.judge(now);
        while probes.try_join_next().is_some() {}
        for node in core.driver.get_cluster_state().get_nodes_info() {
            let health = &core.attempts.health;
            let may_probe = health.may_probe(node.host_id, now) || health.paces.may_probe(node.host_id, now);
            if node.is_connected() && may_probe {
                probes.spawn(probe(Arc::clone(&core), node.host_id));
            }
        }
        core.watch.look(now);
    }
}

/// Finds out why no node is reached. Where none is connected the driver has nowhere to send this, and says
/// so at once.
async fn ask_why(core: &Core) {
    if core.driver.get_cluster_state().get_nodes_info().iter().any(|node| node.is_connected()) {
        return core.gate.because(SILENT.to_owned());
    }
    let asked = core.driver.query_unpaged(query("SELECT key FROM system.local", Consistency::One), ());
    if let Ok(Err(ExecutionError::ConnectionPoolError(ConnectionPoolError::Broken { last_connection_error, .. }))) =
        timeout(LOOK_INTERVAL, asked).await
    {
        core.gate.because(why_no_more(&last_connection_error));
    }
}

/// Asks a silent or slow node as a get does, so that it is well again when a get would be answered in time.
async fn probe(core: Arc<Core>, node: Uuid) {
    let deadline = tokio::time::Instant::now() + PROBE_TIME_MAX;
    let mut get = core.prepared.get.clone();
    get.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(node), None)));
    let bound = match core.within(deadline) {
        None => get.bind(&(NO_LIST, NO_LIST, "0", "1", 1)),
        Some(time_left) => get.bind(&(NO_LIST, NO_LIST, "0", "1", 1, time_left)),
    };
    let (asked, began) = (one_page(Arc::clone(&core), bound, PagingState::start()), Instant::now());
    // An error is an answer too.
    if let Ok(Ok(_) | Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(..)))) =
        timeout_at(deadline, asked).await
    {
        core.attempts.health.answered(node);
        core.attempts.health.paces.probed(node, began.elapsed(), Instant::now());
    }
}
