//! A cluster of several nodes and datacenters with one real node: each of the others is a proxy in front of it, and
//! their answers about each other are forged. So a datacenter can join, and a node can disappear, within milliseconds.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use liststore::items::cql::CqlOptions;
use scylla_proxy::{
    Condition, Node, Proxy, Reaction, RequestFrame, RequestOpcode, RequestReaction, RequestRule, ResponseFrame,
    ResponseOpcode, RunningProxy, ShardAwareness,
};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::cassandra::shared_options;
use crate::ports::free_port;

pub const HERE: &str = "datacenter1";

/// A node's answer about itself.
#[derive(Debug, Clone)]
pub struct Reported {
    pub address: SocketAddr,
    pub datacenter: &'static str,
    pub rack: &'static str,
    pub token: i64,
}

impl Reported {
    pub fn host_id(&self) -> Uuid {
        let IpAddr::V4(ip) = self.address.ip() else { panic!("an IPv4 address") };
        Uuid::from_u128(u128::from(u32::from(ip)))
    }
}

pub struct ForgedCluster {
    proxy: RunningProxy,
    topology: Arc<Mutex<Vec<Reported>>>,
    /// Fed with each connection that a driver opened to a node, in the order of `nodes`.
    connected: Vec<mpsc::UnboundedReceiver<(RequestFrame, Option<u16>)>>,
    /// Receives each prepared statement that a node was sent, in the order of `nodes`, except the driver's statements.
    executed: Vec<mpsc::UnboundedReceiver<(RequestFrame, Option<u16>)>>,
    /// Receives each query of the other nodes.
    looks: mpsc::UnboundedReceiver<(RequestFrame, Option<u16>)>,
    pub nodes: Vec<Reported>,
    pub options: CqlOptions,
}

