//! Hears of changes that other servers make, and knows whether Postgres can be reached.
//!
//! It has a connection of its own, and says [`News`] after a notification, at every poll, and after
//! it had to connect: what was notified while there was no connection is lost, so all definitions
//! are to be read again then.

use std::time::Duration;

use prometheus::{IntCounter, IntGauge, Registry};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Acquire, Connection, PgConnection};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connections::Connections;
use super::entered::Entered;
use super::error::{Failure, translate, unavailable};
use super::options::CONNECT_TIME_MAX;
use super::queries;
use crate::metadata::{MetadataError, News};

const CHANNEL: &str = "liststore_metadata";
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

pub(super) struct Listener {
    options: PgConnectOptions,
    poll_interval: Duration,
    state: Mutex<State>,
    metrics: Metrics,
}

struct State {
    /// None before the first connection, and after one was lost.
    listener: Option<Entered<PgListener>>,
    next_poll: Instant,
}

struct Metrics {
    notifications: IntCounter,
    connections: IntCounter,
    connected: IntGauge,
}

impl Metrics {
    fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            notifications: IntCounter::new(
                "liststore_metadata_postgres_notifications_total",
                "Changes that Postgres told this server of, its own included.",
            )?,
            connections: IntCounter::new(
                "liststore_metadata_postgres_listens_total",
                "Times that this server began to listen for changes: once, and after each lost connection.",
            )?,
            connected: IntGauge::new(
                "liststore_metadata_postgres_listening",
                "Whether this server listens for changes at present (1) or has no connection for it (0).",
            )?,
        };
        registry.register(Box::new(metrics.notifications.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.connected.clone()))?;
        Ok(metrics)
    }
}

impl Listener {
    pub fn new(options: PgConnectOptions, poll_interval: Duration, registry: &Registry) -> prometheus::Result<Self> {
        let state = Mutex::new(State { listener: None, next_poll: Instant::now() });
        Ok(Self { options, poll_interval, state, metrics: Metrics::register(registry)? })
    }

    /// Waits until there is something to read. For one caller at a time.
    pub async fn news(&self, connections: &Connections) -> News {
        let state = &mut *self.state.lock().await;
        let Some(listener) = &mut state.listener else {
            state.listener = Some(self.connect(connections).await);
            state.next_poll = Instant::now() + self.poll_interval;
            return News::Missed;
        };
        let told = match timeout_at(state.next_poll, listener.try_recv()).await {
            Ok(Ok(Some(_))) => {
                self.metrics.notifications.inc();
                while listener.next_buffered().is_some() {
                    self.metrics.notifications.inc();
                }
                Ok(())
            }
            Ok(Ok(None)) => Err(unavailable("postgres ended the connection")),
            Ok(Err(error)) => Err(translate(&error)),
            Err(_) => {
                state.next_poll = Instant::now() + self.poll_interval;
                // A connection that only listens would never notice that its other end is gone.
                match timeout(CONNECT_TIME_MAX, answers(listener)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(unavailable("postgres does not answer")),
                }
            }
        };
        if let Err(error) = told {
            tracing::debug!(%error, "no longer listening for changes of definitions");
            self.metrics.connected.set(0);
            state.listener = None;
        }
        // Also when the connection was lost: whoever reads now finds out about the others.
        News::Changed
    }

    /// Connects and listens, however long that takes.
    async fn connect(&self, connections: &Connections) -> Entered<PgListener> {
        let mut delay = RETRY_DELAY_MIN;
        loop {
            let error = match timeout(CONNECT_TIME_MAX * 2, self.try_connect()).await {
                Ok(Ok(listener)) => {
                    connections.set_away(None);
                    self.metrics.connections.inc();
                    self.metrics.connected.set(1);
                    return listener;
                }
                Ok(Err(error)) => error,
                Err(_) => unavailable("postgres gave no connection in time"),
            };
            connections.set_away(Some(error.reason()));
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    async fn try_connect(&self) -> Result<Entered<PgListener>, MetadataError> {
        // A plain connection first: the driver's pool, through which its listener connects, would
        // try again and again while connections are refused, and never say that they are.
        let probe = PgConnection::connect_with(&self.options).await.map_err(|error| translate(&error))?;
        let _ = probe.close().await;
        // A pool of its own, thrown away with the listener, so that a connection that hangs is in
        // nobody's way.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIME_MAX)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.options.clone());
        let mut listener = Entered::new(PgListener::connect_with(&pool).await.map_err(|error| translate(&error))?);
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await.map_err(|error| translate(&error))?;
        Ok(listener)
    }
}

async fn answers(listener: &mut PgListener) -> Result<(), MetadataError> {
    let connection = listener.acquire().await.map_err(|error| translate(&error))?;
    queries::revision(connection).await.map(|_| ()).map_err(Failure::into_error)
}
