//! The bounded set of connections that calls use, and what becomes of one that fails.
//!
//! A connection whose work was cut short, or that Postgres complained about, is never used again.
//! When one hangs, all idle ones are suspects: they reach Postgres by the same way, and each would
//! cost a caller its whole time. Then the driver's pool is replaced as a whole.

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
use super::options::{CONNECT_TIME_MAX, CONNECT_TIME_WHILE_AWAY};
use super::schema;
use crate::metadata::MetadataError;

pub(super) struct Connections {
    hosts: Arc<Hosts>,
    /// The number of the server that is used.
    present: AtomicUsize,
    /// How often the servers' users and passwords had changed when the pool was last told.
    changes: AtomicU64,
    /// Tells the listener that the server should be looked at, and perhaps another be taken.
    suspected: Notify,
    count_max: u32,
    pool: ArcSwap<PgPool>,
    free: Semaphore,
    /// Why Postgres could not be reached when that was last tried; none when it could.
    away: ArcSwapOption<String>,
    /// Whether the schema was seen to be the one that this server knows.
    schema_known: AtomicBool,
    renewals: IntCounter,
}

impl Connections {
    /// Connects to nothing yet. Must be called on a tokio runtime.
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
            schema_known: AtomicBool::new(false),
            hosts,
            present: AtomicUsize::new(0),
            suspected: Notify::new(),
            count_max,
            renewals,
        })
    }

    /// Remembers whether Postgres can be reached at all.
    pub fn set_away(&self, reason: Option<String>) {
        self.away.store(reason.map(Arc::new));
    }

    /// Uses the server of this number from now on.
    pub fn set_host(&self, number: usize) {
        if self.present.swap(number, Ordering::AcqRel) != number {
            tracing::warn!("switched to another postgres server");
            self.schema_known.store(false, Ordering::Release);
            self.renew(&self.pool.load_full());
        }
    }

    /// Has the server looked at soon: it seems not to be what it was.
    pub fn suspect(&self) {
        self.suspected.notify_one();
    }

    /// Waits until the server is suspected.
    pub async fn suspected(&self) {
        self.suspected.notified().await;
    }

    /// A connection to a Postgres whose schema this server knows. Waits for one, but not long.
    pub async fn lease(&self) -> Result<Lease<'_>, MetadataError> {
        let patience = if self.away.load().is_some() { CONNECT_TIME_WHILE_AWAY } else { CONNECT_TIME_MAX };
        let permit = timeout(patience, self.free.acquire())
            .await
            .map_err(|_| unavailable("all connections to postgres are in use"))?
            .map_err(|_| unavailable("the server is stopping"))?;
        let changes = self.hosts.refresh().await;
        let pool = self.pool.load_full();
        if self.changes.swap(changes, Ordering::AcqRel) != changes {
            pool.set_connect_options(self.hosts.options(self.present.load(Ordering::Acquire)));
        }
        let connection = match timeout(patience, pool.acquire()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => {
                self.suspect();
                self.renew(&pool);
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

    /// What came of the work on a connection, which others may use again unless the driver failed.
    pub fn conclude<T>(&self, lease: Lease<'_>, result: Result<T, Failure>) -> Result<T, MetadataError> {
        match &result {
            Err(failure) if failure.is_of_the_server() => self.suspect(),
            Err(Failure::Driver(_)) => {}
            _ => lease.finished(),
        }
        result.map_err(Failure::into_error)
    }

    /// Runs a call within a time. One that takes longer shows that its connection hangs.
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

    /// Gives up all connections of a pool in which one hung, unless that was done already.
    fn renew(&self, hung: &Arc<PgPool>) {
        let options = self.hosts.options(self.present.load(Ordering::Acquire));
        let fresh = Arc::new(new_pool(options, self.count_max));
        let before = self.pool.compare_and_swap(hung, fresh);
        if Arc::ptr_eq(&before, hung) {
            self.renewals.inc();
            // Marks it as closed; nobody waits for the goodbyes of connections that may hang.
            drop(hung.close());
        }
    }

    /// Waits, not for long, for what is in use, and closes all connections.
    pub async fn close(&self, patience: Duration) {
        self.free.close();
        let pool = self.pool.load_full();
        if timeout(patience, pool.close()).await.is_err() {
            tracing::warn!("connections to postgres did not close in time and were abandoned");
        }
    }
}

fn new_pool(options: PgConnectOptions, count_max: u32) -> PgPool {
    PgPoolOptions::new().max_connections(count_max).acquire_timeout(CONNECT_TIME_MAX).connect_lazy_with(options)
}

/// A connection in use. Unless its work is [finished](Self::finished), it is closed, with whatever
/// state it is in.
pub(super) struct Lease<'a> {
    connection: Entered<PoolConnection<Postgres>>,
    finished: bool,
    _permit: SemaphorePermit<'a>,
}

impl Lease<'_> {
    /// The connection is idle again, with no transaction open: others may use it.
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
