//! The requests and answers of operations: parameters, conditions, problems, replies.
//!
//! An operation ([`operation`]) reads a [`call::Call`], and makes a [`response::Response`] of its reply. The service
//! below it carries it out. Above it are the table of all operations, and the server (`http`), which looks requests up
//! in the table.
//!
//! This module reads no settings, never holds an actor's address, and decides nothing about lists or definitions.
//! `docs/reference/api.md` is the API's guide. `GET /openapi.json` has its exact form.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use liststore_contract::operations::list_audit::Audited;
use prometheus::Registry;

use crate::access::{Access, Budget, Principal};
use crate::actors::{ListPool, MetadataHandle};
use crate::background::{Cleaner, Jobs};
use crate::backup::Backups;
use crate::domain::Clock;
use crate::service::{Repeated, Service, ServiceError, ServiceHandles, ServiceOptions};
use crate::telemetry::Log;
use crate::wire::{ErrorCode, Problem};

pub(crate) mod admission;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod certificate;
pub(crate) mod compression;
pub(crate) mod console;
pub(crate) mod document;
pub(crate) mod headers;
pub(crate) mod health;
pub(crate) mod host;
pub(crate) mod http1;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod metrics;
pub(crate) mod negotiation;
pub(crate) mod operation;
pub(crate) mod origin;
pub(crate) mod percent;
pub mod problem;
pub(crate) mod query;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod request_log;
pub(crate) mod response;
pub(crate) mod tls;
pub(crate) mod tls_clients;

pub use health::is_ready;
pub use liststore_contract::operations::get_sign_in::{IdentityProvider, SignIn};
pub use operation::{OperationId, Registered};
pub use tls::{Tls, TlsError, TlsOptions};
pub use tls_clients::ClientTls;

#[derive(Debug, Clone)]
pub struct ApiOptions {
    /// A larger request body is refused.
    pub body_bytes_max: usize,
    /// Answers from this length on are compressed for callers who accept it.
    pub compression_bytes_min: usize,
    /// How long a request body may take to arrive. The operation's own deadline counts from then.
    pub body_timeout: Duration,
    /// While a worker has more requests than it can serve, it refuses list operations that have waited for longer.
    pub socket_wait_max: Duration,
    /// The total memory of incomplete requests and unread answers.
    pub buffered_bytes_max: usize,
    /// The sites, in addition to the server's own, whose pages may send changes: such as `https://lists.example.org`.
    pub allowed_origins: Vec<String>,
    /// Names of the server, in lower case; `*` for any. An empty list means any name, except on an open server.
    pub allowed_hosts: Vec<String>,
    /// Whether any client may read the metrics.
    pub metrics_are_open: bool,
    /// Why anyone on the network has full access, if that is so: for `/readyz`.
    pub is_insecure: bool,
    /// Whether metrics and the pool are served only at a separate address.
    pub administration_is_apart: bool,
    /// How people sign in to the console without a key.
    pub sign_in: SignIn,
    /// The largest number of lines in the access log for each second's requests.
    pub access_lines_per_second_max: u32,
    /// Where the console gets its tokens: such as `https://id.example.org`.
    pub sign_in_origins: Vec<String>,
}

/// The handles that operations use.
pub struct Handles {
    pub lists: ListPool,
    pub metadata: MetadataHandle,
    pub backups: Backups,
    pub jobs: Jobs,
    pub cleaner: Cleaner,
    pub access: Access,
    pub log: Arc<Log>,
    pub clock: Arc<dyn Clock>,
}

/// The state that serves every request.
pub struct ApiState {
    pub(crate) service: Service,
    /// For health and metrics.
    pub(crate) lists: ListPool,
    pub(crate) metadata: MetadataHandle,
    pub(crate) cleaner: Cleaner,
    pub(crate) access: Access,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) draining: Arc<AtomicBool>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) unread: Arc<http1::Unread>,
    pub(crate) encoders: compression::Encoders,
    /// The resources that pages of the console may load.
    pub(crate) content_policy: String,
    pub(crate) options: ApiOptions,
    pub(crate) registry: Registry,
    pub(crate) metrics: metrics::ApiMetrics,
    pub(crate) request_ids: headers::RequestIds,
    pub(crate) request_log: request_log::RequestLog,
}

impl ApiState {
    /// Counts and logs a refusal.
    pub(crate) fn note_refusal(&self, by: &Principal, operation: &'static str, problem: &Problem) {
        use ErrorCode::Unauthenticated;
        if !matches!(problem.code.status(), 401 | 403 | 429) {
            return;
        }
        // The cause why no caller was identified is one of a few texts in the answer.
        let cause = problem.cause.as_deref().filter(|_| problem.code == Unauthenticated);
        let reason = cause.unwrap_or(&problem.detail);
        self.access.refusals().note(by, operation, problem.code.name(), reason, self.clock.now());
    }

    /// Repeats an entry of a former store's audit trail.
    pub async fn repeat(&self, entry: &Audited) -> Result<Repeated, ServiceError> {
        self.service.repeat(entry).await
    }

    /// The number of requests answered so far.
    pub fn answered(&self) -> u64 {
        self.metrics.all_answered()
    }

    /// Registers the API's metrics with `registry`, which `GET /metrics` then shows. `operations` is the size of the
    /// table.
    pub fn new(
        handles: Handles,
        operations: usize,
        registry: Registry,
        draining: Arc<AtomicBool>,
        service_options: ServiceOptions,
        options: ApiOptions,
    ) -> prometheus::Result<Self> {
        let Handles { lists, metadata, backups, jobs, cleaner, access, log, clock } = handles;
        let ApiOptions { buffered_bytes_max, body_bytes_max, .. } = options;
        let budget = Budget::new(buffered_bytes_max, body_bytes_max, service_options.page_bytes_max);
        let handles = ServiceHandles {
            lists: lists.clone(),
            metadata: metadata.clone(),
            backups,
            jobs,
            cleaner: cleaner.clone(),
            refusals: Arc::clone(access.refusals()),
            log: Arc::clone(&log),
            clock: Arc::clone(&clock),
            budget: Arc::clone(&budget),
        };
        let service = Service::new(handles, service_options, &registry)?;
        Ok(Self {
            service,
            lists,
            metadata,
            cleaner,
            access,
            clock,
            draining,
            budget,
            unread: Arc::default(),
            encoders: compression::Encoders::register(&registry)?,
            content_policy: console::content_policy(&options.sign_in_origins),
            metrics: metrics::ApiMetrics::register(&registry, operations)?,
            registry,
            request_ids: headers::RequestIds::new(),
            request_log: request_log::RequestLog::new(log, options.access_lines_per_second_max),
            options,
        })
    }
}
