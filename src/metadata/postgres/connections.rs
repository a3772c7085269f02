//! The bounded set of connections for calls, and the handling of failed ones.
//!
//! A connection with interrupted work, or with an error of Postgres, is never used again. If one hangs, all idle ones
//! are suspect: they use the same route to Postgres, and each would cost a caller its whole time. Then the whole pool
//! of the driver is replaced.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus::{IntCounter, Registry};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{PgConnection, Postgres};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::entered::Entered;
use super::error::{Failure, translate, unavailable};
use super::hosts::Hosts;
use super::options::{CONNECT_TIME_MAX, CONNECT_TIME_MAX_IF_SLOW, CONNECT_TIME_WHILE_UNREACHABLE};
use super::schema;
use crate::metadata::MetadataError;

pub(super) struct Connections {
    hosts: Arc<Hosts>,
    /// The number of the used server.
    present: AtomicUsize,
    /// The number of changes of the servers' users and passwords that the pool has followed.
    changes: AtomicU64,
    /// Notifies the listener that it must check the server, and perhaps select another.
    suspected: Notify,
    count_max: u32,
    pool: ArcSwap<PgPool>,
    free: Semaphore,
    /// Why the last attempt to reach Postgres failed; `None` after a success.
    away: ArcSwapOption<String>,
    /// How long a connection in the background may take, in milliseconds.
    connect_millis: AtomicU64,
    /// Whether the schema was confirmed to be the expected one.
    schema_known: AtomicBool,
    renewals: IntCounter,
}

impl Connections {
    /// Does not connect yet. Must be called on a tokio runtime.
    pub fn new(hosts: Arc<Hosts>, count_max: u32, registry: &Registry) -> prometheus::Result<Self> {
        let renewals = IntCounter::new(
            "liststore_metadata_postgres_pool_renewals_total",
            "Times that all connections to Postgres were closed because one of them hung.",
        )?;
        registry.register(Box::new(renewals.clone()))?;
        Ok(Self {
            pool: ArcSwap::from_pointee(new_pool(hosts.options(0), count_max)),
            changes: AtomicU64::new(0),
            free: Semaphore::new(count_max as usize),
            away: ArcSwapOption::empty(),
            connect_millis: AtomicU64::new(CONNECT_TIME_MAX.as_millis() as u64),
            schema_known: AtomicBool::new(false),
            hosts,
            present: AtomicUsize::new(0),
            suspected: Notify::new(),
            count_max,
            renewals,
        })
    }

    /// Stores whether Postgres is reachable.
    pub fn set_unreachable(&self, reason: Option<String>) {
        self.away.store(reason.map(Arc::new));
    }

    /// Stores how long the attempt took that reached Postgres: longer than a single connection.
    pub fn set_connect_time(&self, attempt: Duration) {
        let time_max = attempt.clamp(CONNECT_TIME_MAX, CONNECT_TIME_MAX_IF_SLOW);
        self.connect_millis.store(time_max.as_millis() as u64, Ordering::Relaxed);
    }

    /// How long a connection in the background may take to become usable. At least as long as one of a call.
    pub fn connect_time(&self) -> Duration {
        Duration::from_millis(self.connect_millis.load(Ordering::Relaxed))
    }

    /// Uses the server with this number from now on.
    pub fn set_host(&self, number: usize) {
        if self.present.swap(number, Ordering::AcqRel) != number {
            tracing::warn!("switched to another postgres server");
            self.schema_known.store(false, Ordering::Release);
            self.renew(&self.pool.load_full());
        }
    }

    /// Requests a check of the server soon, because its role seems to have changed.
    pub fn suspect(&self) {
        self.suspected.notify_one();
    }

    /// Waits until the server is suspected.
    pub async fn suspected(&self) {
        self.suspected.notified().await;
    }

