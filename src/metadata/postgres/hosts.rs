//! The servers that a URL names, and the choice of the writable one.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use tokio::time::timeout;

use super::error::{translate, unavailable};
use crate::metadata::MetadataError;
use crate::metadata::postgres_url::{Host, PostgresUrl, SessionKind};

/// In one simple message, which every pooler passes on.
const KIND: &str = "SELECT CASE WHEN pg_is_in_recovery() THEN 'is a standby' \
                    WHEN current_setting('transaction_read_only') = 'on' THEN 'refuses writes' ELSE '' END AS kind";

/// All servers that a URL names, in its order.
pub(super) struct Hosts {
    servers: ArcSwap<Vec<Server>>,
    kind: SessionKind,
    source: Option<Source>,
}

type Server = (Host, PgConnectOptions);

/// Why no server was connected.
pub(super) struct Unconnected {
    pub error: MetadataError,
    /// Whether every server took too long, so that a longer attempt may succeed. If one of several answers, the silent
    /// ones may be gone, and longer attempts would delay the change to another server.
    pub is_slow: bool,
}

/// The file with the URL.
struct Source {
    file: PathBuf,
    application_name: String,
    read: Mutex<Read>,
}

/// The last content of the file, usable or not.
#[derive(Default)]
struct Read {
    url: String,
    /// The number of usable changes so far.
    changes: u64,
}

impl Hosts {
    /// The error contains no part of the URL, which may be secret, except a parameter's name.
    pub fn parse(url: &str, application_name: &str) -> Result<Self, MetadataError> {
        let url = parsed(url, "metadata.postgres.url")?;
        let servers = ArcSwap::from_pointee(servers(&url, application_name)?);
        Ok(Self { servers, kind: url.kind, source: None })
    }

    /// Reads the URL from a file, which may change later.
    pub fn of_file(self, file: PathBuf, url: &str, application_name: &str) -> Self {
        let read = Mutex::new(Read { url: url.to_owned(), changes: 0 });
        Self { source: Some(Source { file, application_name: application_name.to_owned(), read }), ..self }
    }

    /// Adopts the user and the password of a changed file. Returns the number of changes so far.
    pub async fn refresh(&self) -> u64 {
        let Some(source) = &self.source else { return 0 };
        let found = tokio::fs::read_to_string(&source.file).await;
        let mut read = source.read.lock().unwrap_or_else(PoisonError::into_inner);
        let path = source.file.display();
        match found {
            Ok(text) if text.trim() == read.url => {}
            Ok(text) => {
                read.url = text.trim().to_owned();
                match self.next(&read.url, &source.application_name) {
                    Ok(servers) => {
                        self.servers.store(Arc::new(servers));
                        read.changes += 1;
                        tracing::info!(%path, "metadata.postgres.url_file changed: new connections use it");
                    }
                    Err(error) => {
                        tracing::warn!(%path, %error, "ignoring the new content of metadata.postgres.url_file");
                    }
                }
            }
            Err(error) => tracing::debug!(%path, %error, "cannot read metadata.postgres.url_file"),
        }
        read.changes
    }

    fn next(&self, url: &str, application_name: &str) -> Result<Vec<Server>, MetadataError> {
        let url = parsed(url, "metadata.postgres.url_file")?;
        let next = servers(&url, application_name)?;
        let present = self.servers.load();
        let place = |servers: &[Server]| -> Vec<_> {
            let place = |(host, options): &Server| (host.clone(), options.get_database().map(str::to_owned));
            servers.iter().map(place).collect()
        };
        if place(&next) != place(&present) || url.kind != self.kind {
            return Err(unavailable("it names other servers or another database than at start: restart this server"));
        }
        Ok(next)
    }

    /// The connection options for the server with a number that [`Self::connect`] returned; 0 is the first.
    pub fn options(&self, number: usize) -> PgConnectOptions {
        let servers = self.servers.load();
        servers[number.min(servers.len() - 1)].1.clone()
    }

    /// Connects to the first suitable server, and returns its number. The error lists the problem of each server.
    pub async fn connect(&self, each_time_max: Duration) -> Result<(usize, PgConnection), Unconnected> {
        self.refresh().await;
        let servers = self.servers.load_full();
        let (mut problems, mut is_slow) = (Vec::new(), true);
        for (number, (host, options)) in servers.iter().enumerate() {
            let connected = async {
                let mut connection = PgConnection::connect_with(options).await.map_err(|error| translate(&error))?;
                self.require_kind(&mut connection).await?;
                Ok(connection)
            };
            let error = match timeout(each_time_max, connected).await {
                Ok(Ok(connection)) => return Ok((number, connection)),
                Ok(Err(error)) => {
                    is_slow = false;
                    error
                }
                Err(_) => unavailable("timed out waiting for a postgres connection"),
            };
            problems.push((host, error));
        }
        let error = match problems.as_slice() {
            [(host, error)] => of_host(host, error.clone()),
            several => {
                let reported: Vec<_> =
                    several.iter().map(|(host, error)| format!("{host}: {}", error.reason())).collect();
                unavailable(format!("no server accepts writes: {}", reported.join("; ")))
            }
        };
        Err(Unconnected { error, is_slow })
    }

