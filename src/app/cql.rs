//! The item store on ScyllaDB and Cassandra: converts settings, and checks and migrates the schema. `without_cql.rs`
//! replaces this file in a program without the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::StartError;
use super::steps::Migration;
use crate::config::{AddressTranslation, Compression, Consistency, Dialect, ItemsSettings, NodeName, Secret, Tablets};
use crate::domain::{Clock, SystemClock};
use crate::items::ItemStore;
use crate::items::cql::{
    self, ClientCertificate, CqlOptions, CqlStore, CqlTls, Credentials, DialectChoice, Password, SETTLED_AFTER_MIN,
    TabletsChoice, TranslatedNode,
};

/// How long the start waits for a cluster to report its properties. The server starts without an answer, and readiness
/// waits for the cluster.
const FITNESS_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn open(
    settings: &ItemsSettings,
    clock: &Arc<dyn Clock>,
    registry: &Registry,
) -> Result<Arc<dyn ItemStore>, StartError> {
    let store = CqlStore::open(options(settings), Arc::clone(clock), registry)
        .map_err(|error| StartError::Items(error.to_string()))?;
    // Sessions open later and report temporary problems, including a schema that needs a migration. Only permanent
    // problems stop the start: a foreign schema, or settings that do not fit the cluster.
    match tokio::time::timeout(FITNESS_CHECK_TIMEOUT, store.fitness()).await {
        Ok(Ok(cql::Fitness::Unfit(why))) => Err(StartError::Items(why)),
        _ => Ok(Arc::new(store)),
    }
}

/// Describes the cluster in one line.
pub(super) async fn check(settings: &ItemsSettings) -> Result<String, StartError> {
    let found = cql::inspect(&options(settings)).await;
    let found = found.map_err(|error| StartError::Items(error.to_string()))?;
    let cluster = cluster(&found, settings.actors);
    if found.problems.is_empty() {
        Ok(cluster)
    } else {
        Err(StartError::Items(format!("{}; {cluster}", found.problems.join("; "))))
    }
}

/// A cluster in one line: dialect, nodes with releases and shards, replicas, schema, connections.
fn cluster(found: &cql::Inspection, actors: usize) -> String {
    let nodes = found.nodes.iter().map(|node| {
        let release = node.release.as_deref().unwrap_or("no answer");
        format!("{} ({}, rack {}, {release}, {} shards)", node.address, node.datacenter, node.rack, node.shards)
    });
    format!(
        "{} cluster \"{}\": {}; datacenter {}, {} replicas{}; {}; {} connections for {actors} actors{}",
        found.dialect,
        found.cluster_name,
        nodes.collect::<Vec<_>>().join(", "),
        found.datacenter,
        found.replicas.map_or_else(|| "unknown".to_owned(), |replicas| replicas.to_string()),
        if found.tablets { ", tablets" } else { "" },
        found.schema,
        found.connections * actors as u64,
        found.cautions.iter().map(|caution| format!("; note: {caution}")).collect::<String>(),
    )
}

/// Migrates the schema and returns a line for each step.
pub(super) async fn migrate(settings: &ItemsSettings, how: Migration) -> Result<Vec<String>, StartError> {
    let report = cql::migrate(&options(settings), how.is_dry_run()).await;
    let report = report.map_err(|error| StartError::Items(error.to_string()))?;
    let steps = report.steps.iter().map(|step| step.name.clone()).collect();
    let mut lines = how.lines("items", &format!("{} schema", report.dialect), steps);
    lines.extend(report.notes.iter().map(|note| format!("items: note: {note}")));
    if how == Migration::WithDirectories {
        let rebuilt = cql::rebuild_directories(&options(settings), Arc::new(SystemClock)).await;
        let buckets = rebuilt.map_err(|error| StartError::Items(error.to_string()))?;
        lines.push(format!("items: the directories have {buckets} buckets"));
    }
    Ok(lines)
}

fn options(items: &ItemsSettings) -> CqlOptions {
    let settings = &items.cql;
    let credentials = settings.username.clone().map(|username| Credentials {
        username,
        password: match (&settings.password, &settings.password_file) {
            (_, Some(path)) => Password::File(path.clone()),
            (password, None) => Password::Given(password.as_ref().map(Secret::expose).unwrap_or_default().to_owned()),
        },
    });
    let tls = settings.tls.ca_file.clone().map(|ca_file| CqlTls {
        ca_file,
        server_names: settings.tls.server_name.clone(),
        client: settings
            .tls
            .cert_file
            .clone()
            .zip(settings.tls.key_file.clone())
            .map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file }),
    });
    CqlOptions {
        contact_points: settings.contact_points.iter().map(ToString::to_string).collect(),
        dialect: match settings.dialect {
            Dialect::Auto => DialectChoice::Auto,
            Dialect::Scylla => DialectChoice::Scylla,
            Dialect::Cassandra => DialectChoice::Cassandra,
        },
        keyspace: settings.keyspace.clone(),
        datacenter: settings.datacenter.clone(),
        rack: settings.rack.clone(),
        replication: settings.replication.iter().map(|in_one| (in_one.datacenter.clone(), in_one.replicas)).collect(),
        replication_factor: settings.replication_factor,
        tablets: match settings.tablets {
            Tablets::Auto => TabletsChoice::Auto,
            Tablets::Enabled => TabletsChoice::Enabled,
            Tablets::Disabled => TabletsChoice::Disabled,
        },
        read_consistency: consistency(settings.read_consistency),
        write_consistency: consistency(settings.write_consistency),
        default_ttl_secs: settings.default_ttl_secs,
        credentials,
        tls,
        permits: items.permits_per_actor,
        permit_wait: Duration::from_millis(items.permit_wait_ms),
        speculative_after: settings.speculative_after_ms.map(Duration::from_millis),
        clock_skew_max: Duration::from_millis(settings.clock_skew_max_ms),
        settled_after: SETTLED_AFTER_MIN.max(Duration::from_millis(items.operation_timeout_ms)),
        disallow_shard_aware_port: settings.disallow_shard_aware_port,
        compression: match settings.compression {
            Compression::None => cql::Compression::None,
            Compression::Lz4 => cql::Compression::Lz4,
            Compression::Snappy => cql::Compression::Snappy,
        },
        address_translation: settings.address_translation.iter().map(translation).collect(),
        clock_skew_warn: Duration::from_millis(settings.clock_skew_warn_ms),
    }
}

fn translation(one: &AddressTranslation) -> (TranslatedNode, SocketAddr) {
    let node = match one.node {
        NodeName::Address(address) => TranslatedNode::Address(address),
        NodeName::HostId(id) => TranslatedNode::HostId(id),
    };
    (node, one.reached)
}

fn consistency(level: Consistency) -> cql::Consistency {
    match level {
        Consistency::One => cql::Consistency::One,
        Consistency::Two => cql::Consistency::Two,
        Consistency::Three => cql::Consistency::Three,
        Consistency::Quorum => cql::Consistency::Quorum,
        Consistency::All => cql::Consistency::All,
        Consistency::LocalQuorum => cql::Consistency::LocalQuorum,
        Consistency::EachQuorum => cql::Consistency::EachQuorum,
        Consistency::LocalOne => cql::Consistency::LocalOne,
    }
}
