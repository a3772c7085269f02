//! Several datacenters, and nodes that are gone without a word.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use liststore::domain::SystemClock;
use liststore::items::cql::{CqlOptions, CqlStore, Fitness, TranslatedNode, inspect};
use liststore::items::{ItemStore, StoreError};
use prometheus::Registry;

use crate::forged_cluster::{BlackHole, ForgedCluster, HERE, SILENT};
use crate::probe::{Server, fresh_list, now};

const THERE: &str = "datacenter2";

fn store(options: &CqlOptions) -> CqlStore {
    CqlStore::open(options.clone(), Arc::new(SystemClock), &Registry::new()).unwrap()
}

/// A datacenter that joins is empty before it is rebuilt. With a local consistency level it answers with empty lists,
/// so a server that was started with one datacenter must never query another.
#[tokio::test]
async fn a_datacenter_that_joins_later_gets_no_requests() {
    let mut cluster = ForgedCluster::start(&[HERE, THERE, THERE], 1).await;
    let server = Server::open(cluster.options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"kept")]).await;
    let all = cluster.nodes.clone();
    cluster.report(&all).await;
    for _ in 0..60 {
        assert_eq!(server.values(&list).await, [b"kept"]);
    }
    // A new session sees both, and queries the same one as the others.
    let another = server.another_session().await;
    assert_eq!(another.values(&list).await, [b"kept"]);
    assert_eq!((cluster.connections_to(1), cluster.connections_to(2)), (0, 0));
    assert!(cluster.connections_to(0) > 0);
}

