//! A proxy before the shared node: it delays, drops and forges frames.

use std::net::SocketAddr;

use liststore::items::cql::{Consistency, CqlOptions};
use scylla::frame::protocol_features::ProtocolFeatures;
use scylla_proxy::{
    Condition, Node, Proxy, RequestOpcode, RequestRule, ResponseOpcode, ResponseRule, RunningProxy, ShardAwareness,
};

use crate::cassandra::shared_options;
use crate::ports::free_port;

/// Reads and writes have different consistency levels here, by which the proxy distinguishes them.
const READ: Consistency = Consistency::One;
const WRITE: Consistency = Consistency::LocalQuorum;

pub struct Forger {
    proxy: RunningProxy,
    pub options: CqlOptions,
}

impl Forger {
    pub async fn start() -> Self {
        Self::before(shared_options()).await
    }

    /// In front of each of the nodes that are the contact points of these options.
    pub async fn before(options: CqlOptions) -> Self {
        let real: Vec<SocketAddr> = options.contact_points.iter().map(|point| point.parse().unwrap()).collect();
        // The driver reads a node's address from the cluster's tables and uses the contact point's port: so the proxy
        // has the nodes' addresses, and a separate port.
        let port = free_port(real[0].ip());
        let proxied: Vec<_> = real.iter().map(|node| SocketAddr::new(node.ip(), port)).collect();
        let proxy = real.iter().zip(&proxied).fold(Proxy::builder(), |proxy, (real, proxied)| {
            let node = Node::builder().real_address(*real).proxy_address(*proxied);
            proxy.with_node(node.shard_awareness(ShardAwareness::Unaware).build())
        });
        let proxy = proxy.build().run().await.unwrap();
        let contact_points = proxied.iter().map(ToString::to_string).collect();
        Self {
            proxy,
            options: CqlOptions { contact_points, read_consistency: READ, write_consistency: WRITE, ..options },
        }
    }

    pub fn on_requests(&mut self, rules: Vec<RequestRule>) {
        self.on_requests_to(0, rules);
    }

    /// To the n-th node, from 0.
    pub fn on_requests_to(&mut self, node: usize, rules: Vec<RequestRule>) {
        self.proxy.running_nodes[node].change_request_rules(Some(rules));
    }

    pub fn on_responses(&mut self, rules: Vec<ResponseRule>) {
        self.proxy.running_nodes[0].change_response_rules(Some(rules));
    }

    pub fn heal(&mut self) {
        self.on_requests(vec![]);
        self.on_responses(vec![]);
    }
}

/// The statements of one kind, on connections that carry them.
pub fn of(statement: Sent) -> Condition {
    let consistency = |level| Condition::RequestConsistency(level, ProtocolFeatures::default());
    let opcode = match statement {
        Sent::Add => return Condition::RequestOpcode(RequestOpcode::Batch),
        Sent::Read | Sent::Delete => Condition::RequestOpcode(RequestOpcode::Execute),
    };
    let level = if statement == Sent::Read {
        scylla::statement::Consistency::One
    } else {
        scylla::statement::Consistency::LocalQuorum
    };
    opcode.and(Condition::not(Condition::ConnectionRegisteredAnyEvent)).and(consistency(level))
}

/// The answer to a lightweight transaction.
pub fn swap_answer() -> Condition {
    let applied = Condition::BodyContainsCaseSensitive(b"[applied]".to_vec().into());
    Condition::ResponseOpcode(ResponseOpcode::Result).and(applied)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Get, and the index query of a removal.
    Read,
    Add,
    /// The deletes of both removals.
    Delete,
}
