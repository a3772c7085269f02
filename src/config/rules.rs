//! Every key with its bounds, and the rules between keys.

use super::reader::{
    Raw, Reader, boolean, bytes, choice, host_port, list, number, pair, path, secret, shown, some, tables, text,
};
use super::{
    AccessMode, AddressTranslation, CertificateSettings, ClientAuth, Consistency, CqlSettings, Dialect, HttpSettings,
    IssuerSettings, ItemStoreKind, ItemsSettings, MetadataStoreKind, NodeName, Replicas, Settings,
};
use crate::access::Budget;
use crate::domain::{AccessLog, AheadMax, Rate};

const CQL_PORT: u16 = 9042;
/// The maximum of Cassandra and ScyllaDB (Cassandra's `Attributes.MAX_TTL`): 20 years.
const TTL_SECS_MAX: u64 = 630_720_000;
/// Cassandra's `SchemaConstants.NAME_LENGTH`.
const KEYSPACE_CHARS_MAX: usize = 48;
const HOUR_MS: u64 = 3_600_000;

/// Reads every key that exists.
pub(super) fn read(settings: &mut Settings, reader: &mut Reader) {
    read_http(&mut settings.http, reader);
    reader.read("admin.listen", &mut settings.admin.listen, some(host_port(None)));
    read_items(&mut settings.items, reader);
    read_cql(&mut settings.items.cql, reader);
    let metadata = &mut settings.metadata;
    reader.read("metadata.store", &mut metadata.store, choice);
    reader.read("metadata.poll_interval_secs", &mut metadata.poll_interval_secs, number(1..=3_600));
    reader.read("metadata.calls_max", &mut metadata.calls_max, number(1..=100_000));
    reader.read("metadata.call_timeout_ms", &mut metadata.call_timeout_ms, number(100..=60_000));
    reader.read("metadata.retry_delay_max_ms", &mut metadata.retry_delay_max_ms, number(100..=60_000));
    reader.read("metadata.look_ups_max", &mut metadata.look_ups_max, number(1..=1_000));
    reader.read("metadata.look_up_interval_ms", &mut metadata.look_up_interval_ms, number(1..=60_000));
    reader.read("metadata.snapshot_dir", &mut metadata.snapshot_dir, some(path));
    reader.read("metadata.snapshot_age_max_secs", &mut metadata.snapshot_age_max_secs, number(1..=31_536_000));
    reader.read("metadata.postgres.url", &mut metadata.postgres.url, some(secret));
    reader.read("metadata.postgres.url_file", &mut metadata.postgres.url_file, some(path));
    reader.read("metadata.postgres.connections_max", &mut metadata.postgres.connections_max, number(2..=1_000));
    reader.read("access.mode", &mut settings.access.mode, choice);
    reader.read("access.metrics", &mut settings.access.metrics, choice);
    reader.read("access.insecure", &mut settings.access.insecure, boolean);
    reader.read("access.bootstrap_key_file", &mut settings.access.bootstrap_key_file, some(path));
    let limits = &mut settings.access.rate_limits;
    let rate = || some(number(1..=u64::from(Rate::MAX)));
    reader.read("access.rate_limits.requests_per_second", &mut limits.requests_per_second, rate());
    reader.read("access.rate_limits.requests_burst", &mut limits.requests_burst, rate());
    reader.read("access.rate_limits.items_per_second", &mut limits.items_per_second, rate());
    reader.read("access.rate_limits.items_burst", &mut limits.items_burst, rate());
    reader.read("access.rate_limits.operations_percent", &mut limits.operations_percent, some(number(1..=100)));
    let lifetime_max = &mut settings.access.keys.lifetime_max_secs;
    reader.read("access.keys.lifetime_max_secs", lifetime_max, number(1..=TTL_SECS_MAX));
    reader.read("access.jwt.issuers", &mut settings.access.jwt.issuers, tables(IssuerSettings::check));
    reader.read("access.jwt.refresh_secs", &mut settings.access.jwt.refresh_secs, number(10..=86_400));
    reader.read("access.jwt.keys_age_max_secs", &mut settings.access.jwt.keys_age_max_secs, number(11..=31_536_000));
    reader.read("access.certificates", &mut settings.access.certificates, tables(CertificateSettings::check));
    reader.read("log.format", &mut settings.log.format, choice);
    reader.read("log.filter", &mut settings.log.filter, |raw| {
        let filter = text(raw)?;
        let checked = crate::telemetry::check_filter(&filter);
        checked.map(|()| filter).map_err(|e| format!("must be such as info or liststore=debug,warn: {e}"))
    });
    reader.read("log.access", &mut settings.log.access, |raw| {
        AccessLog::parse(&text(raw)?).map_err(|e| format!("{e}, not {}", shown(raw)))
    });
    reader.read(
        "log.access_lines_per_second_max",
        &mut settings.log.access_lines_per_second_max,
        number(1..=1_000_000),
    );
}

