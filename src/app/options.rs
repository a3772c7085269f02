//! Converts settings to the options of each store.

use std::time::Duration;

use super::issuer_keys::{KeySource, KeyTimes};
use super::{StartError, postgres};
use crate::access::jwt::{IssuerOptions, Rule};
use crate::access::{CertificateRule, CertifiedName, Grant, LimitOptions};
use crate::actors::{MetadataOptions, RefreshOptions, StoredCatalogOptions};
use crate::api::{ApiOptions, ClientTls, IdentityProvider, SignIn, TlsOptions};
use crate::config::{
    CertificateSettings, ClientAuth, ConsoleToken, EmbeddedSettings, Fsync, HttpTlsSettings, IssuerSettings,
    ItemStoreKind, ItemsSettings, JwtSettings, MetadataSettings, MetadataStoreKind, MetricsAccess, RateLimitSettings,
    RuleSettings, Settings,
};
use crate::domain::{Rate, RateLimits, Ttl};
use crate::items::embedded::{self, EmbeddedOptions};
use crate::metadata::snapshot_file::SnapshotFile;
use crate::service::ServiceOptions;

/// How long reading the definitions may take before a server doubts its copy.
const READING_TIME: Duration = Duration::from_secs(1);
/// The longest wait of an operation for a lookup of its feature.
const LOOK_UP_WAIT_MAX: Duration = Duration::from_secs(1);

/// Returns `None` without TLS.
pub fn tls(settings: &HttpTlsSettings) -> Option<TlsOptions> {
    let required = settings.client_auth == ClientAuth::Required;
    let clients = settings.client_ca_file.clone().map(|ca_file| ClientTls {
        ca_file,
        crl_file: settings.client_crl_file.clone(),
        required,
        files_age_max: Duration::from_secs(settings.client_files_age_max_secs),
    });
    let files = settings.certificate_file.clone().zip(settings.key_file.clone());
    files.map(|(certificate_file, key_file)| TlsOptions { certificate_file, key_file, clients })
}

/// The rate limits of known callers.
pub fn limits(settings: &RateLimitSettings) -> LimitOptions {
    // The settings validated these rates.
    let rate = |per_second: Option<u32>, burst| Rate::new(per_second?, burst).ok();
    let rates = RateLimits {
        requests: rate(settings.requests_per_second, settings.requests_burst),
        items: rate(settings.items_per_second, settings.items_burst),
    };
    LimitOptions { rates, operations_percent: settings.operations_percent }
}

/// The issuers in the order of the settings.
pub fn issuers(settings: &JwtSettings) -> Vec<IssuerOptions> {
    let rule = |rule: &RuleSettings| Rule {
        claim: rule.claim.clone(),
        value: rule.value.clone(),
        grant: Grant { roles: rule.roles.clone(), scopes: rule.scopes.clone() },
        acts_for_others: rule.acts_for_others,
    };
    let issuer = |issuer: &IssuerSettings| IssuerOptions {
        issuer: issuer.issuer.clone(),
        audiences: issuer.audience.clone(),
        label: issuer.label.clone(),
        leeway: Duration::from_secs(issuer.leeway_secs),
        rules: issuer.rules.iter().map(rule).collect(),
    };
    settings.issuers.iter().map(issuer).collect()
}

/// How people sign in to the console, and the origins of its tokens.
fn sign_in(settings: &JwtSettings) -> (SignIn, Vec<String>) {
    let provider = |issuer: &IssuerSettings| {
        let token = match issuer.console_token {
            ConsoleToken::AccessToken => "access_token",
            ConsoleToken::IdToken => "id_token",
        };
        Some(IdentityProvider {
            issuer: issuer.issuer.clone(),
            label: issuer.label.clone(),
            client_id: issuer.client_id.clone()?,
            scope: issuer.console_scopes.join(" "),
            token: token.to_owned(),
        })
    };
    let providers = settings.issuers.iter().filter_map(provider).collect();
    (SignIn { providers }, settings.issuers.iter().filter_map(IssuerSettings::sign_in_origin).collect())
}

/// The place of each issuer's keys in the same order, and how long keys are used.
pub fn issuer_keys(settings: &JwtSettings) -> (Vec<(String, KeySource)>, KeyTimes) {
    let source = |issuer: &IssuerSettings| match (&issuer.jwks_file, &issuer.jwks_url) {
        (Some(path), _) => KeySource::File(path.clone()),
        (None, url) => KeySource::Url {
            url: url.clone().unwrap_or_default(),
            ca_file: issuer.ca_file.clone(),
            token_file: issuer.token_file.clone(),
        },
    };
    let sources = settings.issuers.iter().map(|issuer| (issuer.issuer.clone(), source(issuer)));
    let refresh = Duration::from_secs(settings.refresh_secs);
    (sources.collect(), KeyTimes { refresh, age_max: Duration::from_secs(settings.keys_age_max_secs) })
}