impl ForgedCluster {
    /// Nodes in these datacenters, of which the first `known` are reported at first. The first is the one contact
    /// point.
    pub async fn start(datacenters: &[&'static str], known: usize) -> Self {
        Self::start_on(datacenters, known, false).await
    }

    /// Nodes that listen on different ports, as behind a port mapping. Their tables have no ports.
    pub async fn start_on_ports(datacenters: &[&'static str], known: usize) -> Self {
        Self::start_on(datacenters, known, true).await
    }

    #[expect(clippy::disallowed_methods, reason = "the proxy takes no other channel, and a test ends")]
    async fn start_on(datacenters: &[&'static str], known: usize, different_ports: bool) -> Self {
        static COUNT: AtomicU8 = AtomicU8::new(0);
        let options = shared_options();
        let real: SocketAddr = options.contact_points[0].parse().unwrap();
        let net = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        let address = |node: usize, port| SocketAddr::new(Ipv4Addr::new(127, 77, net, node as u8 + 1).into(), port);
        let port = free_port(address(0, 0).ip());
        let nodes: Vec<Reported> = datacenters
            .iter()
            .enumerate()
            .map(|(node, datacenter)| {
                let token = i64::MIN + 1 + node as i64 * (i64::MAX / datacenters.len() as i64);
                let port = if different_ports { free_port(address(node, 0).ip()) } else { port };
                Reported { address: address(node, port), datacenter, rack: "rack1", token }
            })
            .collect();
        let topology = Arc::new(Mutex::new(nodes[..known].to_vec()));
        let (looked, looks) = mpsc::unbounded_channel();
        let (mut builder, mut connected, mut executed) = (Proxy::builder(), Vec::new(), Vec::new());
        for (n, reported) in nodes.iter().enumerate() {
            let (connects, connections) = mpsc::unbounded_channel();
            connected.push(connections);
            let (executes, executions) = mpsc::unbounded_channel();
            executed.push(executions);
            let (local, peers) = (Arc::clone(&topology), Arc::clone(&topology));
            let (this, but_this) = (reported.clone(), reported.token);
            let forge_local = move |frame: RequestFrame| {
                let reported = local.lock().unwrap().iter().find(|reported| reported.token == this.token).cloned();
                rows(&frame, &[reported.unwrap_or(this.clone())], Table::Local)
            };
            let forge_peers = move |frame: RequestFrame| {
                let others: Vec<_> =
                    peers.lock().unwrap().iter().filter(|reported| reported.token != but_this).cloned().collect();
                rows(&frame, &others, Table::Peers)
            };
            let prepare = |table: Table| {
                let forge = move |frame: RequestFrame| prepared(&frame, table);
                RequestRule(table.prepares(), RequestReaction::forge_response(Arc::new(forge)))
            };
            let rules = vec![
                RequestRule(
                    Condition::RequestOpcode(RequestOpcode::Startup),
                    RequestReaction::noop().with_feedback_when_performed(connects),
                ),
                prepare(Table::Local),
                prepare(Table::Peers),
                RequestRule(Table::Local.executes(), RequestReaction::forge_response(Arc::new(forge_local))),
                RequestRule(
                    Table::Peers.executes(),
                    RequestReaction::forge_response(Arc::new(forge_peers)).with_feedback_when_performed(looked.clone()),
                ),
                RequestRule(
                    Condition::RequestOpcode(RequestOpcode::Execute)
                        .and(Condition::not(Condition::ConnectionRegisteredAnyEvent)),
                    RequestReaction::noop().with_feedback_when_performed(executes),
                ),
            ];
            if datacenters[n] != SILENT {
                let node = Node::builder().real_address(real).proxy_address(reported.address);
                builder = builder.with_node(node.shard_awareness(ShardAwareness::Unaware).request_rules(rules).build());
            }
        }
        let proxy = builder.build().run().await.unwrap();
        let options = CqlOptions { contact_points: vec![nodes[0].address.to_string()], ..options };
        Self { proxy, topology, connected, executed, looks, nodes, options }
    }

    /// Reports these nodes to later connections.
    pub fn report_to_later_connections(&self, nodes: &[Reported]) {
        *self.topology.lock().unwrap() = nodes.to_vec();
    }

    /// Reports these nodes from now on, and waits until a driver has read them.
    pub async fn report(&mut self, nodes: &[Reported]) {
        *self.topology.lock().unwrap() = nodes.to_vec();
        // The second query begins when the first has been processed.
        for _ in 0..2 {
            while self.looks.try_recv().is_ok() {}
            assert!(
                self.proxy.running_nodes[0].inject_event_to_cc(topology_change(nodes[nodes.len() - 1].address).into())
            );
            let looked = tokio::time::timeout(Duration::from_secs(30), self.looks.recv()).await;
            assert!(looked.is_ok(), "no driver read the topology");
        }
    }

    /// Has a node answer no prepared statement from now on; its connections live.
    pub fn silence(&mut self, node: usize) {
        self.react(node, RequestReaction::drop_frame());
    }

    /// Delays a node's answers to prepared statements from now on.
    pub fn slow_down(&mut self, node: usize, by: Duration) {
        self.react(node, RequestReaction::delay(by));
    }

    /// Has a node answer at once.
    pub fn speed_up(&mut self, node: usize) {
        self.react(node, RequestReaction::noop());
    }

    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn react(&mut self, node: usize, reaction: RequestReaction) {
        let (executes, executions) = mpsc::unbounded_channel();
        self.executed[node] = executions;
        let reaction = reaction.with_feedback_when_performed(executes);
        let executes = Condition::RequestOpcode(RequestOpcode::Execute);
        let rule = RequestRule(executes.and(Condition::not(Condition::ConnectionRegisteredAnyEvent)), reaction);
        self.proxy.running_nodes[node].change_request_rules(Some(vec![rule]));
    }

    /// The number of connections to a node since the last call.
    pub fn connections_to(&mut self, node: usize) -> usize {
        std::iter::from_fn(|| self.connected[node].try_recv().ok()).count()
    }

    /// The number of prepared statements sent to each node since the last call.
    pub fn executions(&mut self) -> Vec<usize> {
        self.executed.iter_mut().map(|node| std::iter::from_fn(|| node.try_recv().ok()).count()).collect()
    }
}

/// The datacenter of a node that nothing listens for.
pub const SILENT: &str = "silent";

/// An address that neither accepts nor refuses connections: packets to it vanish.
pub struct BlackHole {
    _listener: tokio::net::TcpListener,
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    pub async fn at(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(0).unwrap();
        let mut waiting = Vec::new();
        // Once its queue is full, the kernel no longer answers.
        while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await {
            waiting.push(stream);
            assert!(waiting.len() < 100, "the queue has no end");
        }
        Self { _listener: listener, _waiting: waiting }
    }
}

/// An EVENT of the type TOPOLOGY_CHANGE (CQL binary protocol, version 4, section 4.2.6).
fn topology_change(address: SocketAddr) -> Vec<u8> {
    let mut body = Vec::new();
    string(&mut body, "TOPOLOGY_CHANGE");
    string(&mut body, "NEW_NODE");
    let ip = octets(address);
    body.push(4);
    body.extend(ip);
    body.extend(i32::from(address.port()).to_be_bytes());
    body
}

fn octets(address: SocketAddr) -> [u8; 4] {
    let IpAddr::V4(ip) = address.ip() else { panic!("an IPv4 address") };
    ip.octets()
}

fn string(into: &mut Vec<u8>, text: &str) {
    into.extend((text.len() as u16).to_be_bytes());
    into.extend(text.as_bytes());
}

fn cell(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend((bytes.len() as i32).to_be_bytes());
    into.extend(bytes);
}

/// The two tables in which a node describes the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Local,
    Peers,
}

impl Table {
    const TEXT: &[u8] = &[0, 0x0D];

    fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peers => "peers",
        }
    }

