//! The HTTP API: it reads requests into operations, has the service carry them out, and renders their
//! replies.
//!
//! Which operations there are stands in the service's table: paths, parameters and the OpenAPI
//! document are made from it. This module reads no settings, never holds an actor's address, and
//! decides nothing about lists or definitions. `docs/reference/api.md` is its guide; `GET /openapi.json` its
//! exact form.
//!
//! # Ways in
//! [`listen`] serves an [`ApiState`] on an address. `http1` reads each connection. Operations on lists and
//! bags go straight to [`server::serve`]; all others take the way through actix-web's `App`, where routing,
//! extractors and middleware are to be had.
//!
//! No middleware is needed: request ids, metrics and the log are kept by the API itself. Setting
//! `draining` takes readiness off and asks callers to leave their connections; requests that still
//! come are answered until the pool refuses them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use prometheus::Registry;

use crate::access::{Access, Budget, Principal};
use crate::actors::{ListPool, MetadataHandle};
use crate::background::{Cleaner, Jobs};
use crate::backup::Backups;
use crate::domain::Clock;
use crate::service::{Repeated, Service, ServiceError, ServiceHandles, ServiceOptions};
use crate::telemetry::Log;
use crate::wire::{Audited, ErrorCode, Problem};
use render::JsonPages;

mod admission;
mod backups;
mod bags;
mod batch;
mod body;
mod call;
mod certificate;
mod compression;
mod console;
mod document;
mod entity_types;
mod erasure;
mod features;
mod headers;
mod health;
mod host;
mod http1;
mod indexes;
mod jobs;
mod keys;
mod lines;
mod listen;
mod lists;
mod log;
mod metrics;
mod negotiation;
mod openapi;
mod origin;
mod percent;
mod pool;
pub mod problem;
mod query;
mod render;
mod reply;
mod request;
mod request_log;
mod response;
mod routes;
mod server;
mod tls;
mod tls_clients;
mod versions;

pub use crate::wire::{IdentityProvider, SignIn};
pub use health::is_ready;
pub use listen::{Bound, ListenOptions, Listening, bind, listen, listen_for_administration};
pub use tls::{Tls, TlsError, TlsOptions};
pub use tls_clients::ClientTls;

#[derive(Debug, Clone)]
pub struct ApiOptions {
    /// A larger request body is refused.
    pub body_bytes_max: usize,
    /// Answers from this length on are compressed for those who ask for it.
    pub compression_bytes_min: usize,
    /// How long a request body may take to arrive. The operation's own deadline counts from then.
    pub body_timeout: Duration,
    /// While a worker has more requests than it can serve, list operations are refused that have waited for longer.
    pub socket_wait_max: Duration,
    /// What requests that are not whole and answers that are not taken may hold together.
    pub buffered_bytes_max: usize,
    /// Of which sites a browser's pages may ask for changes, beside the server's own: such as
    /// `https://lists.example.org`.
    pub allowed_origins: Vec<String>,
    /// Names that the server goes by, in lower case; `*` for any. None: any, but where it is open.
    pub allowed_hosts: Vec<String>,
    /// Whether anybody may read the metrics.
    pub metrics_are_open: bool,
    /// Why anybody on the network may do anything, where that is so beyond this machine: for `/readyz`.
    pub is_insecure: bool,
    /// Whether metrics and the pool have an address of their own, and are served there alone.
    pub administration_is_apart: bool,
    /// How people sign in to the console, beside with a key.
    pub sign_in: SignIn,
    /// Of each second's requests so many have a line in the log at most, where any have.
    pub access_lines_per_second_max: u32,
    /// Where the console gets their tokens from: such as `https://id.example.org`.
    pub sign_in_origins: Vec<String>,
}

/// What operations are carried out with.
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

/// What every request is served with.
pub struct ApiState {
    service: Service<JsonPages>,
    /// For health and metrics.
    lists: ListPool,
    metadata: MetadataHandle,
    cleaner: Cleaner,
    access: Access,
    clock: Arc<dyn Clock>,
    draining: Arc<AtomicBool>,
    budget: Arc<Budget>,
    unread: Arc<http1::Unread>,
    encoders: compression::Encoders,
    /// What pages of the console may load.
    content_policy: String,
    options: ApiOptions,
    registry: Registry,
    metrics: metrics::ApiMetrics,
    request_ids: headers::RequestIds,
    request_log: request_log::RequestLog,
}

impl ApiState {
    /// Keeps the books of what somebody is answered with in place of what they asked for.
    fn note_refusal(&self, by: &Principal, operation: &'static str, problem: &Problem) {
        use ErrorCode::Unauthenticated;
        if !matches!(problem.code.status(), 401 | 403 | 429) {
            return;
        }
        // Why nobody was known stands behind the answer, in one of a few texts.
        let cause = problem.cause.as_deref().filter(|_| problem.code == Unauthenticated);
        let reason = cause.unwrap_or(&problem.detail);
        self.access.refusals().note(by, operation, problem.code.name(), reason, self.clock.now());
    }

    /// Repeats an entry of a former store's audit trail.
    pub async fn repeat(&self, entry: &Audited) -> Result<Repeated, ServiceError> {
        self.service.repeat(entry).await
    }

    /// How many requests were answered so far.
    pub fn answered(&self) -> u64 {
        self.metrics.all_answered()
    }

    /// Registers the API's metrics with `registry`, which `GET /metrics` then shows.
    pub fn new(
        handles: Handles,
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
        let service = Service::new(handles, JsonPages, service_options, &registry)?;
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
            metrics: metrics::ApiMetrics::register(&registry)?,
            registry,
            request_ids: headers::RequestIds::new(),
            request_log: request_log::RequestLog::new(log, options.access_lines_per_second_max),
            options,
        })
    }
}
