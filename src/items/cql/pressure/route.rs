//! Where an attempt goes: the driver's token-aware, datacenter-aware plan, but first to nodes that
//! this operation has not tried, and last to nodes that hang, are much slower than others ([`Paces`]), or have their
//! share of the permits.
//!
//! A permit is held until its request has ended, so that a node that answers nothing would soon have
//! them all. A node that has half of them is therefore asked only where no other is left: the others
//! continue to serve with the rest.
//!
//! A node whose process is frozen keeps its connections and answers nothing, so that the driver
//! continues to choose it. Three attempts in a row that were abandoned make a node suspect: operations then
//! ask it last, and `lookout.rs` asks it once a second, until it answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::routing::Shard;
use uuid::Uuid;

use super::paces::{Kind, Paces};

const STRIKES_MAX: u32 = 3;
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Which nodes of the cluster seem to hang. Shared by all attempts of a session.
#[derive(Debug, Default)]
pub struct NodeHealth {
    /// How many nodes are in the map: most of the time none, and then no lock is taken.
    struck: AtomicUsize,
    nodes: Mutex<HashMap<Uuid, Strikes>>,
    /// The attempts that each node has been sent and has not ended.
    under_way: Mutex<HashMap<Uuid, usize>>,
    pub paces: Paces,
}

#[derive(Debug)]
struct Strikes {
    count: u32,
    next_probe: Instant,
}

impl NodeHealth {
    fn nodes(&self) -> MutexGuard<'_, HashMap<Uuid, Strikes>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Uuid, usize>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent_to(&self, host_id: Uuid) {
        *self.under_way().entry(host_id).or_default() += 1;
    }

    fn ended_at(&self, host_id: Uuid) {
        let mut under_way = self.under_way();
        if let Some(count) = under_way.get_mut(&host_id) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&host_id);
            }
        }
    }

    /// Whether this node has `share` attempts in progress, or more.
    fn has_its_share(&self, host_id: Uuid, share: usize) -> bool {
        self.under_way().get(&host_id).is_some_and(|count| *count >= share)
    }

    /// An attempt on this node was abandoned.
    pub fn strike(&self, host_id: Uuid) {
        self.strike_at(host_id, Instant::now());
    }

    fn strike_at(&self, host_id: Uuid, now: Instant) {
        let mut nodes = self.nodes();
        let strikes = nodes.entry(host_id).or_insert(Strikes { count: 0, next_probe: now });
        strikes.count = strikes.count.saturating_add(1);
        if strikes.count == STRIKES_MAX {
            tracing::debug!(node = %host_id, "a node hangs: preferring other nodes");
            strikes.next_probe = now + PROBE_INTERVAL;
        }
        self.struck.store(nodes.len(), Ordering::Relaxed);
    }

    /// This node gave an answer of any kind.
    pub fn answered(&self, host_id: Uuid) {
        if self.struck.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut nodes = self.nodes();
        if nodes.remove(&host_id).is_some_and(|strikes| strikes.count >= STRIKES_MAX) {
            tracing::debug!(node = %host_id, "a hung node responds again");
        }
        self.struck.store(nodes.len(), Ordering::Relaxed);
    }

    /// Whether this node must be asked last.
    pub fn is_suspect(&self, host_id: Uuid) -> bool {
        self.struck.load(Ordering::Relaxed) > 0
            && self.nodes().get(&host_id).is_some_and(|strikes| strikes.count >= STRIKES_MAX)
    }

    /// Whether a node is suspect and it is time to find out whether it is well again.
    pub fn may_probe(&self, host_id: Uuid, now: Instant) -> bool {
        if self.struck.load(Ordering::Relaxed) == 0 {
            return false;
        }
        match self.nodes().get_mut(&host_id) {
            Some(strikes) if strikes.count >= STRIKES_MAX && now >= strikes.next_probe => {
                strikes.next_probe = now + PROBE_INTERVAL;
                true
            }
            _ => false,
        }
    }
}

/// The load balancing of one attempt.
#[derive(Debug)]
pub struct AttemptRoute {
    plan: Arc<dyn LoadBalancingPolicy>,
    health: Arc<NodeHealth>,
    tried: Vec<Uuid>,
    /// Attempts that one node may have while there are others to ask.
    share: usize,
    /// With which others the attempt's latency is compared.
    kind: Option<Kind>,
    at: Mutex<At>,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Nowhere,
    UnderWay(Uuid),
    Ended(Uuid),
}

impl AttemptRoute {
    pub fn new(
        plan: Arc<dyn LoadBalancingPolicy>,
        health: Arc<NodeHealth>,
        tried: Vec<Uuid>,
        share: usize,
        kind: Option<Kind>,
    ) -> Arc<Self> {
        Arc::new(Self { plan, health, tried, share, kind, at: Mutex::new(At::Nowhere) })
    }

