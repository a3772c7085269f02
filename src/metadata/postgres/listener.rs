//! Receives notifications of other servers' changes, and tracks whether Postgres is reachable and which server is
//! writable.
//!
//! It has a separate connection. It returns [`News`] after a notification, at every poll, and after each connect.
//! Notifications during an interruption are lost, so the caller must read all definitions after it. Calls use the
//! server on which it listens.

use std::sync::Arc;
use std::time::Duration;

use prometheus::{IntCounter, IntGauge, Registry};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Acquire, AssertSqlSafe, Connection, PgConnection, Row};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use uuid::Uuid;

use super::connections::Connections;
use super::entered::Entered;
use super::error::{Failure, translate, unavailable};
use super::hosts::{Hosts, Unconnected};
use super::options::{BEGIN, CONNECT_TIME_MAX, CONNECT_TIME_MAX_IF_SLOW};
use super::queries;
use crate::domain::Revision;
use crate::metadata::{MetadataError, News};

const CHANNEL: &str = "liststore_metadata";
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// The smallest interval between checks of a suspected server.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct Listener {
    hosts: Arc<Hosts>,
    poll_interval: Duration,
    state: Mutex<State>,
    metrics: Metrics,
}

struct State {
    /// `None` before the first connection, and after a loss of it.
    listener: Option<Entered<PgListener>>,
    next_poll: Instant,
    /// No check of a suspected server happens earlier.
    next_check: Instant,
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
                "Change notifications from Postgres, including this server's changes.",
            )?,
            connections: IntCounter::new(
                "liststore_metadata_postgres_listens_total",
                "Times that this server started to listen for changes: once at start and after each lost connection.",
            )?,
            connected: IntGauge::new(
                "liststore_metadata_postgres_listening",
                "1 while this server listens for changes, 0 while it has no connection for it.",
            )?,
        };
        registry.register(Box::new(metrics.notifications.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.connected.clone()))?;
        Ok(metrics)
    }
}

impl Listener {
    pub fn new(hosts: Arc<Hosts>, poll_interval: Duration, registry: &Registry) -> prometheus::Result<Self> {
        let state = Mutex::new(State { listener: None, next_poll: Instant::now(), next_check: Instant::now() });
        Ok(Self { hosts, poll_interval, state, metrics: Metrics::register(registry)? })
    }

    /// Waits until there is something to read. For one caller at a time.
    pub async fn news(&self, connections: &Connections) -> News {
        let state = &mut *self.state.lock().await;
        let Some(listener) = &mut state.listener else {
            state.listener = Some(self.connect(connections).await);
            state.next_poll = Instant::now() + self.poll_interval;
            return News::Missed;
        };
        let reported = loop {
            let suspected = async {
                sleep_until(state.next_check).await;
                connections.suspected().await;
            };
            tokio::select! {
                reported = timeout_at(state.next_poll, listener.try_recv()) => match reported {
                    Ok(Ok(Some(_))) => {
                        self.metrics.notifications.inc();
                        while listener.next_buffered().is_some() {
                            self.metrics.notifications.inc();
                        }
                        break Ok(());
                    }
                    Ok(Ok(None)) => break Err(unavailable("postgres ended the connection")),
                    Ok(Err(error)) => break Err(translate(&error)),
                    Err(_) => {
                        state.next_poll = Instant::now() + self.poll_interval;
                        break self.answers(listener, connections.connect_time()).await;
                    }
                },
                // A failure of calls without a changed server causes no news, because readers retry on their own.
                () = suspected => {
                    let answer = self.answers(listener, connections.connect_time()).await;
                    state.next_check = Instant::now() + CHECK_INTERVAL;
                    if answer.is_err() {
                        break answer;
                    }
                }
            }
        };
        if let Err(error) = reported {
            tracing::debug!(%error, "stopped listening for definition changes");
            self.metrics.connected.set(0);
            state.listener = None;
        }
        // Also after a loss of the connection: the next reader detects the state of the other connections.
        News::Changed
    }

    /// A connection that only listens would never detect that its server is gone, or read-only.
    async fn answers(&self, listener: &mut PgListener, time_max: Duration) -> Result<(), MetadataError> {
        timeout(time_max, self.ask(listener)).await.unwrap_or_else(|_| Err(unavailable("postgres does not respond")))
    }

    async fn ask(&self, listener: &mut PgListener) -> Result<(), MetadataError> {
        let connection = listener.acquire().await.map_err(|error| translate(&error))?;
        self.hosts.require_kind(connection).await?;
        present_revision(connection).await.map(|_| ()).map_err(Failure::into_error)
    }

