//! The HTTP API: it reads requests into domain types, calls the handles, and renders answers.
//!
//! It holds handles and never an actor's address, reads no settings, and decides nothing about
//! lists or definitions. `docs/api.md` is its guide; `GET /openapi.json` its exact form.
//!
//! # Ways in
//! [`listen`] serves an [`ApiState`] on an address. A connection begins on the fast path
//! (`fast_path`), which knows plain HTTP/1.1 requests, and goes over to actix-web at the first that
//! is not plain. Both call [`server::serve`], so that what is told of the API holds for both.
//!
//! No middleware is needed: request ids, metrics and the log are kept by the API itself. Setting
//! `draining` takes readiness off and asks callers to leave their connections; requests that still
//! come are answered until the pool refuses them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use prometheus::Registry;

use crate::actors::{ListPool, MetadataHandle};
use crate::backup::Backups;
use crate::domain::Clock;

mod add_body;
mod backups;
mod body;
mod call;
mod fast_path;
mod features;
mod headers;
mod health;
mod listen;
mod lists;
mod metrics;
mod object;
mod openapi;
mod percent;
mod plain_add;
pub mod problem;
mod query;
mod render;
mod request_log;
pub mod routes;
mod server;
mod versions;

pub use health::is_ready;
pub use listen::{ListenOptions, Listening, listen};

#[derive(Debug, Clone, Copy)]
pub struct ApiOptions {
    /// A larger request body is refused.
    pub body_bytes_max: usize,
    /// How long a request body may take to arrive. The operation's own deadline counts from then.
    pub body_timeout: Duration,
    /// A page of items ends early before it exceeds this, but never empty.
    pub response_bytes_max: usize,
    /// The deadline of an operation, from when its request has arrived.
    pub operation_timeout: Duration,
    /// How stale a catalog can be: what other servers need to learn of a deletion.
    pub poll_interval: Duration,
}

/// What every request is served with.
pub struct ApiState {
    lists: ListPool,
    metadata: MetadataHandle,
    backups: Backups,
    clock: Arc<dyn Clock>,
    draining: Arc<AtomicBool>,
    options: ApiOptions,
    registry: Registry,
    metrics: metrics::ApiMetrics,
    request_ids: headers::RequestIds,
    request_log: request_log::RequestLog,
}

impl ApiState {
    /// Registers the API's metrics with `registry`, which `GET /metrics` then shows.
    pub fn new(
        lists: ListPool,
        metadata: MetadataHandle,
        backups: Backups,
        clock: Arc<dyn Clock>,
        registry: Registry,
        draining: Arc<AtomicBool>,
        options: ApiOptions,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            lists,
            metadata,
            backups,
            clock,
            draining,
            options,
            metrics: metrics::ApiMetrics::register(&registry)?,
            registry,
            request_ids: headers::RequestIds::new(),
            request_log: request_log::RequestLog::default(),
        })
    }
}