    /// The same error, with the server of this number.
    pub fn of(&self, number: usize, error: MetadataError) -> MetadataError {
        let servers = self.servers.load();
        of_host(&servers[number.min(servers.len() - 1)].0, error)
    }

    /// Refuses a server that does not have, or no longer has, the role that the URL requires.
    pub async fn require_kind(&self, connection: &mut PgConnection) -> Result<(), MetadataError> {
        if self.kind == SessionKind::Any {
            return Ok(());
        }
        let row = sqlx::raw_sql(KIND).fetch_one(connection).await.map_err(|error| translate(&error))?;
        let kind: String = row.try_get("kind").map_err(|error| translate(&error))?;
        match (kind.as_str(), self.kind) {
            ("", _) | ("refuses writes", SessionKind::Primary) => Ok(()),
            (problem, _) => Err(unavailable(format!("postgres {problem}"))),
        }
    }
}

/// `setting` is the setting with the URL.
fn parsed(url: &str, setting: &str) -> Result<PostgresUrl, MetadataError> {
    PostgresUrl::parse(url).map_err(|problem| unavailable(format!("{setting} {problem}")))
}

fn servers(url: &PostgresUrl, application_name: &str) -> Result<Vec<Server>, MetadataError> {
    url.hosts.iter().map(|host| Ok((host.clone(), options(url, host, application_name)?))).collect()
}

fn of_host(host: &Host, error: MetadataError) -> MetadataError {
    match error {
        MetadataError::Unavailable { reason, outcome_unknown } => {
            MetadataError::Unavailable { reason: format!("{reason} ({host})"), outcome_unknown }
        }
        other => other,
    }
}

/// The driver gets a URL built from the parsed parts. If it has no password, the driver uses `PGPASSWORD` or a password
/// file.
fn options(url: &PostgresUrl, host: &Host, application_name: &str) -> Result<PgConnectOptions, MetadataError> {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut made = "postgres://".to_owned();
    if let Some(user) = &url.user {
        made += &encoded(user);
    }
    if let Some(password) = &url.password {
        made += &format!(":{}", encoded(password));
    }
    let name = match host.name.as_str() {
        socket if socket.starts_with('/') => encoded(socket),
        address if address.contains(':') => format!("[{address}]"),
        name => name.to_owned(),
    };
    made += &format!("@{name}:{}/{}", host.port, url.database.as_deref().map(encoded).unwrap_or_default());
    made += &format!("?sslmode={}", url.tls);
    let certificate = url.client_certificate.as_ref();
    for (parameter, value) in [
        ("sslrootcert", url.root_certificate.as_ref()),
        ("sslcert", certificate.map(|(certificate, _)| certificate)),
        ("sslkey", certificate.map(|(_, key)| key)),
        ("options", url.options.as_ref()),
    ] {
        if let Some(value) = value {
            made += &format!("&{parameter}={}", encoded(value));
        }
    }
    let options =
        PgConnectOptions::from_str(&made).map_err(|_| unavailable("metadata.postgres.url has an invalid host name"))?;
    Ok(options
        .application_name(url.application_name.as_deref().unwrap_or(application_name))
        // A pooler refuses unknown parameters at the start of a connection, and no value here is a fraction.
        .extra_float_digits(None)
        // Our errors and metrics, and Postgres's log, report slow and failed statements.
        .disable_statement_logging())
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgSslMode;

    use super::*;

    #[test]
    fn the_driver_gets_the_parameters_of_the_url() {
        let url = "postgres://us%40er:p%3A%2F@db.internal,[::1]:3,%2Frun%2Fpg/d%20b?sslmode=require\
                   &options=-c%20geqo%3Doff&application_name=mine";
        let hosts = Hosts::parse(url, "liststore").ok().unwrap();
        let first = hosts.options(0);
        assert_eq!((first.get_host(), first.get_port(), first.get_username()), ("db.internal", 5432, "us@er"));
        assert_eq!((first.get_database(), first.get_application_name()), (Some("d b"), Some("mine")));
        assert_eq!(first.get_options(), Some("-c geqo=off"));
        assert!(matches!(first.get_ssl_mode(), PgSslMode::Require));
        assert_eq!((hosts.options(1).get_host(), hosts.options(1).get_port()), ("[::1]", 3));
        assert_eq!(hosts.options(2).get_socket().unwrap().to_str(), Some("/run/pg"));
        assert_eq!(
            Hosts::parse("postgres://db", "liststore").ok().unwrap().options(0).get_application_name(),
            Some("liststore")
        );
        assert!(Hosts::parse("postgres://a b/x", "liststore").is_err());
    }
}
