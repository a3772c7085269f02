//! ScyllaDB distinguished from Cassandra by its SUPPORTED message, forged in front of a Cassandra. No ScyllaDB runs
//! here, so this tests detection and texts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use liststore::items::cql::{
    CqlOptions, Dialect, DialectChoice, IndexDefect, MigrateError, SchemaState, TabletsChoice, inspect, migrate,
};
use scylla_proxy::{
    Condition, Node, Proxy, Reaction, RequestFrame, RequestOpcode, RequestReaction, RequestRule, ResponseFrame,
    RunningProxy, ShardAwareness,
};

use crate::cassandra;
use crate::keyspace::Keyspace;
use crate::ports::free_port;
use crate::probe::bare;

const SCYLLA_RELEASE: &str = "SELECT version FROM system.versions WHERE key = 'local'";
/// An answer that Cassandra can give instead.
const FORGED_RELEASE: &str = "SELECT (text)'2025.4.1' AS version FROM system.local WHERE key = 'local'";

/// A node that gives itself out as a ScyllaDB of one shard.
async fn disguised() -> (RunningProxy, CqlOptions) {
    disguised_with("1", &[]).await
}

/// The same, with this many shards and more properties.
async fn disguised_with(shards: &str, more: &[(&str, String)]) -> (RunningProxy, CqlOptions) {
    disguised_as(shards, more, Vec::new()).await
}