fn read_http(http: &mut HttpSettings, reader: &mut Reader) {
    reader.read("http.listen", &mut http.listen, host_port(None));
    // The HTTP server accepts no more.
    reader.read("http.workers", &mut http.workers, number(1..=512));
    reader.read("http.body_bytes_max", &mut http.body_bytes_max, bytes(1 << 10..=1 << 30));
    reader.read("http.response_bytes_max", &mut http.response_bytes_max, bytes(1 << 10..=1 << 30));
    reader.read("http.compression_bytes_min", &mut http.compression_bytes_min, bytes(1 << 10..=1 << 30));
    reader.read("http.connections_max", &mut http.connections_max, number(1..=1_000_000));
    http.buffered_bytes_max = http.buffered_bytes_max.max(buffered_bytes_min(http));
    reader.read("http.buffered_bytes_max", &mut http.buffered_bytes_max, bytes(4 << 10..=1 << 46));
    reader.read("http.body_timeout_secs", &mut http.body_timeout_secs, number(1..=3_600));
    reader.read("http.socket_wait_ms", &mut http.socket_wait_ms, number(10..=60_000));
    reader.read("http.allowed_origins", &mut http.allowed_origins, list(origin));
    reader.read("http.drain_delay_secs", &mut http.drain_delay_secs, number(0..=3_600));
    reader.read("http.allowed_hosts", &mut http.allowed_hosts, list(host_name));
    reader.read("http.shutdown_grace_secs", &mut http.shutdown_grace_secs, number(1..=3_600));
    let tls = &mut http.tls;
    reader.read("http.tls.certificate_file", &mut tls.certificate_file, some(path));
    reader.read("http.tls.key_file", &mut tls.key_file, some(path));
    reader.read("http.tls.client_ca_file", &mut tls.client_ca_file, some(path));
    reader.read("http.tls.client_crl_file", &mut tls.client_crl_file, some(path));
    let age_max = &mut tls.client_files_age_max_secs;
    reader.read("http.tls.client_files_age_max_secs", age_max, number(1..=31_536_000));
    reader.read("http.tls.client_auth", &mut tls.client_auth, choice);
}

/// `https://lists.example.org`, as browsers write it: without default parts.
fn origin(raw: &Raw) -> Result<String, String> {
    let text = text(raw)?.to_ascii_lowercase();
    let written = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(authority), _) => Some(("http://", authority, ":80")),
        (_, Some(authority)) => Some(("https://", authority, ":443")),
        _ => None,
    };
    let is_host = |authority: &str| authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
    match written {
        Some((scheme, authority, port)) if !authority.is_empty() && is_host(authority) => {
            Ok(format!("{scheme}{}", authority.strip_suffix(port).unwrap_or(authority)))
        }
        _ => Err(format!("must be origins such as https://lists.example.org, without a path, not {text:?}")),
    }
}

