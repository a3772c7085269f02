//! The metrics of the API. `docs/reference/metrics.md` lists them all.

use std::sync::OnceLock;
use std::time::Duration;

use actix_web::http::StatusCode;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::OperationId;
use super::http1::Unread;
use super::problem::{ErrorCode, Problem};
use crate::access::Budget;
use crate::actors::MetadataHandle;

/// Seconds: from the time of a get from memory to more than any deadline.
const LATENCY_BUCKETS: [f64; 14] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

const LABELS: [&str; 3] = ["operation", "status", "code"];

const COLUMNS: usize = 2 + ErrorCode::COUNT;

/// The series of one operation and code, looked up once.
struct Series {
    requests: IntCounter,
    seconds: Histogram,
}

pub(crate) struct ApiMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    /// By operation, then by code. Index 0 of operations means none. The first codes are success and "not modified".
    series: Box<[[OnceLock<Series>; COLUMNS]]>,
    pub batch_failures: IntCounter,
    refused: IntCounterVec,
    pub items_read: IntCounter,
    pub items_added: IntCounter,
    pub items_already_expired: IntCounter,
    pub items_removed: IntCounter,
    connections: IntGauge,
    connections_evicted: IntCounter,
    requests_shed: IntCounter,
    buffered_bytes: IntGauge,
    unread_bytes: IntGauge,
    catalog_loaded: IntGauge,
    catalog_revision: IntGauge,
    catalog_age_seconds: Gauge,
    catalog_stored: IntGauge,
    catalog_snapshot_age_seconds: Gauge,
    metadata_actor_restarts: IntCounter,
}

