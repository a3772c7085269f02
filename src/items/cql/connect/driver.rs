//! Connecting: the driver's session as this store wants it.
//!
//! A session is built on the runtime that is current, where the driver then runs its connections: on
//! an actor's arbiter when an actor opens one.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::{PoolSize, SelfIdentity};
use scylla::errors::{ConnectionPoolError, MetadataError, NewSessionError};
use scylla::policies::load_balancing::{DefaultPolicy, LoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;

use super::connection_errors::{explain_connection_error, unavailable};
use super::datacenter::{LocalDatacenter, NoDatacenter, NodeFilter};
use super::login::Login;
use super::reach::{self, Reached};
use super::tls::Tls;
use super::translate::Translations;
use crate::items::StoreError;
use crate::items::cql::options::CqlOptions;

/// The driver's own limit for one connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// All of opening a session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a session that could be used already waits for its other nodes, so that one that opens
/// while all are well has all of them.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);
/// A node that hangs keeps its connections open; this is how soon the driver finds out.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long schema changes may take to reach all nodes that are up.
const SCHEMA_AGREEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of the cluster a session waits for before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Nodes that answer at once. The session connects to the others later.
    SomeNodes,
    /// All nodes, or their failure.
    AllNodes,
}

/// Opens a session with the nodes of our datacenter. It has one connection to each shard of each node,
/// and one control connection; it knows of the schema of our keyspace only.
///
/// The driver waits for every node that it may connect to, and a node that is gone without a word
/// takes it five seconds each time. So at first it may connect only to contact points that were seen
/// to answer, and then to all.
pub async fn connect(
    options: &CqlOptions,
    tls: Option<&Tls>,
    datacenter: &Arc<LocalDatacenter>,
    completeness: Completeness,
) -> Result<Session, StoreError> {
    let reached = reach::ask_all(&options.contact_points, tls).await.map_err(unavailable)?;
    let translations = Translations::new(&options.address_translation);
    let filter = Arc::new(NodeFilter::new(Arc::clone(datacenter), translations.clone(), reached.answering.clone()));
    let building = build(options, tls, &reached, translations, Arc::clone(&filter));
    let opening = async {
        let session = building.await?;
        filter.widen();
        let settle = match completeness {
            Completeness::SomeNodes if is_connected(&session) => SETTLE_TIMEOUT,
            // A node may announce an address that is none of the answering ones.
            _ => OPEN_TIMEOUT,
        };
        // What fails here is known by its missing connections; the driver continues trying.
        let _ = tokio::time::timeout(settle, session.refresh_metadata()).await;
        Ok(session)
    };
    match tokio::time::timeout(OPEN_TIMEOUT, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(unavailable("the cluster does not respond".to_owned())),
    }
}

async fn build(
    options: &CqlOptions,
    tls: Option<&Tls>,
    reached: &Reached,
    translations: Translations,
    filter: Arc<NodeFilter>,
) -> Result<Session, StoreError> {
    // No retries and no timeouts of the driver: see `retry`.
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(DefaultPolicy::builder().build())
        .retry_policy(Arc::new(FallthroughRetryPolicy))
        .request_timeout(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(known_nodes(&options.contact_points, reached))
        .host_filter(filter)
        .pool_size(PoolSize::PerShard(std::num::NonZeroUsize::MIN))
        .disallow_shard_aware_port(options.disallow_shard_aware_port)
        .compression(options.compression.of_driver())
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
        builder = builder.authenticator_provider(Arc::new(Login::new(credentials.clone())));
    }
    if !translations.is_empty() {
        builder = builder.address_translator(Arc::new(translations));
    }
    builder.build().await.map_err(|error| unavailable(explain_session_error(&error)))
}

/// The addresses to which the driver connects first. It resolves names again when it has lost all nodes, so it gets
/// names. If one of their addresses does not answer, it gets only the answering addresses.
fn known_nodes(contact_points: &[String], reached: &Reached) -> Vec<String> {
    if reached.all { contact_points.to_vec() } else { reached.answering.iter().map(ToString::to_string).collect() }
}

fn is_connected(session: &Session) -> bool {
    session.get_cluster_state().get_nodes_info().iter().any(|node| node.is_connected())
}

/// The nodes to ask, in order: replicas of the statement's partition that are in our datacenter, those
/// of our rack first, then other nodes of it.
pub fn plan(datacenter: &str, rack: Option<&str>) -> Arc<dyn LoadBalancingPolicy> {
    let (plan, datacenter) = (DefaultPolicy::builder(), datacenter.to_owned());
    match rack {
        Some(rack) => plan.prefer_datacenter_and_rack(datacenter, rack.to_owned()).build(),
        None => plan.prefer_datacenter(datacenter).build(),
    }
}

fn explain_session_error(error: &NewSessionError) -> String {
    match error {
        NewSessionError::FailedToResolveAnyHostname(names) => {
            format!("cannot resolve {}: check items.cql.contact_points", names.join(", "))
        }
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error,
            ..
        })) => explain_connection_error(last_connection_error),
        NewSessionError::MetadataError(_) => NoDatacenter::Unreadable.to_string(),
        _ => "the driver cannot open a session".to_owned(),
    }
}