    fn columns(self) -> Vec<(&'static str, &'static [u8])> {
        let mut columns: Vec<(&str, &[u8])> = vec![
            ("host_id", &[0, 0x0C]),
            ("rpc_address", &[0, 0x10]),
            ("data_center", Self::TEXT),
            ("rack", Self::TEXT),
            ("tokens", &[0, 0x22, 0, 0x0D]),
        ];
        if self == Self::Local {
            columns.push(("cluster_name", Self::TEXT));
        }
        columns
    }

    /// The ID of the prepared statement.
    fn id(self) -> Vec<u8> {
        format!("forged-{}", self.name()).into_bytes()
    }

    /// The driver's query of the topology. Others pass.
    fn prepares(self) -> Condition {
        let columns: Vec<&str> = self.columns().into_iter().map(|(name, _)| name).collect();
        let text = format!("SELECT {} FROM system.{}", columns.join(", "), self.name());
        let contains = Condition::BodyContainsCaseSensitive(text.into_bytes().into_boxed_slice());
        Condition::RequestOpcode(RequestOpcode::Prepare).and(contains)
    }

    fn executes(self) -> Condition {
        let contains = Condition::BodyContainsCaseSensitive(self.id().into_boxed_slice());
        Condition::RequestOpcode(RequestOpcode::Execute).and(contains)
    }

    /// The metadata of its rows (CQL binary protocol, version 4, section 4.2.5.2).
    fn metadata(self, body: &mut Vec<u8>) {
        body.extend(1_i32.to_be_bytes());
        body.extend((self.columns().len() as i32).to_be_bytes());
        string(body, "system");
        string(body, self.name());
        for (name, of_type) in self.columns() {
            string(body, name);
            body.extend(of_type);
        }
    }
}

/// A RESULT of the kind Prepared, of a statement without parameters (section 4.2.5.4).
fn prepared(request: &RequestFrame, table: Table) -> ResponseFrame {
    let mut body = 4_i32.to_be_bytes().to_vec();
    let id = table.id();
    body.extend((id.len() as u16).to_be_bytes());
    body.extend(id);
    // Flags, columns, and columns of the partition key.
    body.extend([0; 12]);
    table.metadata(&mut body);
    ResponseFrame::new(request.params.for_response(), ResponseOpcode::Result, body.into())
}

/// A RESULT of the kind Rows (section 4.2.5.2).
fn rows(request: &RequestFrame, nodes: &[Reported], table: Table) -> ResponseFrame {
    let mut body = 2_i32.to_be_bytes().to_vec();
    table.metadata(&mut body);
    body.extend((nodes.len() as i32).to_be_bytes());
    for reported in nodes {
        cell(&mut body, reported.host_id().as_bytes());
        cell(&mut body, &octets(reported.address));
        cell(&mut body, reported.datacenter.as_bytes());
        cell(&mut body, reported.rack.as_bytes());
        let mut tokens = 1_i32.to_be_bytes().to_vec();
        cell(&mut tokens, reported.token.to_string().as_bytes());
        cell(&mut body, &tokens);
        if table == Table::Local {
            cell(&mut body, b"forged");
        }
    }
    ResponseFrame::new(request.params.for_response(), ResponseOpcode::Result, body.into())
}
