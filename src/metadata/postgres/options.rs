//! What a Postgres store is opened with, and the time limits that bound every call to it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::error::unavailable;
use crate::metadata::MetadataError;

/// How long a read or a change may take in all. Below the 3 s within which a caller is to have an
/// answer even if Postgres gives none.
pub(super) const CALL_TIME_MAX: Duration = Duration::from_millis(2_500);
/// How long a call waits for one of the connections, and then for that connection to be usable.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_millis(1_200);
/// The same while Postgres is known to be away: long enough to find it back.
pub(super) const CONNECT_TIME_WHILE_AWAY: Duration = Duration::from_millis(300);
/// How long reading all definitions may take.
pub(super) const LOAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Postgres gives up a statement, a lock, or a transaction whose server went silent, after these.
const STATEMENT_TIME_MAX: Duration = Duration::from_millis(2_000);
const LOCK_TIME_MAX: Duration = Duration::from_millis(1_200);
const IDLE_IN_TRANSACTION_MAX: Duration = Duration::from_secs(3);

/// What a [`PostgresStore`](super::PostgresStore) is opened with.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=…`. Secret: it may hold a password.
    pub url: String,
    /// Connections in all, the one that listens for changes included. At least 2.
    pub connections_max: u32,
    /// How often the store is asked for changes although it told of none.
    pub poll_interval: Duration,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("connections_max", &self.connections_max)
            .field("poll_interval", &self.poll_interval)
            .finish_non_exhaustive()
    }
}

/// Reads a URL. Its text stays out of the error, since it may hold a password.
pub(super) fn parse(url: &str, application_name: &str) -> Result<PgConnectOptions, MetadataError> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| unavailable("metadata.postgres.url is no URL of the form postgres://user@host:port/database"))?;
    // What is slow or wrong is told by our own errors and metrics, and by Postgres's own log.
    Ok(options.application_name(application_name).disable_statement_logging())
}

/// The options of the connections that serve calls.
pub(super) fn serving(url: &str) -> Result<PgConnectOptions, MetadataError> {
    let millis = |limit: Duration| limit.as_millis().to_string();
    Ok(parse(url, "liststore")?.options([
        ("statement_timeout", millis(STATEMENT_TIME_MAX)),
        ("lock_timeout", millis(LOCK_TIME_MAX)),
        ("idle_in_transaction_session_timeout", millis(IDLE_IN_TRANSACTION_MAX)),
    ]))
}