/// The same, with other tables in the place of some.
async fn disguised_as(
    shards: &str,
    more: &[(&str, String)],
    tables: Vec<(&'static str, String)>,
) -> (RunningProxy, CqlOptions) {
    let real: SocketAddr = cassandra::shared()[0].parse().unwrap();
    let free = SocketAddr::new(real.ip(), free_port(real.ip()));
    let supported = [
        ("SCYLLA_SHARD", "0"),
        ("SCYLLA_NR_SHARDS", shards),
        ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
        ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
        ("SCYLLA_PARTITIONER", "org.apache.cassandra.dht.Murmur3Partitioner"),
        ("CQL_VERSION", "3.3.1"),
    ];
    let more = more.iter().map(|(key, value)| (*key, value.as_str()));
    let supported: HashMap<String, Vec<String>> =
        supported.into_iter().chain(more).map(|(key, value)| (key.to_owned(), vec![value.to_owned()])).collect();
    let forge = move |frame: RequestFrame| ResponseFrame::forged_supported(frame.params, &supported).unwrap();
    let rules = vec![
        RequestRule(Condition::RequestOpcode(RequestOpcode::Options), RequestReaction::forge_response(Arc::new(forge))),
        RequestRule(
            Condition::RequestOpcode(RequestOpcode::Query).or(Condition::RequestOpcode(RequestOpcode::Prepare)),
            RequestReaction::transform_frame(Arc::new(move |frame| translated(frame, &tables))),
        ),
    ];
    let node = Node::builder().real_address(real).proxy_address(free).shard_awareness(ShardAwareness::Unaware);
    let proxy = Proxy::builder().with_node(node.request_rules(rules).build()).build().run().await.unwrap();
    let keyspace = "Disguised".to_owned();
    (proxy, CqlOptions { keyspace, ..cassandra::options(vec![free.to_string()], 1) })
}

/// Statements that only ScyllaDB supports, translated for Cassandra. The body of a QUERY and of a PREPARE starts with
/// the length of its text in four bytes and the text.
fn translated(frame: RequestFrame, tables: &[(&str, String)]) -> RequestFrame {
    let (length, rest) = frame.body.split_at(4);
    let (text, rest) = rest.split_at(u32::from_be_bytes(length.try_into().unwrap()) as usize);
    let text = std::str::from_utf8(text).unwrap();
    // The driver bounds its own queries so.
    let text = text.split(" USING TIMEOUT ").next().unwrap().replace(SCYLLA_RELEASE, FORGED_RELEASE);
    let text = tables.iter().fold(text, |text, (table, other)| text.replace(table, other));
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    let body: Bytes = [&length, text.as_bytes(), rest].concat().into();
    RequestFrame::new(frame.params, frame.opcode, body)
}

fn statements(report: &liststore::items::cql::MigrationReport) -> Vec<String> {
    let statements = report.steps.iter().flat_map(|step| &step.statements);
    statements.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn a_node_with_shards_is_detected_as_scylladb() {
    let (_proxy, options) = disguised().await;
    let found = inspect(&options).await.unwrap();
    assert_eq!(found.dialect, Dialect::Scylla);
    assert_eq!(found.nodes[0].release.as_deref(), Some("2025.4.1"));
    assert_eq!(found.nodes[0].shards, 1);

    let planned = migrate(&options, true).await.unwrap();
    assert_eq!(planned.dialect, Dialect::Scylla);
    let statements = statements(&planned);
    assert_eq!(
        statements[0],
        "CREATE KEYSPACE IF NOT EXISTS \"Disguised\" WITH replication = {'class': 'NetworkTopologyStrategy', \
         'datacenter1': 1} AND tablets = {'enabled': false}"
    );
    let index =
        "CREATE INDEX IF NOT EXISTS list_items_by_value ON \"Disguised\".list_items ((feature_key, entity_id), value)";
    assert!(statements.iter().any(|text| text == index), "{statements:?}");
    // It is not one, though, and has other words for that.
    let refused = migrate(&CqlOptions { tablets: TabletsChoice::Disabled, ..options }, false).await.unwrap_err();
    match refused {
        MigrateError::Refused { step, statement, words } => {
            assert_eq!(step, "0001_lists");
            assert!(statement.ends_with("AND tablets = {'enabled': false}"), "{statement}");
            assert!(words.contains("tablets"), "{words}");
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_setting_overrides_the_detected_database() {
    let (_proxy, options) = disguised().await;
    let chosen = CqlOptions { dialect: DialectChoice::Cassandra, ..options };
    let planned = migrate(&chosen, true).await.unwrap();
    assert_eq!(planned.dialect, Dialect::Cassandra);
    assert!(statements(&planned).iter().any(|text| text.ends_with("USING 'legacy_local_table'")));
    let plain = CqlOptions { keyspace: "Undisguised".into(), ..cassandra::options(cassandra::shared(), 1) };
    assert_eq!(migrate(&plain, true).await.unwrap().dialect, Dialect::Cassandra);
}

/// Behind a NAT, which changes the ports that it goes by, that port would lead to any shard.
#[tokio::test]
async fn the_shard_aware_port_is_used_unless_disabled() {
    for disallowed in [false, true] {
        let listener = tokio::net::TcpListener::bind((cassandra_ip(), 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let (_proxy, options) = disguised_with("2", &[("SCYLLA_SHARD_AWARE_PORT", port)]).await;
        let options = CqlOptions { disallow_shard_aware_port: disallowed, ..options };
        let inspecting = tokio::spawn(async move { inspect(&options).await.map(|found| found.nodes[0].shards) });
        if disallowed {
            // All connections are open now.
            assert_eq!(inspecting.await.unwrap().unwrap(), 2);
            let connected = tokio::time::timeout(std::time::Duration::from_millis(200), listener.accept()).await;
            assert!(connected.is_err(), "the port was connected to");
        } else {
            let connected = tokio::time::timeout(std::time::Duration::from_secs(30), listener.accept()).await;
            assert!(connected.is_ok(), "the port was not connected to");
            inspecting.abort();
        }
    }
}

fn cassandra_ip() -> std::net::IpAddr {
    let node: SocketAddr = cassandra::shared()[0].parse().unwrap();
    node.ip()
}

/// A ScyllaDB answers queries by an index that it is building, and leaves out rows that are not entered yet.
#[tokio::test]
async fn an_index_under_construction_is_neither_used_nor_created_again() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let columns = "keyspace_name TEXT, table_name TEXT, index_name TEXT, kind TEXT, options MAP<TEXT, TEXT>";
    keyspace
        .execute(&format!("CREATE TABLE KS.indexes ({columns}, PRIMARY KEY (keyspace_name, table_name, index_name))"))
        .await;
    let columns = "keyspace_name TEXT, view_name TEXT, host_id UUID, status TEXT";
    keyspace
        .execute(&format!("CREATE TABLE KS.statuses ({columns}, PRIMARY KEY ((keyspace_name, view_name), host_id))"))
        .await;
    let (name, bare) = (keyspace.options.keyspace.clone(), bare(&keyspace.options).await);
    let index = "INSERT INTO indexes (keyspace_name, table_name, index_name, kind, options) VALUES (?, 'list_items', \
                 'list_items_by_value', 'COMPOSITES', {'target': '{\"pk\":[\"feature_key\",\"entity_id\"],\"ck\":[\"value\"]}'})";
    bare.query_unpaged(index, (&name,)).await.unwrap();
    let host = bare.query_unpaged("SELECT host_id FROM system.local WHERE key = 'local'", ()).await.unwrap();
    let (host,) = host.into_rows_result().unwrap().single_row::<(uuid::Uuid,)>().unwrap();
    let tables = vec![
        ("system_schema.indexes", format!("\"{name}\".indexes")),
        ("system.view_build_status_v2", format!("\"{name}\".statuses")),
    ];
    let (_proxy, options) = disguised_as("1", &[], tables).await;
    let options = CqlOptions { keyspace: name.clone(), ..options };
    let building = SchemaState::NoIndex(IndexDefect::Building(1));
    for (status, expected) in
        [(None, &building), (Some("STARTED"), &building), (Some("SUCCESS"), &SchemaState::Current)]
    {
        if let Some(status) = status {
            let note = "INSERT INTO statuses (keyspace_name, view_name, host_id, status) VALUES (?, \
                        'list_items_by_value_index', ?, ?)";
            bare.query_unpaged(note, (&name, host, status)).await.unwrap();
        }
        let found = inspect(&options).await.unwrap();
        assert_eq!((found.dialect, &found.schema), (Dialect::Scylla, expected), "{status:?}");
        assert_eq!(found.problems, Vec::<String>::new(), "lists are served");
        let reported = found.cautions.iter().any(|caution| caution.contains("is being built on 1 node"));
        assert_eq!(reported, status != Some("SUCCESS"), "{:?}", found.cautions);
        assert_eq!(migrate(&options, true).await.unwrap().steps, [], "{status:?}");
    }
}