/// `lists.example.org`, without a port: a name is the server's on all of them. `*` is any name.
fn host_name(raw: &Raw) -> Result<String, String> {
    let text = text(raw)?.to_ascii_lowercase();
    let well_formed = text == "*" || text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    if well_formed {
        Ok(text)
    } else {
        Err(format!("must be names such as lists.example.org, without a port, or * for any name, not {text:?}"))
    }
}

fn ahead_max(raw: &Raw) -> Result<AheadMax, String> {
    let text = text(raw)?;
    AheadMax::parse(&text).map_err(|_| format!("must be none, or a duration from 1s to 7300d such as 1d, not {text:?}"))
}

fn read_items(items: &mut ItemsSettings, reader: &mut Reader) {
    reader.read("items.store", &mut items.store, choice);
    reader.read("items.actors", &mut items.actors, number(1..=1_024));
    if items.store == ItemStoreKind::Cql {
        (items.permits_per_actor, items.permit_wait_ms) = ItemsSettings::CQL_PERMITS;
    }
    reader.read("items.permits_per_actor", &mut items.permits_per_actor, number(1..=1_000_000));
    reader.read("items.permit_wait_ms", &mut items.permit_wait_ms, number(0..=60_000));
    reader.read("items.operation_timeout_ms", &mut items.operation_timeout_ms, number(1..=HOUR_MS));
    reader.read("items.timestamp_ahead_max", &mut items.timestamp_ahead_max, ahead_max);
    reader.read("items.aggregate_items_max", &mut items.aggregate_items_max, number(1..=10_000_000));
    let embedded = &mut items.embedded;
    reader.read("items.embedded.dir", &mut embedded.dir, path);
    reader.read("items.embedded.fsync", &mut embedded.fsync, choice);
    reader.read("items.embedded.erase_within_secs", &mut embedded.erase_within_secs, number(60..=30 * 86_400));
    reader.read("items.embedded.fsync_interval_ms", &mut embedded.fsync_interval_ms, number(1..=HOUR_MS));
    reader.read("items.embedded.cache_bytes", &mut embedded.cache_bytes, bytes(4 << 20..=1 << 46));
}

fn read_cql(cql: &mut CqlSettings, reader: &mut Reader) {
    reader.read("items.cql.contact_points", &mut cql.contact_points, list(host_port(Some(CQL_PORT))));
    reader.read("items.cql.dialect", &mut cql.dialect, choice);
    reader.read("items.cql.keyspace", &mut cql.keyspace, |raw| keyspace(text(raw)?));
    reader.read("items.cql.datacenter", &mut cql.datacenter, some(text));
    reader.read("items.cql.rack", &mut cql.rack, some(text));
    reader.read("items.cql.replication", &mut cql.replication, list(replicas));
    reader.read("items.cql.replication_factor", &mut cql.replication_factor, number(1..=100));
    reader.read("items.cql.tablets", &mut cql.tablets, choice);
    reader.read("items.cql.read_consistency", &mut cql.read_consistency, choice);
    reader.read("items.cql.write_consistency", &mut cql.write_consistency, choice);
    // A default TTL of 0 would mean that rows never expire: it is no safeguard, and refused.
    reader.read("items.cql.default_ttl_secs", &mut cql.default_ttl_secs, number(1..=TTL_SECS_MAX));
    reader.read("items.cql.speculative_after_ms", &mut cql.speculative_after_ms, some(number(1..=HOUR_MS)));
    reader.read("items.cql.clock_skew_max_ms", &mut cql.clock_skew_max_ms, number(0..=1_000));
    reader.read("items.cql.compression", &mut cql.compression, choice);
    reader.read("items.cql.disallow_shard_aware_port", &mut cql.disallow_shard_aware_port, boolean);
    reader.read("items.cql.address_translation", &mut cql.address_translation, list(translation));
    reader.read("items.cql.clock_skew_warn_ms", &mut cql.clock_skew_warn_ms, number(1..=HOUR_MS));
    reader.read("items.cql.username", &mut cql.username, some(text));
    reader.read("items.cql.password", &mut cql.password, some(secret));
    reader.read("items.cql.password_file", &mut cql.password_file, some(path));
    reader.read("items.cql.tls.ca_file", &mut cql.tls.ca_file, some(path));
    reader.read("items.cql.tls.server_name", &mut cql.tls.server_name, list(server_name));
    reader.read("items.cql.tls.cert_file", &mut cql.tls.cert_file, some(path));
    reader.read("items.cql.tls.key_file", &mut cql.tls.key_file, some(path));
}

