//! Hears of changes that other servers make, and knows whether Postgres can be reached, and which of
//! its servers takes writes.
//!
//! It has a connection of its own, and says [`News`] after a notification, at every poll, and after
//! it had to connect: what was notified while there was no connection is lost, so all definitions
//! are to be read again then. Calls are made where it listens.

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
use super::hosts::Hosts;
use super::options::{BEGIN, CONNECT_TIME_MAX};
use super::queries;
use crate::domain::Revision;
use crate::metadata::{MetadataError, News};

const CHANNEL: &str = "liststore_metadata";
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// Suspicions are looked into at most this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How long a notification of this server's own may take to come back to it.
const HEAR_TIME_MAX: Duration = Duration::from_secs(1);

pub(super) struct Listener {
    hosts: Arc<Hosts>,
    poll_interval: Duration,
    state: Mutex<State>,
    metrics: Metrics,
}

struct State {
    /// None before the first connection, and after one was lost.
    listener: Option<Entered<PgListener>>,
    next_poll: Instant,
    /// Before this a suspicion is not looked into.
    next_look: Instant,
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
        let state = Mutex::new(State { listener: None, next_poll: Instant::now(), next_look: Instant::now() });
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
        let told = loop {
            let suspected = async {
                sleep_until(state.next_look).await;
                connections.suspected().await;
            };
            tokio::select! {
                told = timeout_at(state.next_poll, listener.try_recv()) => match told {
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
                        break self.answers(listener).await;
                    }
                },
                // What makes calls fail and leaves the server as it was is no news: whoever reads in vain
                // tries again by itself.
                () = suspected => {
                    let answer = self.answers(listener).await;
                    state.next_look = Instant::now() + LOOK_INTERVAL;
                    if answer.is_err() {
                        break answer;
                    }
                }
            }
        };
        if let Err(error) = told {
            tracing::debug!(%error, "stopped listening for definition changes");
            self.metrics.connected.set(0);
            state.listener = None;
        }
        // Also when the connection was lost: whoever reads now finds out about the others.
        News::Changed
    }

    /// A connection that only listens would never notice that its other end is gone, or takes no writes
    /// any more.
    async fn answers(&self, listener: &mut PgListener) -> Result<(), MetadataError> {
        timeout(CONNECT_TIME_MAX, self.ask(listener))
            .await
            .unwrap_or_else(|_| Err(unavailable("postgres does not respond")))
    }

    async fn ask(&self, listener: &mut PgListener) -> Result<(), MetadataError> {
        let connection = listener.acquire().await.map_err(|error| translate(&error))?;
        self.hosts.require_kind(connection).await?;
        present_revision(connection).await.map(|_| ()).map_err(Failure::into_error)
    }

    /// Connects and listens, however long that takes, and has calls made where it listens.
    async fn connect(&self, connections: &Connections) -> Entered<PgListener> {
        let mut delay = RETRY_DELAY_MIN;
        loop {
            match self.try_connect().await {
                Ok((number, listener)) => {
                    connections.set_host(number);
                    connections.set_away(None);
                    self.metrics.connections.inc();
                    return listener;
                }
                Err(error) => connections.set_away(Some(error.reason())),
            }
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    async fn try_connect(&self) -> Result<(usize, Entered<PgListener>), MetadataError> {
        // A plain connection first: the driver's pool, through which its listener connects, would
        // try again and again while connections are refused, and never say that they are.
        let (number, probe) = self.hosts.connect(CONNECT_TIME_MAX).await?;
        let listen = timeout(CONNECT_TIME_MAX * 2, self.listen(number, probe)).await;
        let listener = listen.unwrap_or_else(|_| Err(unavailable("timed out waiting for a postgres connection")))?;
        Ok((number, listener))
    }

    async fn listen(&self, number: usize, probe: PgConnection) -> Result<Entered<PgListener>, MetadataError> {
        // A pool of its own, thrown away with the listener, so that a connection that hangs is in
        // nobody's way.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIME_MAX)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.hosts.options(number));
        let mut listener = Entered::new(PgListener::connect_with(&pool).await.map_err(|error| translate(&error))?);
        listener.eager_reconnect(false);
        let hears = self.hears(&mut listener, probe).await?;
        self.metrics.connected.set(i64::from(hears));
        if !hears {
            tracing::warn!(
                "postgres notifications do not arrive, as behind a pooler in transaction mode: changes of other \
                 servers are detected only by polling (metadata.poll_interval_secs); use a direct connection or a \
                 pooler in session mode for immediate updates"
            );
        }
        Ok(listener)
    }

    /// Begins to listen, and finds out whether notifications arrive: one that is sent on another
    /// connection does. Behind a pooler in transaction mode a connection that waits belongs to no session
    /// of Postgres, and hears nothing; it must not even listen, or others would be told in its place,
    /// whose drivers expect nothing of the kind.
    async fn hears(&self, listener: &mut PgListener, mut probe: PgConnection) -> Result<bool, MetadataError> {
        if !keeps_its_session(listener, &mut probe).await.map_err(|error| translate(&error))? {
            let _ = probe.close().await;
            return Ok(false);
        }
        listener.listen(CHANNEL).await.map_err(|error| translate(&error))?;
        let channel = format!("liststore_probe_{}", Uuid::new_v4().simple());
        listener.listen(&channel).await.map_err(|error| translate(&error))?;
        let notify = AssertSqlSafe(format!("NOTIFY {channel}"));
        sqlx::raw_sql(notify).execute(&mut probe).await.map_err(|error| translate(&error))?;
        let heard = timeout(HEAR_TIME_MAX, async {
            loop {
                match listener.try_recv().await {
                    Ok(Some(notification)) if notification.channel() == channel => return Ok(()),
                    Ok(Some(_)) => {}
                    Ok(None) => return Err(unavailable("postgres ended the connection")),
                    Err(error) => return Err(translate(&error)),
                }
            }
        });
        let heard = heard.await;
        // Nothing depends on how the goodbye goes.
        let _ = probe.close().await;
        match heard {
            Ok(Ok(())) => {
                listener.unlisten(&channel).await.map_err(|error| translate(&error))?;
                Ok(true)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                // What listens is a session that others use next.
                listener.unlisten_all().await.map_err(|error| translate(&error))?;
                Ok(false)
            }
        }
    }
}

/// Whether a connection has a session of Postgres to itself also between two transactions. A mark that it
/// leaves there is found again by it, and by nobody else: not while another takes the session that was
/// used last, and not when that is handed out in turn.
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
