//! Connecting: the driver's session as this store wants it, and in plain words why it cannot be had.
//!
//! A session is built on the runtime that is current, where the driver then runs its connections: on
//! an actor's arbiter when an actor opens one.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::{PoolSize, SelfIdentity};
use scylla::cluster::ClusterState;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError, NewSessionError,
};
use scylla::policies::load_balancing::{DefaultPolicy, LoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;

use super::options::CqlOptions;
use crate::items::StoreError;

/// The driver's own limit for one connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// All of opening a session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// A node that hangs keeps its connections open; this is how soon the driver finds out.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long schema changes may take to reach all nodes that are up.
const SCHEMA_AGREEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The TLS configuration, read once from its files.
pub type Tls = Arc<rustls::ClientConfig>;

/// Opens a session with the cluster. It has one connection to each shard of each node, and one
/// control connection; it knows of the schema of our keyspace only.
pub async fn connect(options: &CqlOptions, tls: Option<&Tls>) -> Result<Session, StoreError> {
    // No retries and no timeouts of the driver: see `retry.rs`.
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(plan(options))
        .retry_policy(Arc::new(FallthroughRetryPolicy))
        .request_timeout(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.contact_points)
        .pool_size(PoolSize::PerShard(std::num::NonZeroUsize::MIN))
        .keyspaces_to_fetch([&options.keyspace])
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(CONNECT_TIMEOUT)
        .keepalive_interval(KEEPALIVE_INTERVAL)
        .keepalive_timeout(KEEPALIVE_TIMEOUT)
        .schema_agreement_timeout(SCHEMA_AGREEMENT_TIMEOUT)
        .custom_identity(
            SelfIdentity::new()
                .with_application_name(env!("CARGO_PKG_NAME"))
                .with_application_version(env!("CARGO_PKG_VERSION")),
        )
        .tls_context(tls.cloned());
    if let Some(credentials) = &options.credentials {
        builder = builder.user(&credentials.username, &credentials.password);
    }
    match tokio::time::timeout(OPEN_TIMEOUT, builder.build()).await {
        Ok(Ok(session)) => Ok(session),
        Ok(Err(error)) => Err(unavailable(why_no_session(&error))),
        Err(_) => Err(unavailable("the cluster does not answer".to_owned())),
    }
}

/// The nodes to ask, in order: replicas of the statement's partition that are in our datacenter,
/// then other nodes of it.
pub fn plan(options: &CqlOptions) -> Arc<dyn LoadBalancingPolicy> {
    let plan = DefaultPolicy::builder();
    match &options.datacenter {
        Some(datacenter) => plan.prefer_datacenter(datacenter.clone()).build(),
        None => plan.build(),
    }
}

/// The datacenter whose nodes are asked: the one of the options, or the only one.
pub fn datacenter(options: &CqlOptions, cluster: &ClusterState) -> Result<String, StoreError> {
    let known: BTreeSet<&str> = cluster.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref()).collect();
    let names = || known.iter().copied().collect::<Vec<_>>().join(", ");
    match (&options.datacenter, known.first()) {
        (Some(_), None) => Err(unavailable(UNREADABLE.to_owned())),
        (Some(wanted), _) if known.contains(wanted.as_str()) => Ok(wanted.clone()),
        (Some(wanted), _) => Err(unavailable(format!(
            "the cluster has no datacenter {wanted:?}, only: {}; set items.cql.datacenter to one of them",
            names()
        ))),
        (None, Some(only)) if known.len() == 1 => Ok((*only).to_owned()),
        // The driver makes do with the contact points where it cannot read what the cluster is.
        (None, None) => Err(unavailable(UNREADABLE.to_owned())),
        _ => Err(unavailable(format!(
            "the cluster has several datacenters ({}): set items.cql.datacenter to the one near this server",
            names()
        ))),
    }
}

pub fn unavailable(reason: String) -> StoreError {
    StoreError::Unavailable { reason, outcome_unknown: false }
}

const UNREADABLE: &str = "the cluster's own tables cannot be read: is it whole, and may this login read them?";

fn why_no_session(error: &NewSessionError) -> String {
    match error {
        NewSessionError::FailedToResolveAnyHostname(names) => {
            format!("no address is known for {}: check items.cql.contact_points", names.join(", "))
        }
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error,
            ..
        })) => why_no_connection(last_connection_error),
        NewSessionError::MetadataError(_) => UNREADABLE.to_owned(),
        _ => "the driver opens no session".to_owned(),
    }
}

/// Why a node cannot be connected to, in words of our own: those of others may hold what is secret.
pub fn why_no_connection(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ConnectTimeout => "connecting to the cluster takes too long".to_owned(),
        ConnectionError::IoError(error) => why_io(error),
        ConnectionError::BrokenConnection(_) => BROKEN_SETUP.to_owned(),
        ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError | DbError::Unauthorized, _) => {
                "the cluster refuses this login: check items.cql.username and items.cql.password".to_owned()
            }
            ConnectionSetupRequestErrorKind::MissingAuthentication => {
                "the cluster asks for a login: set items.cql.username and items.cql.password".to_owned()
            }
            ConnectionSetupRequestErrorKind::BrokenConnection(_) => BROKEN_SETUP.to_owned(),
            ConnectionSetupRequestErrorKind::DbError(..) => "a node refuses the connection".to_owned(),
            _ => "what listens there does not speak CQL version 4".to_owned(),
        },
        _ => "no connection to the cluster".to_owned(),
    }
}

const BROKEN_SETUP: &str = "a node closed the connection at once: if it wants TLS, set items.cql.tls.ca_file, and if it \
                            wants a certificate of ours, items.cql.tls.cert_file and key_file";

fn why_io(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(why)) => format!(
            "a node's certificate is not accepted ({why:?}): items.cql.tls.ca_file must be of the authority that signed \
             it, and the certificate must name the node's address"
        ),
        Some(rustls::Error::AlertReceived(alert)) => format!(
            "a node refuses our side of TLS ({alert:?}): check items.cql.tls.cert_file and items.cql.tls.key_file"
        ),
        Some(_) => "a node does not speak TLS, or not ours".to_owned(),
        None => format!("no connection to the cluster: {}", error.kind()),
    }
}
