//! What a Postgres store is opened with, and the time limits that bound every call to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long a read or a change may take in all. Below the 3 s within which a caller is to have an
/// answer even if Postgres gives none.
pub(super) const CALL_TIME_MAX: Duration = Duration::from_millis(2_500);
/// How long a call waits for one of the connections, and then for that connection to be usable.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_millis(1_200);
/// The same while Postgres is known to be away: long enough to find it back.
pub(super) const CONNECT_TIME_WHILE_AWAY: Duration = Duration::from_millis(300);
/// How long reading all definitions may take.
pub(super) const LOAD_TIME_MAX: Duration = Duration::from_secs(30);
/// How each change and each reading begins. Postgres gives up a statement, a lock, or a transaction
/// whose server went silent, after these. They hold for the transaction alone: a pooler shares its
/// sessions with others, and refuses settings that a connection begins with.
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '1200ms'; \
                                SET LOCAL idle_in_transaction_session_timeout = '3s'";
/// The same with one snapshot for several statements.
pub(super) const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                                         SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '1200ms'; \
                                         SET LOCAL idle_in_transaction_session_timeout = '3s'";
/// The same for reading all definitions.
pub(super) const BEGIN_LOAD: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                                     SET LOCAL statement_timeout = '30s'; SET LOCAL lock_timeout = '1200ms'; \
                                     SET LOCAL idle_in_transaction_session_timeout = '3s'";

/// What a [`PostgresStore`](super::PostgresStore) is opened with.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=…`. Secret: it may hold a password.
    pub url: String,
    /// Where that stands, if it does in a file: new connections take the user and the password that it holds then.
    pub url_file: Option<PathBuf>,
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