/// `dc1:3`: a datacenter and its replicas.
fn replicas(raw: &Raw) -> Result<Replicas, String> {
    let read = pair(':', "dc1:3", text, |raw| number(1..=100)(raw));
    read(raw).map(|(datacenter, replicas)| Replicas { datacenter, replicas })
}

/// `10.0.0.1=203.0.113.7:19042`: a node, and where it is reached.
fn translation(raw: &Raw) -> Result<AddressTranslation, String> {
    let node = |raw: &Raw| {
        let text = text(raw)?;
        NodeName::parse(&text).ok_or_else(|| {
            format!("must begin with the IP address or host ID of a node, as in {TRANSLATION}, not {text:?}")
        })
    };
    let reached = |raw: &Raw| {
        let text = text(raw)?;
        text.parse().map_err(|_| format!("must end with an address and a port, as in {TRANSLATION}, not {text:?}"))
    };
    let read = pair('=', TRANSLATION, node, reached);
    read(raw).map(|(node, reached)| AddressTranslation { node, reached })
}

const TRANSLATION: &str = "10.0.0.1=203.0.113.7:19042";

fn server_name(raw: &Raw) -> Result<String, String> {
    let name = text(raw)?;
    match rustls::pki_types::ServerName::try_from(name.as_str()) {
        Ok(_) => Ok(name),
        Err(_) => Err(format!("must be a host name or an IP address without a port, not {name:?}")),
    }
}

fn keyspace(name: String) -> Result<String, String> {
    let well_formed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if well_formed && name.len() <= KEYSPACE_CHARS_MAX && name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok(name);
    }
    Err(format!("must be 1 to {KEYSPACE_CHARS_MAX} characters of A-Z a-z 0-9 _, a letter first, not {name:?}"))
}

/// The minimum of `http.buffered_bytes_max` for the other settings.
fn buffered_bytes_min(http: &HttpSettings) -> usize {
    Budget::bytes_min(http.body_bytes_max, http.response_bytes_max)
}

fn check_http(http: &HttpSettings, reader: &mut Reader) {
    let HttpSettings { body_bytes_max, response_bytes_max, .. } = http;
    let least = buffered_bytes_min(http);
    if http.buffered_bytes_max < least {
        let problem = format!(
            "must be at least {least}, so that one caller has room for the largest body and answer: set more, or less in \
             http.body_bytes_max, which is {body_bytes_max}, or http.response_bytes_max, which is {response_bytes_max}"
        );
        reader.blame("http.buffered_bytes_max", problem);
    }
    let tls = &http.tls;
    match (&tls.certificate_file, &tls.key_file) {
        (Some(_), None) => reader.blame("http.tls.key_file", "is required with http.tls.certificate_file"),
        (None, Some(_)) => reader.blame("http.tls.certificate_file", "is required with http.tls.key_file"),
        _ => {}
    }
    if tls.client_crl_file.is_some() && tls.client_ca_file.is_none() {
        reader.blame("http.tls.client_ca_file", "is required with http.tls.client_crl_file");
    }
    match (tls.client_auth, &tls.client_ca_file) {
        (ClientAuth::None, Some(_)) => {
            reader.blame("http.tls.client_auth", "must be optional or required with http.tls.client_ca_file");
        }
        (ClientAuth::Optional | ClientAuth::Required, None) => {
            reader.blame("http.tls.client_ca_file", "is required because http.tls.client_auth asks for certificates");
        }
        (_, Some(_)) if tls.certificate_file.is_none() => {
            reader.blame("http.tls.certificate_file", "is required with http.tls.client_ca_file, to turn TLS on");
        }
        _ => {}
    }
}

