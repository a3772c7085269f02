//! Settings: their keys and defaults, and reading them from the configuration file, the environment and the command
//! line.
//!
//! Every bound of the product is a key here, with its unit in the name, and is checked once at the start. Only `app`
//! and `cli` read settings: a store takes a separate options struct. This module must never open, create or connect to
//! anything that a setting names.

mod access;
mod choices;
mod layers;
mod machine;
mod reader;
mod rules;
mod texts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::domain::{AccessLog, AheadMax};
use reader::{Reader, choice};

pub use access::{
    AccessSettings, CertificateSettings, ConsoleToken, IssuerSettings, JwtSettings, KeySettings, RateLimitSettings,
    RuleSettings,
};
pub use choices::{
    AccessMode, ClientAuth, Compression, Consistency, Dialect, Fsync, ItemStoreKind, LogFormat, MetadataStoreKind,
    MetricsAccess, Tablets,
};
pub use layers::{Flag, Layers};
pub use machine::FILES_BESIDE_CONNECTIONS;
pub use texts::{AddressTranslation, HostPort, NodeName, Replicas, Secret};

/// All settings, valid together. Serialised as the TOML that loads back to the same, with secrets
/// masked.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Settings {
    pub http: HttpSettings,
    pub admin: AdminSettings,
    pub items: ItemsSettings,
    pub metadata: MetadataSettings,
    pub access: AccessSettings,
    pub log: LogSettings,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HttpSettings {
    /// Port 0 picks a free one.
    pub listen: HostPort,
    pub workers: usize,
    pub body_bytes_max: usize,
    pub response_bytes_max: usize,
    pub compression_bytes_min: usize,
    pub connections_max: usize,
    pub buffered_bytes_max: usize,
    pub body_timeout_secs: u64,
    pub socket_wait_ms: u64,
    /// Such as `https://lists.example.org`, in lower case and without the scheme's own port.
    pub allowed_origins: Vec<String>,
    pub drain_delay_secs: u64,
    /// Names without ports, in lower case.
    pub allowed_hosts: Vec<String>,
    pub shutdown_grace_secs: u64,
    pub tls: HttpTlsSettings,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AdminSettings {
    /// Unset: health, metrics and the pool are served at `http.listen`. Port 0 picks a free one.
    pub listen: Option<HostPort>,
}

/// TLS is used if and only if `certificate_file` is set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HttpTlsSettings {
    pub certificate_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub client_ca_file: Option<PathBuf>,
    pub client_crl_file: Option<PathBuf>,
    pub client_files_age_max_secs: u64,
    pub client_auth: ClientAuth,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemsSettings {
    pub store: ItemStoreKind,
    pub actors: usize,
    pub permits_per_actor: usize,
    pub permit_wait_ms: u64,
    pub operation_timeout_ms: u64,
    pub timestamp_ahead_max: AheadMax,
    pub aggregate_items_max: u64,
    pub embedded: EmbeddedSettings,
    pub cql: CqlSettings,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmbeddedSettings {
    pub dir: PathBuf,
    pub fsync: Fsync,
    pub fsync_interval_ms: u64,
    pub erase_within_secs: u64,
    pub cache_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CqlSettings {
    pub contact_points: Vec<HostPort>,
    pub dialect: Dialect,
    pub keyspace: String,
    pub datacenter: Option<String>,
    pub rack: Option<String>,
    /// Replicas of a new keyspace by datacenter; empty: `replication_factor` in `datacenter`.
    pub replication: Vec<Replicas>,
    pub replication_factor: u32,
    pub tablets: Tablets,
    pub read_consistency: Consistency,
    pub write_consistency: Consistency,
    pub default_ttl_secs: u32,
    /// Unset: reads are never sent a second time before the first has answered.
    pub speculative_after_ms: Option<u64>,
    pub clock_skew_max_ms: u64,
    pub compression: Compression,
    pub disallow_shard_aware_port: bool,
    pub address_translation: Vec<AddressTranslation>,
    pub clock_skew_warn_ms: u64,
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// Instead of `password`; read again for each new connection.
    pub password_file: Option<PathBuf>,
    pub tls: CqlTlsSettings,
}

/// TLS is used if and only if `ca_file` is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CqlTlsSettings {
    pub ca_file: Option<PathBuf>,
    /// Names that nodes' certificates may have instead of their addresses.
    pub server_name: Vec<String>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetadataSettings {
    pub store: MetadataStoreKind,
    pub poll_interval_secs: u64,
    pub calls_max: usize,
    pub call_timeout_ms: u64,
    pub retry_delay_max_ms: u64,
    pub look_ups_max: u32,
    pub look_up_interval_ms: u64,
    /// `None`: the catalog is not stored on disk.
    pub snapshot_dir: Option<PathBuf>,
    pub snapshot_age_max_secs: u64,
    pub postgres: PostgresSettings,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PostgresSettings {
    /// May hold a password, which its `Debug` and `Serialize` mask.
    pub url: Option<Secret>,
    /// Instead of `url`; read again for each new connection.
    pub url_file: Option<PathBuf>,
    pub connections_max: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogSettings {
    pub format: LogFormat,
    /// In the syntax of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    #[serde(serialize_with = "shown")]
    pub access: AccessLog,
    pub access_lines_per_second_max: u32,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: HostPort::new("127.0.0.1", 8080),
            workers: machine::cores(),
            body_bytes_max: 2 << 20,
            response_bytes_max: 4 << 20,
            compression_bytes_min: 8 << 10,
            connections_max: machine::connections(),
            buffered_bytes_max: (machine::memory_bytes() / 16).max(64 << 20),
            body_timeout_secs: 30,
            socket_wait_ms: 50,
            allowed_origins: Vec::new(),
            drain_delay_secs: 0,
            allowed_hosts: Vec::new(),
            shutdown_grace_secs: 20,
            tls: HttpTlsSettings {
                certificate_file: None,
                key_file: None,
                client_ca_file: None,
                client_crl_file: None,
                client_files_age_max_secs: 86_400,
                client_auth: ClientAuth::None,
            },
        }
    }
}

impl Default for ItemsSettings {
    fn default() -> Self {
        Self {
            store: ItemStoreKind::Embedded,
            actors: machine::cores(),
            permits_per_actor: 512,
            permit_wait_ms: 50,
            operation_timeout_ms: 2_000,
            timestamp_ahead_max: AheadMax::DAY,
            aggregate_items_max: 100_000,
            embedded: EmbeddedSettings::default(),
            cql: CqlSettings::default(),
        }
    }
}

impl ItemsSettings {
    /// Permits, and the wait for them, if they limit requests to a cluster. docs/contributing/cql.md has the
    /// measurements: nodes of a cluster pause for longer than the embedded store does.
    pub(super) const CQL_PERMITS: (usize, u64) = (64, 200);
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        Self {
            dir: "liststore-data".into(),
            fsync: Fsync::Group,
            fsync_interval_ms: 1_000,
            erase_within_secs: 86_400,
            cache_bytes: machine::memory_bytes() / 8,
        }
    }
}

impl Default for CqlSettings {
    fn default() -> Self {
        Self {
            contact_points: Vec::new(),
            dialect: Dialect::Auto,
            keyspace: "liststore".into(),
            datacenter: None,
            rack: None,
            replication: Vec::new(),
            replication_factor: 3,
            tablets: Tablets::Auto,
            read_consistency: Consistency::LocalQuorum,
            write_consistency: Consistency::LocalQuorum,
            default_ttl_secs: 30 * 86_400,
            speculative_after_ms: None,
            clock_skew_max_ms: 10,
            compression: Compression::None,
            disallow_shard_aware_port: false,
            address_translation: Vec::new(),
            clock_skew_warn_ms: 1_000,
            username: None,
            password: None,
            password_file: None,
            tls: CqlTlsSettings::default(),
        }
    }
}

impl Default for MetadataSettings {
    fn default() -> Self {
        Self {
            store: MetadataStoreKind::Embedded,
            poll_interval_secs: 5,
            calls_max: 64,
            call_timeout_ms: 2_800,
            retry_delay_max_ms: 2_000,
            look_ups_max: 5,
            look_up_interval_ms: 200,
            snapshot_dir: None,
            snapshot_age_max_secs: 86_400,
            postgres: PostgresSettings::default(),
        }
    }
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self { url: None, url_file: None, connections_max: 5 }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            filter: "info".into(),
            access: AccessLog::Off,
            access_lines_per_second_max: 1_000,
        }
    }
}