    /// Connects and listens, without a time limit, and directs calls to the same server. An attempt may take longer
    /// after one that timed out.
    async fn connect(&self, connections: &Connections) -> Entered<PgListener> {
        let (mut delay, mut time_max) = (RETRY_DELAY_MIN, CONNECT_TIME_MAX);
        loop {
            let began = Instant::now();
            match self.try_connect(time_max).await {
                Ok((number, listener)) => {
                    connections.set_host(number);
                    connections.set_connect_time(began.elapsed());
                    connections.set_unreachable(None);
                    self.metrics.connections.inc();
                    return listener;
                }
                Err(Unconnected { error, is_slow }) => {
                    connections.set_unreachable(Some(error.reason()));
                    time_max = if is_slow { (time_max * 2).min(CONNECT_TIME_MAX_IF_SLOW) } else { CONNECT_TIME_MAX };
                }
            }
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    async fn try_connect(&self, time_max: Duration) -> Result<(usize, Entered<PgListener>), Unconnected> {
        // A plain connection first. The driver's pool, which its listener uses, would retry refused connections without
        // ever reporting them.
        let (number, probe) = self.hosts.connect(time_max).await?;
        match timeout(time_max * 2, self.listen(number, probe, time_max)).await {
            Ok(Ok(listener)) => Ok((number, listener)),
            Ok(Err(error)) => Err(Unconnected { error, is_slow: false }),
            Err(_) => {
                let error = unavailable("timed out waiting for a postgres connection");
                Err(Unconnected { error, is_slow: true })
            }
        }
    }

    async fn listen(
        &self,
        number: usize,
        probe: PgConnection,
        time_max: Duration,
    ) -> Result<Entered<PgListener>, MetadataError> {
        // A separate pool, dropped with the listener, so that a hanging connection blocks no call. The attempt bounds
        // its time.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIME_MAX_IF_SLOW * 3)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.hosts.options(number));
        let mut listener = Entered::new(PgListener::connect_with(&pool).await.map_err(|error| translate(&error))?);
        listener.eager_reconnect(false);
        let is_notified = self.check_notifications(&mut listener, probe, time_max * 5 / 6).await?;
        self.metrics.connected.set(i64::from(is_notified));
        if !is_notified {
            tracing::warn!(
                "postgres notifications do not arrive, as behind a pooler in transaction mode: changes of other \
                 servers are detected only by polling (metadata.poll_interval_secs); use a direct connection or a \
                 pooler in session mode for immediate updates"
            );
        }
        Ok(listener)
    }

    /// Begins to listen, and checks with another connection whether notifications arrive.
    ///
    /// Behind a pooler in transaction mode, a waiting connection has no session of Postgres and receives nothing. It
    /// must not even listen there. Otherwise other clients would receive the notifications, which their drivers do not
    /// expect.
    async fn check_notifications(
        &self,
        listener: &mut PgListener,
        mut probe: PgConnection,
        time_max: Duration,
    ) -> Result<bool, MetadataError> {
        if !keeps_its_session(listener, &mut probe).await.map_err(|error| translate(&error))? {
            let _ = probe.close().await;
            return Ok(false);
        }
        listener.listen(CHANNEL).await.map_err(|error| translate(&error))?;
        let channel = format!("liststore_probe_{}", Uuid::new_v4().simple());
        listener.listen(&channel).await.map_err(|error| translate(&error))?;
        let notify = AssertSqlSafe(format!("NOTIFY {channel}"));
        sqlx::raw_sql(notify).execute(&mut probe).await.map_err(|error| translate(&error))?;
        let received = timeout(time_max, async {
            loop {
                match listener.try_recv().await {
                    Ok(Some(notification)) if notification.channel() == channel => return Ok(()),
                    Ok(Some(_)) => {}
                    Ok(None) => return Err(unavailable("postgres ended the connection")),
                    Err(error) => return Err(translate(&error)),
                }
            }
        });
        let received = received.await;
        // The orderly end may fail without effect.
        let _ = probe.close().await;
        match received {
            Ok(Ok(())) => {
                listener.unlisten(&channel).await.map_err(|error| translate(&error))?;
                Ok(true)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                // The listening session is reused by other clients.
                listener.unlisten_all().await.map_err(|error| translate(&error))?;
                Ok(false)
            }
        }
    }
}

/// Whether a connection has its own session of Postgres between two transactions. It leaves a mark in the session,
/// which it must find again and the probe must not. The probe would find it in the last used session, or in sessions
/// that are assigned in turn.
async fn keeps_its_session(listener: &mut PgListener, probe: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const ROUNDS: usize = 3;
    let listener = listener.acquire().await?;
    let mut alone = true;
    for _ in 0..ROUNDS {
        let mark = Uuid::new_v4().simple().to_string();
        leave_mark(listener, &mark).await?;
        sqlx::raw_sql("BEGIN").execute(&mut *probe).await?;
        let (others, own) = (mark_of(probe).await?, mark_of(listener).await?);
        sqlx::raw_sql("ROLLBACK").execute(&mut *probe).await?;
        alone &= own == mark && others != mark;
    }
    leave_mark(listener, "").await?;
    Ok(alone)
}

async fn leave_mark(connection: &mut PgConnection, mark: &str) -> Result<(), sqlx::Error> {
    let statement = AssertSqlSafe(format!("SELECT set_config('liststore.mark', '{mark}', false)"));
    sqlx::raw_sql(statement).execute(connection).await.map(|_| ())
}

async fn mark_of(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    let statement = "SELECT coalesce(current_setting('liststore.mark', true), '') AS mark";
    sqlx::raw_sql(statement).fetch_one(connection).await?.try_get("mark")
}

async fn present_revision(connection: &mut PgConnection) -> Result<Revision, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let revision = queries::revision(&mut transaction).await?;
    transaction.commit().await?;
    Ok(revision)
}