fn check_access(settings: &Settings, reader: &mut Reader) {
    let access = &settings.access;
    if access.jwt.keys_age_max_secs <= access.jwt.refresh_secs {
        let problem = format!("must be more than access.jwt.refresh_secs, which is {}", access.jwt.refresh_secs);
        reader.blame("access.jwt.keys_age_max_secs", problem);
    }
    let issuers = &access.jwt.issuers;
    let is_alone = |n: usize| {
        // Without a label, an issuer could give its people the names of another issuer's people.
        let is_other = |other: &IssuerSettings| {
            let (issuer, label) = (&issuers[n].issuer, &issuers[n].label);
            label.is_some() && other.issuer != *issuer && other.label != *label
        };
        issuers.iter().enumerate().all(|(m, other)| m == n || is_other(other))
    };
    if let Some(n) = (0..issuers.len()).find(|n| !is_alone(*n)) {
        let problem = format!("[{n}]: with several issuers, each needs a distinct issuer and label");
        reader.blame("access.jwt.issuers", problem);
    }
    let limits = &access.rate_limits;
    for (burst, key, rate) in [
        (limits.requests_burst, "access.rate_limits.requests_per_second", limits.requests_per_second),
        (limits.items_burst, "access.rate_limits.items_per_second", limits.items_per_second),
    ] {
        if burst.is_some() && rate.is_none() {
            reader.blame(key, "is required with its burst");
        }
    }
    let others = [
        ("access.jwt.issuers", issuers.is_empty()),
        ("access.certificates", access.certificates.is_empty()),
        ("access.bootstrap_key_file", access.bootstrap_key_file.is_none()),
    ];
    for (key, is_empty) in others {
        if !is_empty && access.mode == AccessMode::Open {
            reader.blame(
                "access.mode",
                format!("must not be open with {key}, because an open server does not identify callers"),
            );
        }
    }
    if !access.certificates.is_empty() && settings.http.tls.client_auth == ClientAuth::None {
        reader.blame("http.tls.client_auth", "must be optional or required with access.certificates");
    }
}

