//! Connections to Cassandra that break while a bag is changed: after the commit and before the answer, or before the
//! request arrives.

use std::net::SocketAddr;
use std::sync::Mutex;

use scylla_proxy::{
    Condition, Node, Proxy, Reaction, RequestOpcode, RequestReaction, RequestRule, ResponseOpcode, ResponseReaction,
    ResponseRule, RunningProxy, ShardAwareness,
};

use crate::ports::free_port;

/// Of the answers to lightweight transactions, and of all requests.
const ANSWERS_CUT: f64 = 0.2;
const REQUESTS_CUT: f64 = 0.01;

/// A proxy in front of each node.
pub struct Cutter {
    proxy: Mutex<RunningProxy>,
    pub contact_points: Vec<String>,
}

impl Cutter {
    /// Must be called on a tokio runtime, with which the proxy ends.
    pub async fn before(contact_points: &[String]) -> Result<Self, String> {
        let address = |point: &String| point.parse::<SocketAddr>().map_err(|e| format!("{point}: {e}"));
        let real = contact_points.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        let first = real.first().ok_or("there is no node")?;
        // The driver uses the nodes' addresses in the cluster's tables, and the port of the contact point.
        let port = free_port(first.ip());
        let proxied: Vec<_> = real.iter().map(|node| SocketAddr::new(node.ip(), port)).collect();
        let proxy = real.iter().zip(&proxied).fold(Proxy::builder(), |proxy, (real, proxied)| {
            let node = Node::builder().real_address(*real).proxy_address(*proxied);
            proxy.with_node(node.shard_awareness(ShardAwareness::Unaware).build())
        });
        let proxy = proxy.build().run().await.map_err(|e| format!("no proxy before Cassandra: {e}"))?;
        let contact_points = proxied.iter().map(ToString::to_string).collect();
        Ok(Self { proxy: Mutex::new(proxy), contact_points })
    }

    /// Breaks connections from now on.
    pub fn cut(&self) {
        let applied = Condition::BodyContainsCaseSensitive(b"[applied]".to_vec().into());
        let swapped = Condition::ResponseOpcode(ResponseOpcode::Result).and(applied);
        let sent = Condition::RequestOpcode(RequestOpcode::Execute);
        let (answers, requests) =
            (Condition::RandomWithProbability(ANSWERS_CUT), Condition::RandomWithProbability(REQUESTS_CUT));
        self.set(
            vec![RequestRule(sent.and(requests), RequestReaction::drop_connection())],
            vec![ResponseRule(swapped.and(answers), ResponseReaction::drop_connection())],
        );
    }

    /// Lets everything pass again.
    pub fn heal(&self) {
        self.set(Vec::new(), Vec::new());
    }

    fn set(&self, requests: Vec<RequestRule>, responses: Vec<ResponseRule>) {
        let mut proxy = self.proxy.lock().expect("no thread panics with it");
        for node in &mut proxy.running_nodes {
            node.change_request_rules(Some(requests.clone()));
            node.change_response_rules(Some(responses.clone()));
        }
    }
}