#[tokio::test]
async fn one_of_several_datacenters_must_be_named_and_is_used_exclusively() {
    let mut cluster = ForgedCluster::start(&[HERE, THERE], 2).await;
    let unnamed = store(&cluster.options);
    let Fitness::Unfit(why) = unnamed.fitness().await.unwrap() else { panic!("it was taken as it is") };
    for reported in [HERE, THERE, "items.cql.datacenter"] {
        assert!(why.contains(reported), "{why}");
    }
    let refused = unnamed.open_session().await.map(|_| ()).unwrap_err();
    assert!(matches!(&refused, StoreError::Unavailable { reason, .. } if *reason == why), "{refused:?}");
    cluster.connections_to(1);

    let options = CqlOptions { datacenter: Some(HERE.to_owned()), ..cluster.options.clone() };
    assert_eq!(store(&options).fitness().await.unwrap(), Fitness::Fit);
    let server = Server::open(options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    assert_eq!(server.values(&list).await, [b"v"]);
    let found = inspect(&options).await.unwrap();
    assert_eq!(found.nodes.len(), 2, "the other datacenter is known, though");
    assert_eq!(cluster.connections_to(1), 0);
}

/// The driver waits five seconds for a node whose packets vanish, and for one after another.
#[tokio::test]
async fn a_silently_lost_node_does_not_delay_opening() {
    let mut cluster = ForgedCluster::start(&[HERE, HERE, SILENT], 2).await;
    let gone = cluster.nodes[2].address;
    let _hole = BlackHole::at(gone).await;
    cluster.nodes[2].datacenter = HERE;
    cluster.report_to_later_connections(&cluster.nodes.clone());
    let mut options = cluster.options.clone();
    options.contact_points.insert(0, gone.to_string());
    let store = store(&options);
    // A busy machine may take as long itself, but not each time.
    let (mut opened, mut took) = (Vec::new(), Duration::MAX);
    while took > Duration::from_secs(4) {
        assert!(opened.len() < 10, "{took:?}");
        let began = Instant::now();
        opened.push(join_all((0..4).map(|_| store.open_session())).await);
        assert!(opened.iter().flatten().all(Result::is_ok));
        took = began.elapsed();
    }
    connects(&mut cluster, 1, 4).await;
}

/// Waits for further connections to a node. Opening a session waits only a moment for the other nodes.
async fn connects(cluster: &mut ForgedCluster, node: usize, count: usize) {
    let (patience, mut found) = (Instant::now() + Duration::from_secs(60), 0);
    loop {
        found += cluster.connections_to(node);
        if found >= count {
            return;
        }
        assert!(Instant::now() < patience, "{found} of {count} connections to node {node}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Nodes may report addresses that are unreachable from here, none of which is a contact point's.
#[tokio::test]
async fn nodes_that_report_other_addresses_are_reached_at_translated_ones() {
    let mut cluster = ForgedCluster::start(&[HERE, HERE], 2).await;
    let reached = cluster.nodes.clone();
    let reported: Vec<_> = reached
        .iter()
        .enumerate()
        .map(|(n, node)| {
            let mut reported = node.clone();
            reported.address.set_ip(std::net::Ipv4Addr::new(192, 0, 2, n as u8 + 1).into());
            reported
        })
        .collect();
    cluster.report_to_later_connections(&reported);
    let named = reported.iter().map(|node| TranslatedNode::Address(node.address.ip()));
    let address_translation = named.zip(reached.iter().map(|node| node.address)).collect();
    let options = CqlOptions { address_translation, ..cluster.options.clone() };
    let server = Server::open(options).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    assert_eq!(server.values(&list).await, [b"v"]);
    connects(&mut cluster, 0, 1).await;
    connects(&mut cluster, 1, 1).await;
}

/// Behind a port mapping each node has another port, and the cluster's tables have none: a node is known by its
/// address or its host ID, through any contact point.
#[tokio::test]
async fn nodes_behind_different_ports_are_reached_at_translated_addresses() {
    let mut cluster = ForgedCluster::start_on_ports(&[HERE, HERE, HERE], 3).await;
    let reached = cluster.nodes.clone();
    let mut reported = reached.clone();
    for (n, node) in reported.iter_mut().enumerate() {
        node.address.set_ip(std::net::Ipv4Addr::new(192, 0, 2, n as u8 + 1).into());
    }
    cluster.report_to_later_connections(&reported);
    let named = reported.iter().enumerate().map(|(n, node)| match n {
        1 => TranslatedNode::HostId(node.host_id()),
        _ => TranslatedNode::Address(node.address.ip()),
    });
    let address_translation: Vec<_> = named.zip(reached.iter().map(|node| node.address)).collect();
    for contact_point in &reached {
        let contact_points = vec![contact_point.address.to_string()];
        let address_translation = address_translation.clone();
        let options = CqlOptions { contact_points, address_translation, ..cluster.options.clone() };
        let server = Server::open(options).await;
        let list = fresh_list();
        server.add(&list, &[(now(), b"v")]).await;
        assert_eq!(server.values(&list).await, [b"v"]);
        let patience = Instant::now() + Duration::from_secs(20);
        while server.metric("liststore_cql_nodes_reached", "") < 3.0 {
            assert!(Instant::now() < patience, "not all nodes are connected to by way of {}", contact_point.address);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!((0..3).all(|node| cluster.connections_to(node) > 0));
    }
}

/// One of two nodes answers nothing. Once that is known, operations go to the other at once, and only probes go to the
/// silent one.
#[tokio::test]
async fn a_silent_node_gets_no_operations() {
    let mut cluster = ForgedCluster::start(&[HERE, HERE], 2).await;
    let server = Server { deadline: Duration::from_secs(3), ..Server::open(cluster.options.clone()).await };
    let patience = Instant::now() + Duration::from_secs(60);
    while server.metric("liststore_cql_nodes_reached", "") < 2.0 {
        assert!(Instant::now() < patience, "not both nodes are connected to");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.silence(1);
    let get = async |server: &Server| {
        let _ = server.session.get(&server.op(), &fresh_list(), &crate::probe::EVERYTHING).await;
    };
    while !server.store.warning().is_some_and(|warning| warning.contains("does not respond")) {
        assert!(Instant::now() < patience, "no server notices");
        join_all((0..8).map(|_| get(&server))).await;
    }
    // Of the other one every answer is waited for.
    let server = Server { deadline: Duration::from_secs(20), ..server };
    cluster.executions();
    let asked_before = server.metric("liststore_cql_request_duration_seconds", "");
    let began = Instant::now();
    for _ in 0..60 {
        get(&server).await;
    }
    assert_eq!(server.metric("liststore_cql_request_duration_seconds", "") - asked_before, 60.0);
    let executions = cluster.executions();
    // One probe a second.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "operations wait for the silent node: {took:?}");
    let probes = 15 + took.as_secs() as usize;
    assert!(executions[0] >= 60 && executions[1] < probes, "{executions:?}");
}

/// A slow node delays its operations. Once that is detected, operations go to the other nodes, until it answers in time
/// again.
#[tokio::test]
async fn a_slow_node_gets_few_operations_until_it_keeps_up() {
    let mut cluster = ForgedCluster::start(&[HERE, HERE, HERE], 3).await;
    let options = CqlOptions { permit_wait: Duration::from_secs(20), ..cluster.options.clone() };
    let server = Server::open(options).await;
    let patience = Instant::now() + Duration::from_secs(60);
    while server.metric("liststore_cql_nodes_reached", "") < 3.0 {
        assert!(Instant::now() < patience, "not all nodes are connected to");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // How many of 120 gets the node is sent, of which about 20 are of its lists.
    let share = async |cluster: &mut ForgedCluster| {
        cluster.executions();
        for _ in 0..2 {
            join_all((0..60).map(async |_| server.values(&fresh_list()).await)).await;
        }
        cluster.executions()[1]
    };
    let until = async |cluster: &mut ForgedCluster, what: &str, holds: &dyn Fn(usize) -> bool| {
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            let asked = share(cluster).await;
            if holds(asked) {
                break;
            }
            assert!(Instant::now() < patience, "{what}: {asked} of 120");
        }
    };
    until(&mut cluster, "it is asked as others are", &|asked| asked >= 8).await;
    cluster.slow_down(1, Duration::from_secs(1));
    until(&mut cluster, "it is slow and asked all the same", &|asked| asked < 5).await;
    cluster.speed_up(1);
    until(&mut cluster, "it is quick and not asked", &|asked| asked >= 8).await;
}