/// Blames settings that do not go together.
pub(super) fn check(settings: &Settings, reader: &mut Reader) {
    check_http(&settings.http, reader);
    check_access(settings, reader);
    let cql = &settings.items.cql;
    if settings.items.store == ItemStoreKind::Cql && cql.contact_points.is_empty() {
        reader.blame("items.cql.contact_points", "is required because items.store is cql: host:port,…");
    }
    match (&cql.username, cql.password.is_some(), cql.password_file.is_some()) {
        (_, true, true) => reader.blame("items.cql.password_file", "must not be combined with items.cql.password"),
        (Some(_), false, false) => {
            reader.blame("items.cql.password", "is required with items.cql.username, or items.cql.password_file");
        }
        (None, true, _) => reader.blame("items.cql.username", "is required with items.cql.password"),
        (None, _, true) => reader.blame("items.cql.username", "is required with items.cql.password_file"),
        _ => {}
    }
    match (&cql.tls.cert_file, &cql.tls.key_file) {
        (Some(_), None) => reader.blame("items.cql.tls.key_file", "is required with items.cql.tls.cert_file"),
        (None, Some(_)) => reader.blame("items.cql.tls.cert_file", "is required with items.cql.tls.key_file"),
        (Some(_), Some(_)) if cql.tls.ca_file.is_none() => {
            reader.blame("items.cql.tls.ca_file", "is required with items.cql.tls.cert_file, to turn TLS on");
        }
        _ => {}
    }
    let tls = &cql.tls;
    if !tls.server_name.is_empty() && tls.ca_file.is_none() {
        reader.blame("items.cql.tls.ca_file", "is required with items.cql.tls.server_name, to turn TLS on");
    }
    if cql.rack.is_some() && cql.datacenter.is_none() {
        reader.blame("items.cql.datacenter", "is required with items.cql.rack, because a rack belongs to a datacenter");
    }
    if let Some(datacenter) = &cql.datacenter
        && !cql.replication.is_empty()
        && cql.replication.iter().all(|replicas| replicas.datacenter != *datacenter)
    {
        let problem = format!("must name items.cql.datacenter too, which is {datacenter:?}");
        reader.blame("items.cql.replication", problem);
    }
    let translations = &cql.address_translation;
    let twice = translations
        .iter()
        .enumerate()
        .find(|(n, one)| translations[..*n].iter().any(|other| other.node == one.node && other.reached != one.reached));
    if let Some((_, one)) = twice {
        let problem = format!("maps {} twice: the port of a node's address is ignored", one.node);
        reader.blame("items.cql.address_translation", problem);
    }
    if cql.dialect == Dialect::Scylla && cql.read_consistency == Consistency::EachQuorum {
        reader.blame(
            "items.cql.read_consistency",
            "must not be EACH_QUORUM, which ScyllaDB refuses for reads: set LOCAL_QUORUM or QUORUM",
        );
    }
    let timeout_ms = settings.items.operation_timeout_ms;
    if cql.speculative_after_ms.is_some_and(|after_ms| after_ms >= timeout_ms) {
        reader.blame(
            "items.cql.speculative_after_ms",
            format!("must be less than items.operation_timeout_ms, which is {timeout_ms}"),
        );
    }
    let postgres = &settings.metadata.postgres;
    match &postgres.url {
        Some(_) if postgres.url_file.is_some() => {
            reader.blame("metadata.postgres.url_file", "must not be combined with metadata.postgres.url");
        }
        Some(_) if settings.metadata.store != MetadataStoreKind::Postgres => {
            reader.blame("metadata.postgres.url", unused_postgres(settings.metadata.store));
        }
        None if settings.metadata.store != MetadataStoreKind::Postgres && postgres.url_file.is_some() => {
            reader.blame("metadata.postgres.url_file", unused_postgres(settings.metadata.store));
        }
        Some(url) => {
            if let Err(problem) = crate::metadata::postgres_url::check_url(url.expose()) {
                reader.blame("metadata.postgres.url", problem);
            }
        }
        None if settings.metadata.store == MetadataStoreKind::Postgres && postgres.url_file.is_none() => reader.blame(
            "metadata.postgres.url",
            "is required, or metadata.postgres.url_file, because metadata.store is postgres: \
             postgres://user:password@host:5432/database",
        ),
        _ => {}
    }
}

/// A server that was intended to share its definitions would store separate ones.
fn unused_postgres(store: MetadataStoreKind) -> String {
    format!("is set, but metadata.store is {store}: set metadata.store to postgres, or remove this key")
}

/// See [`Settings::warnings`].
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    if settings.items.store == ItemStoreKind::Cql && settings.metadata.store != MetadataStoreKind::Postgres {
        warnings.push(format!(
            "items.store is cql and metadata.store is {}: run only one server, because a second one would count \
             feature generations independently",
            settings.metadata.store
        ));
    }
    if settings.items.store == ItemStoreKind::Memory {
        warnings.push("items.store is memory: all items are lost when the process ends".to_owned());
    }
    if settings.metadata.store == MetadataStoreKind::Memory {
        warnings.push("metadata.store is memory: all definitions are lost when the process ends".to_owned());
    }
    if settings.access.insecure {
        warnings.push(
            "access.insecure is set: without an API key, anyone who can reach the server has full access".to_owned(),
        );
    }
    warnings
}
