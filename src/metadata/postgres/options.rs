//! The options of a Postgres store, and the time limits that bound every call to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The total time limit of a read or a change. Below the 3 s within which a caller must get an answer even if Postgres
/// gives none.
pub(super) const CALL_TIME_MAX: Duration = Duration::from_millis(2_500);
/// How long a call waits for a connection, and then for that connection to become usable.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_millis(1_200);
/// How long an attempt to connect in the background may take if shorter ones timed out. A server with little CPU time,
/// or far from Postgres, would otherwise give up each attempt and begin again.
pub(super) const CONNECT_TIME_MAX_IF_SLOW: Duration = Duration::from_millis(9_600);
/// The same while Postgres is unavailable: long enough to detect its return.
pub(super) const CONNECT_TIME_WHILE_UNREACHABLE: Duration = Duration::from_millis(300);
/// How long reading all definitions may take.
pub(super) const LOAD_TIME_MAX: Duration = Duration::from_secs(30);
/// The beginning of each change and each reading. Postgres aborts a statement, a lock wait, or a transaction of a
/// silent server after these times. They apply only to the transaction, because a pooler shares its sessions with other
/// clients, and refuses settings at the start of a connection.
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '1200ms'; \
                                SET LOCAL idle_in_transaction_session_timeout = '3s'";
/// The same with one snapshot for several statements.
pub(super) const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                                         SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '1200ms'; \
                                         SET LOCAL idle_in_transaction_session_timeout = '3s'";
/// The same for reading all definitions. A server with little CPU time decodes them in the transaction.
pub(super) const BEGIN_LOAD: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                                     SET LOCAL statement_timeout = '30s'; SET LOCAL lock_timeout = '1200ms'; \
                                     SET LOCAL idle_in_transaction_session_timeout = '30s'";

/// The options of a [`PostgresStore`](super::PostgresStore).
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=…`. Secret: it may hold a password.
    pub url: String,
    /// The file with the URL, if it is in one. New connections use the user and the password that it contains then.
    pub url_file: Option<PathBuf>,
    /// The total number of connections, including the one that listens for changes. At least 2.
    pub connections_max: u32,
    /// How often the store polls for changes without a notification.
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
