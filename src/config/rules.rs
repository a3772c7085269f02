//! The rules between keys.

use super::Settings;
use super::access::IssuerSettings;
use super::choices::{AccessMode, ClientAuth, Consistency, Dialect, ItemStoreKind, MetadataStoreKind};
use super::http::HttpSettings;
use super::reader::Reader;

fn check_http(http: &HttpSettings, reader: &mut Reader) {
    let HttpSettings { body_bytes_max, response_bytes_max, .. } = http;
    let least = http.buffered_bytes_min();
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
    if settings.admin.tls {
        if settings.admin.listen.is_none() {
            reader.blame("admin.listen", "is required with admin.tls");
        }
        if settings.http.tls.certificate_file.is_none() {
            reader.blame("http.tls.certificate_file", "is required with admin.tls");
        }
    }
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