fn shown<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Valid settings, and the sources of changed ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub settings: Settings,
    /// Key to source, for the keys that were set: `http.listen` to `flag --listen`.
    pub origins: BTreeMap<String, String>,
}

/// One mistake in the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} ({origin}): {problem}")]
pub struct SettingError {
    pub key: String,
    /// The file, environment variable or flag to blame; or `not set`.
    pub origin: String,
    pub problem: String,
}

impl Settings {
    /// Reads the settings of this process: defaults < file < environment < flags.
    ///
    /// Answers with all mistakes at once, in the order of the keys.
    pub fn load(config_file: Option<&Path>, flags: &[Flag]) -> Result<Loaded, Vec<SettingError>> {
        let layers = Layers { config_file, environment: layers::process_environment(), flags };
        Self::load_from(&layers)
    }

    /// [`Self::load`] with the environment given.
    pub fn load_from(layers: &Layers<'_>) -> Result<Loaded, Vec<SettingError>> {
        let mut reader = Reader::new(layers::merge(layers)?);
        let mut settings = Self::default();
        rules::read(&mut settings, &mut reader);
        rules::check(&settings, &mut reader);
        let origins = reader.finish()?;
        Ok(Loaded { settings, origins })
    }

    /// The log format of these layers, if it can be determined, for reporting their mistakes.
    pub fn log_format(config_file: Option<&Path>, flags: &[Flag]) -> LogFormat {
        let layers = Layers { config_file, environment: layers::process_environment(), flags };
        let mut format = LogFormat::Auto;
        if let Ok(merged) = layers::merge(&layers) {
            Reader::new(merged).read("log.format", &mut format, choice);
        }
        format
    }

    /// The settings as TOML that loads back to the same, with secrets masked.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Settings that are allowed but rarely intended: one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        rules::warnings(self)
    }
}