    /// A connection to a Postgres with a supported schema. Waits for one, for a short time.
    pub async fn lease(&self) -> Result<Lease<'_>, MetadataError> {
        self.lease_within(CONNECT_TIME_MAX).await
    }

    /// The same for a reading in the background. It waits for a slow connection, which calls can use after it.
    pub async fn lease_in_background(&self) -> Result<Lease<'_>, MetadataError> {
        self.lease_within(self.connect_time()).await
    }

    async fn lease_within(&self, patience: Duration) -> Result<Lease<'_>, MetadataError> {
        let patience = if self.away.load().is_some() { CONNECT_TIME_WHILE_UNREACHABLE } else { patience };
        let permit = timeout(patience, self.free.acquire())
            .await
            .map_err(|_| unavailable("all connections to postgres are in use"))?
            .map_err(|_| unavailable("the server is stopping"))?;
        let changes = self.hosts.refresh().await;
        let pool = self.pool.load_full();
        if self.changes.swap(changes, Ordering::AcqRel) != changes {
            pool.set_connect_options(self.hosts.options(self.present.load(Ordering::Acquire)));
        }
        // If a new connection is slow, the existing ones may still work, and calls may be using them. Other calls use
        // connections at the same time, so this may be wrong. Then working connections are replaced, or the next call
        // finds the hanging one.
        let is_new = pool.num_idle() == 0 && pool.size() < self.count_max;
        let connection = match timeout(patience, pool.acquire()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => {
                self.suspect();
                if !is_new {
                    self.renew(&pool);
                }
                return Err(self.unreachable());
            }
            Ok(Err(error)) => {
                self.suspect();
                return Err(self.hosts.of(self.present.load(Ordering::Acquire), translate(&error)));
            }
        };
        let mut lease = Lease { connection: Entered::new(connection), finished: false, _permit: permit };
        if !self.schema_known.load(Ordering::Acquire) {
            schema::require_served(&mut lease).await?;
            self.schema_known.store(true, Ordering::Release);
        }
        Ok(lease)
    }

    /// Ends the work on a connection and returns its result. Other calls may use the connection again unless the driver
    /// failed.
    pub fn conclude<T>(&self, lease: Lease<'_>, result: Result<T, Failure>) -> Result<T, MetadataError> {
        match &result {
            Err(failure) if failure.is_of_the_server() => self.suspect(),
            Err(Failure::Driver(_)) => {}
            _ => lease.finished(),
        }
        result.map_err(Failure::into_error)
    }

    /// Runs a reading in the background within a time limit, which grows with the time that a connection may take.
    pub async fn within_in_background<T>(
        &self,
        time_max: Duration,
        reading: impl Future<Output = Result<T, MetadataError>> + Send,
    ) -> Result<T, MetadataError> {
        self.within(time_max + self.connect_time().saturating_sub(CONNECT_TIME_MAX), reading).await
    }

    /// Runs a call within a time limit. A call that exceeds it indicates a hanging connection.
    pub async fn within<T>(
        &self,
        time_max: Duration,
        call: impl Future<Output = Result<T, MetadataError>> + Send,
    ) -> Result<T, MetadataError> {
        timeout(time_max, call).await.unwrap_or_else(|_| {
            self.suspect();
            self.renew(&self.pool.load_full());
            Err(unavailable("postgres timed out"))
        })
    }

    fn unreachable(&self) -> MetadataError {
        match &*self.away.load() {
            Some(reason) => unavailable(reason.as_str()),
            None => unavailable("timed out waiting for a postgres connection"),
        }
    }

    /// Drops all connections of a pool in which one hung, unless that was done already.
    fn renew(&self, hung: &Arc<PgPool>) {
        let options = self.hosts.options(self.present.load(Ordering::Acquire));
        let fresh = Arc::new(new_pool(options, self.count_max));
        let before = self.pool.compare_and_swap(hung, fresh);
        if Arc::ptr_eq(&before, hung) {
            self.renewals.inc();
            // Marks it as closed. No call waits for the orderly end of connections that may hang.
            drop(hung.close());
        }
    }

    /// Waits for a short time for the used connections, and closes all of them.
    pub async fn close(&self, patience: Duration) {
        self.free.close();
        let pool = self.pool.load_full();
        if timeout(patience, pool.close()).await.is_err() {
            tracing::warn!("connections to postgres did not close in time and were abandoned");
        }
    }
}

/// Each call bounds its time.
fn new_pool(options: PgConnectOptions, count_max: u32) -> PgPool {
    PgPoolOptions::new().max_connections(count_max).acquire_timeout(CONNECT_TIME_MAX_IF_SLOW).connect_lazy_with(options)
}

/// A connection in use. Unless its work is [finished](Self::finished), drop closes it in its current state.
pub(super) struct Lease<'a> {
    connection: Entered<PoolConnection<Postgres>>,
    finished: bool,
    _permit: SemaphorePermit<'a>,
}

impl Lease<'_> {
    /// Returns the idle connection, with no transaction open, for other calls.
    pub fn finished(mut self) {
        self.finished = true;
    }
}

impl Deref for Lease<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.connection.close_on_drop();
        }
    }
}