pub fn certificates(settings: &[CertificateSettings]) -> Vec<CertificateRule> {
    let rule = |rule: &CertificateSettings| {
        let (uri, dns_name) = (rule.uri.clone().map(CertifiedName::Uri), rule.dns_name.clone());
        let name = uri.or(dns_name.map(CertifiedName::DnsName));
        let name = name.or(rule.common_name.clone().map(CertifiedName::CommonName))?;
        Some(CertificateRule { name, grant: Grant { roles: rule.roles.clone(), scopes: rule.scopes.clone() } })
    };
    settings.iter().filter_map(rule).collect()
}

/// The options of the service.
pub fn service(settings: &Settings) -> ServiceOptions {
    ServiceOptions {
        operation_timeout: Duration::from_millis(settings.items.operation_timeout_ms),
        page_bytes_max: settings.http.response_bytes_max,
        page_cache_bytes: page_cache_bytes(&settings.items),
        aggregate_items_max: settings.items.aggregate_items_max,
        poll_interval: Duration::from_secs(settings.metadata.poll_interval_secs),
        // A key's lifetime has the bounds of every lifetime.
        key_lifetime_max: Ttl::from_secs(settings.access.keys.lifetime_max_secs).unwrap_or(Ttl::MAX),
        server_name: server_name(),
    }
}

/// The name of the machine or the pod.
fn server_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// The divisor of the embedded store's cache that gives the memory for rendered pages.
const PAGE_CACHE_SHARE: u64 = 4;

/// The memory for rendered pages. It is zero for other stores, which cannot check whether a page is still current.
pub fn page_cache_bytes(items: &ItemsSettings) -> u64 {
    match items.store {
        ItemStoreKind::Embedded => items.embedded.cache_bytes as u64 / PAGE_CACHE_SHARE,
        ItemStoreKind::Cql | ItemStoreKind::Memory => 0,
    }
}

pub fn embedded(settings: &EmbeddedSettings) -> EmbeddedOptions {
    let cache_bytes = settings.cache_bytes as u64;
    let cache_bytes = cache_bytes - cache_bytes / PAGE_CACHE_SHARE;
    let fsync = match settings.fsync {
        Fsync::Group => embedded::Fsync::Group,
        Fsync::Interval => embedded::Fsync::Interval(Duration::from_millis(settings.fsync_interval_ms)),
    };
    let erase_within = Duration::from_secs(settings.erase_within_secs);
    #[cfg(target_os = "linux")]
    let on_log_thread = crate::scheduling::go_first;
    #[cfg(not(target_os = "linux"))]
    let on_log_thread = || {};
    EmbeddedOptions { fsync, cache_bytes, erase_within, on_log_thread, ..EmbeddedOptions::new(&settings.dir) }
}

/// How long a server relies on the definitions that it has read. It reads them at least once in each interval. The
/// duration of a reading must not cause doubt.
pub fn in_step_for(settings: &MetadataSettings) -> Duration {
    Duration::from_secs(settings.poll_interval_secs) + READING_TIME
}

pub fn metadata(settings: &MetadataSettings) -> Result<MetadataOptions, StartError> {
    // A copy is useless for the embedded store, which is on the same machine.
    let dir = settings.snapshot_dir.as_ref().filter(|_| settings.store == MetadataStoreKind::Postgres);
    let stored = |dir| {
        let database = postgres::database_named(settings)?;
        let age_max = Duration::from_secs(settings.snapshot_age_max_secs);
        Ok::<_, StartError>(StoredCatalogOptions { file: SnapshotFile::new(dir, database), age_max })
    };
    Ok(MetadataOptions {
        permits: settings.calls_max,
        timeout: Duration::from_millis(settings.call_timeout_ms),
        refresh: RefreshOptions {
            retry_delay_max: Duration::from_millis(settings.retry_delay_max_ms),
            look_ups_max: settings.look_ups_max,
            look_up_interval: Duration::from_millis(settings.look_up_interval_ms),
            look_up_wait_max: LOOK_UP_WAIT_MAX,
        },
        in_step_for: in_step_for(settings),
        stored: dir.map(|dir| stored(dir)).transpose()?,
    })
}

/// The bounds of the API. With `is_insecure`, anyone on the network has full access.
pub(super) fn api(settings: &Settings, is_insecure: bool) -> ApiOptions {
    let (sign_in, sign_in_origins) = sign_in(&settings.access.jwt);
    ApiOptions {
        body_bytes_max: settings.http.body_bytes_max,
        compression_bytes_min: settings.http.compression_bytes_min,
        body_timeout: Duration::from_secs(settings.http.body_timeout_secs),
        socket_wait_max: Duration::from_millis(settings.http.socket_wait_ms),
        buffered_bytes_max: settings.http.buffered_bytes_max,
        allowed_origins: settings.http.allowed_origins.clone(),
        allowed_hosts: settings.http.allowed_hosts.clone(),
        metrics_are_open: settings.access.metrics == MetricsAccess::Open,
        is_insecure,
        administration_is_apart: settings.admin.listen.is_some(),
        access_lines_per_second_max: settings.log.access_lines_per_second_max,
        sign_in,
        sign_in_origins,
    }
}
