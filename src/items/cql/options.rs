//! The options of the CQL store, and their checks. This module must never read settings or connect to anything.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use scylla::client::Compression as DriverCompression;
use scylla::statement::Consistency as DriverConsistency;
use uuid::Uuid;

use super::OpenError;
use super::ttl::ROW_TTL_SECS_MAX;

/// The least time after which writes are settled: operations in the background take so long at most.
pub const SETTLED_AFTER_MIN: Duration = Duration::from_secs(10);

/// Options of a [`CqlStore`](super::CqlStore), of a migration and of an inspection.
#[derive(Debug, Clone)]
pub struct CqlOptions {
    /// `host:port` of some nodes; the others are learnt from these. At least one.
    pub contact_points: Vec<String>,
    pub dialect: DialectChoice,
    pub keyspace: String,
    /// The datacenter whose nodes are asked, and where `migrate` puts replicas. May be left out
    /// where the cluster has one datacenter.
    pub datacenter: Option<String>,
    /// The rack of that datacenter whose replicas are asked first.
    pub rack: Option<String>,
    /// Replicas by datacenter, for the keyspace that `migrate` creates. Empty: `replication_factor` in
    /// our datacenter alone.
    pub replication: Vec<(String, u32)>,
    /// Replicas in that datacenter, for the keyspace that `migrate` creates.
    pub replication_factor: u32,
    pub tablets: TabletsChoice,
    pub read_consistency: Consistency,
    pub write_consistency: Consistency,
    /// The table's safeguard TTL, for rows that other programs write without one.
    pub default_ttl_secs: u32,
    pub credentials: Option<Credentials>,
    pub tls: Option<CqlTls>,
    /// The most requests that one session has with the cluster at once. At least 1.
    pub permits: usize,
    /// How long an operation waits for one of those to end before it is refused.
    pub permit_wait: Duration,
    /// A read that has not answered after this long is also sent to another node. `None`: reads
    /// are sent twice only when a node seems to hang.
    pub speculative_after: Option<Duration>,
    /// How far the clocks of two servers may be apart: removals are acknowledged so much later that no
    /// later add is hidden by them. At most five seconds.
    pub clock_skew_max: Duration,
    /// How long ago a write must have begun to be acknowledged by now, or never: longer than any operation takes.
    pub settled_after: Duration,
    /// Whether the port of ScyllaDB that picks the shard by the client's port is left alone.
    pub disallow_shard_aware_port: bool,
    pub compression: Compression,
    /// Nodes, and where this server reaches them instead of at their own addresses.
    pub address_translation: Vec<(TranslatedNode, SocketAddr)>,
    /// Write timestamps further than this ahead of our clock are warned of.
    pub clock_skew_warn: Duration,
}

impl Default for CqlOptions {
    fn default() -> Self {
        Self {
            contact_points: Vec::new(),
            dialect: DialectChoice::Auto,
            keyspace: "liststore".into(),
            datacenter: None,
            rack: None,
            replication: Vec::new(),
            replication_factor: 3,
            tablets: TabletsChoice::Auto,
            read_consistency: Consistency::LocalQuorum,
            write_consistency: Consistency::LocalQuorum,
            default_ttl_secs: 30 * 86_400,
            credentials: None,
            tls: None,
            permits: 64,
            permit_wait: Duration::from_millis(200),
            speculative_after: None,
            clock_skew_max: Duration::from_millis(10),
            settled_after: SETTLED_AFTER_MIN,
            disallow_shard_aware_port: false,
            compression: Compression::None,
            address_translation: Vec::new(),
            clock_skew_warn: Duration::from_secs(1),
        }
    }
}

impl CqlOptions {
    /// Cassandra's `SchemaConstants.NAME_LENGTH`.
    const KEYSPACE_CHARS_MAX: usize = 48;

    /// Refuses values that must not become part of a statement: the schema's statements contain keyspaces and
    /// datacenters as text, because they cannot bind values.
    pub(super) fn validate(&self) -> Result<(), OpenError> {
        if self.contact_points.is_empty() {
            return Err(OpenError::Option { option: "contact_points", problem: "at least one host:port is needed" });
        }
        let keyspace = &self.keyspace;
        let well_formed = keyspace.len() <= Self::KEYSPACE_CHARS_MAX
            && keyspace.starts_with(|c: char| c.is_ascii_alphabetic())
            && keyspace.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !well_formed {
            let problem = "must be 1 to 48 characters of A-Z a-z 0-9 _, a letter first";
            return Err(OpenError::Option { option: "keyspace", problem });
        }
        if self.datacenter.as_ref().is_some_and(|name| name.is_empty() || name.contains(|c: char| c.is_control())) {
            return Err(OpenError::Option { option: "datacenter", problem: "must be a datacenter name" });
        }
        if self.replication.iter().any(|(name, _)| name.is_empty() || name.contains(|c: char| c.is_control())) {
            return Err(OpenError::Option { option: "replication", problem: "must name datacenters" });
        }
        if self.replication_factor == 0 {
            return Err(OpenError::Option { option: "replication_factor", problem: "must be at least 1" });
        }
        if self.default_ttl_secs == 0 || i64::from(self.default_ttl_secs) > i64::from(ROW_TTL_SECS_MAX) {
            return Err(OpenError::Option { option: "default_ttl_secs", problem: "must be 1 to 630720000" });
        }
        Ok(())
    }

