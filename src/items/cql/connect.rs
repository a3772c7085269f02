//! Connecting: the driver's session as this store wants it, and in plain words why it cannot be had.
//!
//! A session is built on the runtime that is current, where the driver then runs its connections: on
//! an actor's arbiter when an actor opens one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::CertificateError;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::{PoolSize, SelfIdentity};
use scylla::errors::{
    BrokenConnectionError, BrokenConnectionErrorKind, ConnectionError, ConnectionPoolError,
    ConnectionSetupRequestErrorKind, DbError, MetadataError, NewSessionError,
};
use scylla::policies::load_balancing::{DefaultPolicy, LoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;

use super::datacenter::{LocalDatacenter, NoDatacenter, NodeFilter};
use super::options::CqlOptions;
use super::reach::{self, Reached};
use super::translate::Translations;
use crate::items::StoreError;

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

/// The TLS configuration, read once from its files.
pub type Tls = Arc<rustls::ClientConfig>;

/// How much of the cluster a session waits for before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Those nodes that answer at once: the others are connected to meanwhile.
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
            // What a node calls its address may be none of those that answered.
            _ => OPEN_TIMEOUT,
        };
        // What fails here is known by its missing connections; the driver goes on trying.
        let _ = tokio::time::timeout(settle, session.refresh_metadata()).await;
        Ok(session)
    };
    match tokio::time::timeout(OPEN_TIMEOUT, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(unavailable("the cluster does not answer".to_owned())),
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
        builder = builder.user(&credentials.username, &credentials.password);
    }
    if !translations.is_empty() {
        builder = builder.address_translator(Arc::new(translations));
    }
    builder.build().await.map_err(|error| unavailable(why_no_session(&error)))
}

/// What the driver is told to connect to first. It looks names up again when it has lost all nodes, so
/// it is told them, except where some address of theirs does not answer: it would try that one too.
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

pub fn unavailable(reason: String) -> StoreError {
    StoreError::Unavailable { reason, outcome_unknown: false }
}

fn why_no_session(error: &NewSessionError) -> String {
    match error {
        NewSessionError::FailedToResolveAnyHostname(names) => {
            format!("no address is known for {}: check items.cql.contact_points", names.join(", "))
        }
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error,
            ..
        })) => why_no_connection(last_connection_error),
        NewSessionError::MetadataError(_) => NoDatacenter::Unreadable.to_string(),
        _ => "the driver opens no session".to_owned(),
    }
}

/// Why a node cannot be connected to any more: how connections are made is not what is wrong, as likely.
pub fn why_no_more(error: &ConnectionError) -> String {
    match why_no_connection(error) {
        setup if setup == BROKEN_SETUP => {
            "nodes take connections and close them at once: do they start or stop, or want \
                                           another login or TLS than before?"
                .to_owned()
        }
        other => other,
    }
}

/// Why a node cannot be connected to, in words of our own: those of others may hold what is secret.
pub fn why_no_connection(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ConnectTimeout => {
            "a node takes too long to connect to: is its machine on, and does a firewall drop what is sent to it?"
                .to_owned()
        }
        ConnectionError::IoError(error) => why_io(error),
        ConnectionError::BrokenConnection(error) => {
            let closed = "a node closed its connections, or they were cut: was it stopped?";
            why_broken(error).unwrap_or(closed).to_owned()
        }
        ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError | DbError::Unauthorized, _) => {
                "the cluster refuses this login: check items.cql.username and items.cql.password".to_owned()
            }
            ConnectionSetupRequestErrorKind::MissingAuthentication => {
                "the cluster asks for a login: set items.cql.username and items.cql.password".to_owned()
            }
            ConnectionSetupRequestErrorKind::BrokenConnection(error) => {
                why_broken(error).unwrap_or(BROKEN_SETUP).to_owned()
            }
            ConnectionSetupRequestErrorKind::DbError(..) => "a node refuses the connection".to_owned(),
            _ => NOT_CQL.to_owned(),
        },
        _ => "no connection to the cluster".to_owned(),
    }
}

/// Why a connection ended, if its other end did not close it.
fn why_broken(error: &BrokenConnectionError) -> Option<&'static str> {
    match error.downcast_ref::<BrokenConnectionErrorKind>()? {
        BrokenConnectionErrorKind::KeepaliveTimeout(_) | BrokenConnectionErrorKind::TooManyOrphanedStreamIds(_) => {
            Some("a node takes connections and does not answer: is its process frozen, or the machine overloaded?")
        }
        _ => None,
    }
}

pub const NOT_CQL: &str = "what listens there does not speak CQL version 4";
pub const BROKEN_SETUP: &str = "a node closed the connection at once: if it wants TLS, set items.cql.tls.ca_file, and if it \
                            wants a certificate of ours, items.cql.tls.cert_file and key_file";

pub fn why_io(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("a node's certificate is not accepted: {}", why_no_certificate(why))
        }
        Some(rustls::Error::AlertReceived(alert)) => format!(
            "a node refuses our side of TLS ({alert:?}): check items.cql.tls.cert_file and items.cql.tls.key_file"
        ),
        Some(_) => "a node does not speak TLS, or not ours".to_owned(),
        None => format!("no connection to the cluster: {}", error.kind()),
    }
}

fn why_no_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => {
            "the authority that signed it is not among those of items.cql.tls.ca_file".to_owned()
        }
        CertificateError::NotValidForName => NAMES_ANOTHER.to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } => {
            format!("{NAMES_ANOTHER} (it names {})", presented.join(", "))
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired, or this machine's clock is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet, or this machine's clock is wrong".to_owned()
        }
        other => format!("it cannot be checked against items.cql.tls.ca_file ({other:?})"),
    }
}

const NAMES_ANOTHER: &str = "it names neither the node's address nor what was expected; set items.cql.tls.server_name to \
                             what nodes' certificates name";
