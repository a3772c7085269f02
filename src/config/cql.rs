//! Settings of ScyllaDB and Cassandra.

use std::path::PathBuf;

use serde::Serialize;

use super::choices::{Compression, Consistency, Dialect, Tablets};
use super::forms::{HOUR_MS, TTL_SECS_MAX, keyspace, replicas, server_name, translation};
use super::reader::{Reader, boolean, choice, host_port, list, number, path, secret, some, text};
use super::section::section;
use super::texts::{AddressTranslation, HostPort, Replicas, Secret};

const CQL_PORT: u16 = 9042;

section! {
    CqlSettings "items.cql."
    contact_points: Vec<HostPort> = Vec::new(), list(host_port(Some(CQL_PORT)));
    dialect: Dialect = Dialect::Auto, choice;
    keyspace: String = "liststore".into(), keyspace;
    datacenter: Option<String> = None, some(text);
    rack: Option<String> = None, some(text);
    /// Replicas of a new keyspace by datacenter; empty: `replication_factor` in `datacenter`.
    replication: Vec<Replicas> = Vec::new(), list(replicas);
    replication_factor: u32 = 3, number(1..=100);
    tablets: Tablets = Tablets::Auto, choice;
    read_consistency: Consistency = Consistency::LocalQuorum, choice;
    write_consistency: Consistency = Consistency::LocalQuorum, choice;
    // A default TTL of 0 would mean that rows never expire: it is not a safeguard, and refused.
    default_ttl_secs: u32 = 30 * 86_400, number(1..=TTL_SECS_MAX);
    /// Unset: reads are never sent a second time before the first has answered.
    speculative_after_ms: Option<u64> = None, some(number(1..=HOUR_MS));
    clock_skew_max_ms: u64 = 10, number(0..=1_000);
    compression: Compression = Compression::None, choice;
    disallow_shard_aware_port: bool = false, boolean;
    address_translation: Vec<AddressTranslation> = Vec::new(), list(translation);
    clock_skew_warn_ms: u64 = 1_000, number(1..=HOUR_MS);
    username: Option<String> = None, some(text);
    password: Option<Secret> = None, some(secret);
    /// Instead of `password`; read again for each new connection.
    password_file: Option<PathBuf> = None, some(path);
    { tls: CqlTlsSettings, }
}

section! {
    /// TLS is used if and only if `ca_file` is set.
    CqlTlsSettings "items.cql.tls."
    ca_file: Option<PathBuf> = None, some(path);
    /// Names that nodes' certificates may have instead of their addresses.
    server_name: Vec<String> = Vec::new(), list(server_name);
    cert_file: Option<PathBuf> = None, some(path);
    key_file: Option<PathBuf> = None, some(path);
}