impl ApiMetrics {
    /// For a table with this many `operations`.
    pub fn register(registry: &Registry, operations: usize) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone())).map(|()| counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        let requests = IntCounterVec::new(
            Opts::new("liststore_http_requests_total", "Requests by operation and outcome."),
            &LABELS,
        )?;
        registry.register(Box::new(requests.clone()))?;
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "liststore_http_request_duration_seconds",
                "Time from a request's head to its response, by operation and outcome.",
            )
            .buckets(LATENCY_BUCKETS.to_vec()),
            &LABELS,
        )?;
        registry.register(Box::new(seconds.clone()))?;
        let build = IntGaugeVec::new(
            Opts::new("liststore_build_info", "Always 1; labels hold the server's version."),
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        registry.register(Box::new(build))?;
        let refused = IntCounterVec::new(
            Opts::new("liststore_access_refused_total", "Requests refused because of their caller, by reason."),
            &["reason"],
        )?;
        registry.register(Box::new(refused.clone()))?;
        let catalog_age_seconds = Gauge::new(
            "liststore_catalog_age_seconds",
            "Time since the catalog was last confirmed to match the metadata store.",
        )?;
        registry.register(Box::new(catalog_age_seconds.clone()))?;
        let catalog_snapshot_age_seconds = Gauge::new(
            "liststore_catalog_snapshot_age_seconds",
            "Age of the definitions snapshot on disk; 0 without one.",
        )?;
        registry.register(Box::new(catalog_snapshot_age_seconds.clone()))?;
        Ok(Self {
            refused,
            requests,
            seconds,
            series: (0..=operations).map(|_| [const { OnceLock::new() }; COLUMNS]).collect(),
            batch_failures: counter("liststore_batch_failures_total", "Failed lists in calls for several lists.")?,
            items_read: counter("liststore_items_read_total", "Items returned by gets.")?,
            items_added: counter("liststore_items_added_total", "Items stored by adds, repeated ones included.")?,
            items_already_expired: counter(
                "liststore_items_already_expired_total",
                "Items in adds that were not stored because they had already expired.",
            )?,
            items_removed: counter("liststore_items_removed_total", "Visible items removed by value.")?,
            connections: gauge("liststore_http_connections", "Open HTTP connections.")?,
            connections_evicted: counter(
                "liststore_http_connections_evicted_total",
                "Idle connections closed to make room for others.",
            )?,
            requests_shed: counter(
                "liststore_http_requests_shed_total",
                "List operations refused as overloaded because they waited too long in their sockets.",
            )?,
            buffered_bytes: gauge(
                "liststore_http_buffered_bytes",
                "Bytes of http.buffered_bytes_max held by requests and responses in progress.",
            )?,
            unread_bytes: gauge(
                "liststore_http_unread_bytes",
                "Kernel memory of responses that clients have not read.",
            )?,
            catalog_loaded: gauge("liststore_catalog_loaded", "1 after the catalog was loaded, else 0.")?,
            catalog_revision: gauge("liststore_catalog_revision", "Revision of the catalog.")?,
            catalog_age_seconds,
            catalog_stored: gauge(
                "liststore_catalog_stored",
                "1 while the catalog comes from the snapshot on disk because the metadata store was unavailable.",
            )?,
            catalog_snapshot_age_seconds,
            metadata_actor_restarts: counter(
                "liststore_metadata_actor_restarts_total",
                "Metadata actors restarted after a crash.",
            )?,
        })
    }

    /// Counts a request that was refused because of its caller or its credentials.
    pub fn refused(&self, problem: &Problem) {
        use ErrorCode::{CrossSite, LocalOnly, PermissionDenied, RateLimited, Unauthenticated, UnknownHost};
        let reason = match problem.code {
            // Its causes are a fixed set of texts.
            Unauthenticated => problem.cause.as_deref().unwrap_or("unauthenticated"),
            code @ (PermissionDenied | LocalOnly | RateLimited | CrossSite | UnknownHost) => code.name(),
            _ => return,
        };
        self.refused.with_label_values(&[reason]).inc();
    }

    /// Counts an answer. `code` is the problem's code, if the answer is a problem.
    pub fn answered(
        &self,
        operation: Option<OperationId>,
        status: StatusCode,
        code: Option<ErrorCode>,
        took: Duration,
    ) {
        let row = operation.map_or(0, |operation| 1 + operation.place());
        let column = match code {
            Some(code) => 2 + code as usize,
            None => usize::from(status == StatusCode::NOT_MODIFIED),
        };
        let series = self.series[row][column].get_or_init(|| {
            let labels = [label(operation), status.as_str(), code.map_or("ok", ErrorCode::name)];
            Series {
                requests: self.requests.with_label_values(&labels),
                seconds: self.seconds.with_label_values(&labels),
            }
        });
        series.requests.inc();
        series.seconds.observe(took.as_secs_f64());
    }

    /// The number of requests answered so far.
    pub fn all_answered(&self) -> u64 {
        self.series.iter().flatten().filter_map(OnceLock::get).map(|series| series.requests.get()).sum()
    }

    /// Updates the gauges before metrics are shown.
    pub fn refresh(&self, metadata: &MetadataHandle, budget: &Budget, unread: &Unread) {
        self.unread_bytes.set(i64::try_from(unread.bytes()).unwrap_or(i64::MAX));
        self.buffered_bytes.set(i64::try_from(budget.used()).unwrap_or(i64::MAX));
        let restarts = metadata.restarts() as u64;
        self.metadata_actor_restarts.inc_by(restarts.saturating_sub(self.metadata_actor_restarts.get()));
        let kept_for = metadata.stored_as_of().map(|moment| metadata.age_of(moment)).unwrap_or_default();
        self.catalog_snapshot_age_seconds.set(kept_for.as_secs_f64());
        let Some(snapshot) = metadata.catalog().snapshot() else { return };
        self.catalog_stored.set(i64::from(snapshot.is_stored()));
        self.catalog_loaded.set(1);
        self.catalog_revision.set(i64::try_from(snapshot.revision().0).unwrap_or(i64::MAX));
        self.catalog_age_seconds.set(metadata.age_of_catalog(&snapshot).as_secs_f64());
    }

    /// Counts a connection until the returned value is dropped.
    pub fn connection(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection { open: self.connections.clone() }
    }

    pub fn evicted(&self) {
        self.connections_evicted.inc();
    }

    pub fn shed(&self) {
        self.requests_shed.inc();
    }
}

/// The name of an operation, in metrics and logs. Answers that depend only on the path have none.
pub(crate) fn label(operation: Option<OperationId>) -> &'static str {
    operation.map_or("none", |operation| operation.row().name)
}

pub(crate) struct OpenConnection {
    open: IntGauge,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.open.dec();
    }
}