    fn locked(&self) -> MutexGuard<'_, At> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that this attempt was sent to last.
    pub fn at(&self) -> Option<Uuid> {
        match *self.locked() {
            At::Nowhere => None,
            At::UnderWay(node) | At::Ended(node) => Some(node),
        }
    }

    fn goes_to(&self, node: NodeRef<'_>) {
        self.ended();
        *self.locked() = At::UnderWay(node.host_id);
        self.health.sent_to(node.host_id);
    }

    /// The attempt has ended, or was abandoned.
    pub fn ended(&self) {
        let mut at = self.locked();
        if let At::UnderWay(node) = *at {
            *at = At::Ended(node);
            drop(at);
            self.health.ended_at(node);
        }
    }
}

impl LoadBalancingPolicy for AttemptRoute {
    fn pick<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let (node, shard) = self.plan.pick(request, cluster)?;
        let avoided = self.tried.contains(&node.host_id)
            || self.health.has_its_share(node.host_id, self.share)
            || self.health.is_suspect(node.host_id)
            || self.health.paces.is_slow(node.host_id);
        if avoided {
            // The driver then asks for the whole plan.
            return None;
        }
        self.goes_to(node);
        Some((node, shard))
    }

    fn fallback<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        let mut plan: Vec<_> = self.plan.fallback(request, cluster).collect();
        // Stable: each group keeps the order of the driver's plan.
        plan.sort_by_cached_key(|(node, _)| {
            let node = node.host_id;
            let NodeHealth { paces, .. } = &*self.health;
            let share = self.health.has_its_share(node, self.share);
            (self.tried.contains(&node), self.health.is_suspect(node), paces.is_slow(node), share)
        });
        Box::new(plan.into_iter().inspect(|(node, _)| self.goes_to(node)))
    }

    fn on_request_success(&self, request: &RoutingInfo, latency: Duration, node: NodeRef<'_>) {
        self.health.answered(node.host_id);
        if let Some(kind) = self.kind {
            self.health.paces.took(node.host_id, kind, latency);
        }
        self.plan.on_request_success(request, latency, node);
    }

    fn on_request_failure(
        &self,
        request: &RoutingInfo,
        latency: Duration,
        node: NodeRef<'_>,
        error: &RequestAttemptError,
    ) {
        if matches!(error, RequestAttemptError::DbError(..)) {
            self.health.answered(node.host_id);
        }
        self.plan.on_request_failure(request, latency, node, error);
    }

    fn name(&self) -> String {
        "liststore".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use scylla::routing::partitioner::{Murmur3Partitioner, Partitioner};

    use super::*;

    proptest::proptest! {
        /// The domain has a separate Murmur3, which names no driver.
        #[test]
        fn the_tokens_of_the_domain_equal_the_drivers(key: Vec<u8>) {
            let token = Murmur3Partitioner.hash_one(&key);
            proptest::prop_assert_eq!(crate::domain::Token::of_bytes(&key).as_i64(), token.value());
        }
    }

    #[test]
    fn a_hanging_node_is_probed_once_a_second_until_it_answers() {
        let health = NodeHealth::default();
        let (node, other, start) = (Uuid::from_u128(1), Uuid::from_u128(2), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        for strike in 0..STRIKES_MAX {
            assert!(!health.is_suspect(node), "after {strike} strikes");
            assert!(!health.may_probe(node, at(5_000)), "it is not suspect");
            health.strike_at(node, at(0));
        }
        assert!(health.is_suspect(node) && !health.is_suspect(other));
        assert!(!health.may_probe(node, at(999)));
        assert!(health.may_probe(node, at(1_000)), "one attempt finds out");
        assert!(!health.may_probe(node, at(1_001)), "and no second");
        health.strike_at(node, at(1_500));
        assert!(health.may_probe(node, at(2_000)));
        health.answered(node);
        assert!(!health.is_suspect(node));
    }

    #[test]
    fn a_node_has_its_share_until_attempts_end() {
        let (health, node, other) = (NodeHealth::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        health.sent_to(node);
        health.sent_to(node);
        health.sent_to(other);
        assert!(health.has_its_share(node, 2) && !health.has_its_share(other, 2));
        health.ended_at(node);
        assert!(!health.has_its_share(node, 2));
        health.ended_at(node);
        health.ended_at(other);
        assert!(health.under_way().is_empty(), "nothing is kept of nodes that are idle");
    }

    #[test]
    fn an_answer_forgives_earlier_strikes() {
        let (health, node) = (NodeHealth::default(), Uuid::from_u128(1));
        for _ in 0..10 {
            health.strike(node);
            health.strike(node);
            health.answered(node);
        }
        assert!(!health.is_suspect(node));
    }
}
