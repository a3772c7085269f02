//! A proxy in front of the shared node: it holds up, drops and forges what passes.

use std::net::SocketAddr;

use liststore::items::cql::{Consistency, CqlOptions};
use scylla::frame::protocol_features::ProtocolFeatures;
use scylla_proxy::{Condition, Node, Proxy, RequestOpcode, RequestRule, ResponseRule, RunningProxy, ShardAwareness};

use crate::cassandra::shared_options;

/// Reads and writes have different consistency levels here, by which the proxy tells them apart.
const READ: Consistency = Consistency::One;
const WRITE: Consistency = Consistency::LocalQuorum;

pub struct Forger {
    proxy: RunningProxy,
    pub options: CqlOptions,
}

impl Forger {
    pub async fn start() -> Self {
        let options = shared_options();
        let real: SocketAddr = options.contact_points[0].parse().unwrap();
        // The driver finds a node's address in the cluster's tables and takes the contact point's
        // port: so the proxy has the node's address, and a port of its own.
        let free = std::net::TcpListener::bind((real.ip(), 0)).unwrap().local_addr().unwrap();
        let node = Node::builder().real_address(real).proxy_address(free).shard_awareness(ShardAwareness::Unaware);
        let proxy = Proxy::builder().with_node(node.build()).build().run().await.unwrap();
        let contact_points = vec![free.to_string()];
        Self {
            proxy,
            options: CqlOptions { contact_points, read_consistency: READ, write_consistency: WRITE, ..options },
        }
    }

    pub fn on_requests(&mut self, rules: Vec<RequestRule>) {
        self.proxy.running_nodes[0].change_request_rules(Some(rules));
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Get, and the index query of a removal.
    Read,
    Add,
    /// The deletes of both removals.
    Delete,
}
