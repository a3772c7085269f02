//! Settings of connections, as nodes see them: compression, and the selected nodes.

use std::time::{Duration, Instant};

use liststore::items::cql::{Compression, Consistency, CqlOptions, migrate};
use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule};

use crate::forged_cluster::{ForgedCluster, HERE};
use crate::forger::Forger;
use crate::keyspace::Keyspace;
use crate::permits::feedback;
use crate::probe::{Server, fresh_list, now};

#[tokio::test]
async fn frames_are_compressed_by_the_setting() {
    for (compression, name) in [(Compression::Lz4, "lz4"), (Compression::Snappy, "snappy"), (Compression::None, "")] {
        let mut forger = Forger::start().await;
        let (arrived, mut arrivals) = feedback();
        let (started, mut starts) = feedback();
        let of = Condition::RequestOpcode;
        forger.on_requests(vec![
            RequestRule(of(RequestOpcode::Startup), RequestReaction::noop().with_feedback_when_performed(started)),
            RequestRule(of(RequestOpcode::Batch), RequestReaction::noop().with_feedback_when_performed(arrived)),
        ]);
        let server = Server::open(CqlOptions { compression, ..forger.options.clone() }).await;
        let (list, value) = (fresh_list(), [b'v'; 10_000]);
        server.add(&list, &[(now(), &value)]).await;
        assert_eq!(server.values(&list).await, [value]);

        let (start, _) = starts.recv().await.unwrap();
        let negotiated = String::from_utf8_lossy(&start.body).contains("COMPRESSION");
        assert_eq!(negotiated, compression != Compression::None, "{name}");
        assert!(String::from_utf8_lossy(&start.body).contains(name));
        let (batch, _) = arrivals.recv().await.unwrap();
        assert_eq!(batch.params.is_compressed(), compression != Compression::None, "{name}");
        assert_eq!(batch.wire_body_len < value.len() / 2, compression != Compression::None, "{name}");
        assert!(batch.body.len() > value.len());
    }
}

/// Three replicas in three racks, any of which may answer.
#[tokio::test]
async fn replicas_of_the_local_rack_are_preferred() {
    let any = Consistency::One;
    let keyspace = Keyspace::new();
    let options = CqlOptions { read_consistency: any, write_consistency: any, ..keyspace.options.clone() };
    migrate(&CqlOptions { replication_factor: 3, ..options.clone() }, false).await.unwrap();
    let mut cluster = ForgedCluster::start(&[HERE; 3], 3).await;
    for (node, rack) in cluster.nodes.iter_mut().zip(["rack1", "rack2", "rack3"]) {
        node.rack = rack;
    }
    cluster.report_to_later_connections(&cluster.nodes.clone());
    for rack in [Some("rack2"), None] {
        let options = CqlOptions {
            contact_points: cluster.options.contact_points.clone(),
            rack: rack.map(str::to_owned),
            ..options.clone()
        };
        let server = Server::open(options).await;
        let patience = Instant::now() + Duration::from_secs(30);
        while server.metric("liststore_cql_nodes_reached", "") < 3.0 {
            assert!(Instant::now() < patience, "not all nodes are connected to");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let list = fresh_list();
        server.add(&list, &[(now(), b"v")]).await;
        cluster.executions();
        for _ in 0..40 {
            assert_eq!(server.values(&list).await, [b"v"]);
        }
        let executions = cluster.executions();
        match rack {
            // The background reads too.
            Some(_) => assert!(executions[1] >= 40 && executions[0] + executions[2] == 0, "{executions:?}"),
            None => assert!(executions.iter().all(|count| *count > 0), "{executions:?}"),
        }
    }
}