    /// Replicas by datacenter of the keyspace that `migrate` creates, where `datacenter` is ours.
    pub(super) fn replicas(&self, datacenter: &str) -> Vec<(String, u32)> {
        match self.replication.as_slice() {
            [] => vec![(datacenter.to_owned(), self.replication_factor)],
            named => named.to_vec(),
        }
    }
}

/// A node whose address is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TranslatedNode {
    /// The address that the cluster's tables have of it. They have no port.
    Address(IpAddr),
    /// Its host ID, which stays when its address changes.
    HostId(Uuid),
}

/// A user and a password. `Debug` shows neither's secret part.
#[derive(Clone)]
pub struct Credentials {
    pub username: String,
    pub password: Password,
}

#[derive(Clone)]
pub enum Password {
    Given(String),
    /// The file that holds it, which is read for each new connection.
    File(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// TLS to the cluster: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlTls {
    /// The certificates that the nodes' certificates are checked against.
    pub ca_file: PathBuf,
    /// Names of which a node's certificate must have one. Empty: it must name the node's address, or the
    /// name of a contact point.
    pub server_names: Vec<String>,
    /// Our certificate chain and its key, where the cluster asks for one.
    pub client: Option<ClientCertificate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialectChoice {
    /// Detected from the nodes' messages.
    Auto,
    Scylla,
    Cassandra,
}

/// Whether `migrate` creates the keyspace with ScyllaDB's tablets. Cassandra has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TabletsChoice {
    /// As the cluster does by default.
    Auto,
    Enabled,
    Disabled,
}

/// How frames are compressed on their way to and from the nodes, if those know how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Lz4,
    Snappy,
}

impl Compression {
    pub(super) fn of_driver(self) -> Option<DriverCompression> {
        match self {
            Self::None => None,
            Self::Lz4 => Some(DriverCompression::Lz4),
            Self::Snappy => Some(DriverCompression::Snappy),
        }
    }
}

/// Consistency levels that both reads and writes may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    LocalOne,
}

impl Consistency {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::One => "ONE",
            Self::Two => "TWO",
            Self::Three => "THREE",
            Self::Quorum => "QUORUM",
            Self::All => "ALL",
            Self::LocalQuorum => "LOCAL_QUORUM",
            Self::EachQuorum => "EACH_QUORUM",
            Self::LocalOne => "LOCAL_ONE",
        }
    }

    /// How many replicas of one datacenter must answer, of `replicas` that it has.
    pub(super) fn needs_of(self, replicas: u32) -> u32 {
        match self {
            Self::One | Self::LocalOne => 1,
            Self::Two => 2,
            Self::Three => 3,
            Self::Quorum | Self::LocalQuorum | Self::EachQuorum => replicas / 2 + 1,
            Self::All => replicas,
        }
    }

    /// Whether it asks for replicas of our datacenter alone.
    pub(super) fn is_local(self) -> bool {
        matches!(self, Self::LocalQuorum | Self::LocalOne)
    }

    pub(super) fn of_driver(self) -> DriverConsistency {
        match self {
            Self::One => DriverConsistency::One,
            Self::Two => DriverConsistency::Two,
            Self::Three => DriverConsistency::Three,
            Self::Quorum => DriverConsistency::Quorum,
            Self::All => DriverConsistency::All,
            Self::LocalQuorum => DriverConsistency::LocalQuorum,
            Self::EachQuorum => DriverConsistency::EachQuorum,
            Self::LocalOne => DriverConsistency::LocalOne,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CqlOptions {
        CqlOptions { contact_points: vec!["127.0.0.1:9042".into()], ..CqlOptions::default() }
    }

    #[test]
    fn names_that_could_change_a_statement_are_refused() {
        assert!(options().validate().is_ok());
        for keyspace in ["", "1a", "a-b", "a\"b", "a;b", "é", &"x".repeat(49)] {
            assert!(CqlOptions { keyspace: keyspace.into(), ..options() }.validate().is_err(), "{keyspace:?}");
        }
        for ttl in [0, 630_720_001] {
            assert!(CqlOptions { default_ttl_secs: ttl, ..options() }.validate().is_err(), "{ttl}");
        }
        assert!(CqlOptions { replication_factor: 0, ..options() }.validate().is_err());
        assert!(CqlOptions { datacenter: Some("a\nb".into()), ..options() }.validate().is_err());
        assert!(CqlOptions { contact_points: vec![], ..options() }.validate().is_err());
    }

    #[test]
    fn a_password_is_never_shown() {
        let credentials = Credentials { username: "me".into(), password: Password::Given("hush".into()) };
        let shown = format!("{:?}", CqlOptions { credentials: Some(credentials), ..options() });
        assert!(shown.contains("me") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn quorums_are_majorities() {
        assert_eq!([1, 2, 3, 5].map(|n| Consistency::LocalQuorum.needs_of(n)), [1, 2, 2, 3]);
        assert_eq!(Consistency::All.needs_of(3), 3);
        assert_eq!(Consistency::LocalOne.needs_of(3), 1);
    }
}
