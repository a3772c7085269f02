//! Failures of Postgres, as errors of the metadata contract.
//!
//! The driver's text never leaves this module in an answer. A caller gets one of our reasons, with at most the SQLSTATE
//! (Postgres's documentation, appendix A).

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::metadata::MetadataError;

/// Why work on a connection failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Postgres, or the connection to it.
    Driver(sqlx::Error),
    /// The change was refused, or a row is malformed.
    Refused(MetadataError),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<MetadataError> for Failure {
    fn from(error: MetadataError) -> Self {
        Self::Refused(error)
    }
}

impl Failure {
    /// Whether Postgres rolled back the transaction after a collision with another: 40001 serialization failure, 40P01
    /// deadlock. A retry is possible.
    pub fn is_collision(&self) -> bool {
        matches!(self, Self::Driver(error) if matches!(sqlstate(error), Some("40001" | "40P01")))
    }

    /// Whether it indicates a changed server: gone, or read-only.
    pub fn is_of_the_server(&self) -> bool {
        let Self::Driver(error) = self else { return false };
        sqlstate(error).is_none_or(|code| code == "25006" || matches!(code.get(..2), Some("08" | "57")))
    }

    pub fn into_error(self) -> MetadataError {
        match self {
            Self::Driver(error) => translate(&error),
            Self::Refused(error) => error,
        }
    }
}

pub(super) fn unavailable(reason: impl Into<String>) -> MetadataError {
    MetadataError::Unavailable { reason: reason.into(), outcome_unknown: false }
}

fn internal(reason: impl Into<String>) -> MetadataError {
    MetadataError::Internal { reason: reason.into(), outcome_unknown: false }
}

/// The same error, for a change that may have been made nevertheless.
pub(super) fn with_unknown_outcome(error: MetadataError) -> MetadataError {
    match error {
        MetadataError::Unavailable { reason, .. } => MetadataError::Unavailable { reason, outcome_unknown: true },
        MetadataError::Internal { reason, .. } => MetadataError::Internal { reason, outcome_unknown: true },
        other => other,
    }
}

/// Whether a COMMIT with this failure certainly had no effect. An error ends the statement, so the transaction was
/// rolled back. A worse failure may have happened after it became durable.
pub(super) fn commit_was_undone(error: &sqlx::Error) -> bool {
    database_error(error).is_some_and(|error| error.severity() == PgSeverity::Error)
}

fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    match error {
        sqlx::Error::Database(error) => error.try_downcast_ref(),
        _ => None,
    }
}

fn sqlstate(error: &sqlx::Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}

pub(super) fn translate(error: &sqlx::Error) -> MetadataError {
    match error {
        sqlx::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => unavailable(handshake_failure(error)),
            None => unavailable(format!("no connection to postgres: {}", error.kind())),
        },
        sqlx::Error::Tls(_) => unavailable("the TLS handshake with postgres failed"),
        sqlx::Error::Protocol(_) => unavailable("unexpected response from postgres"),
        sqlx::Error::PoolTimedOut => unavailable("timed out waiting for a postgres connection"),
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => unavailable("the connections are being closed"),
        sqlx::Error::Configuration(_) => unavailable("metadata.postgres.url has an unsupported option"),
        sqlx::Error::Database(_) => match database_error(error) {
            Some(error) => refused(error),
            None => internal("postgres refused a statement"),
        },
        other => {
            tracing::error!(error = %other, "cannot parse a response from postgres");
            internal("cannot parse a response from postgres")
        }
    }
}

fn handshake_failure(error: &rustls::Error) -> String {
    use rustls::CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer,
    };
    let problem = match error {
        // Signed by another key of an authority with the same name.
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "is not signed by a trusted authority (sslrootcert)"
        }
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => "has expired",
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "is for another host name"
        }
        rustls::Error::InvalidCertificate(_) => "is not valid",
        _ => return "the TLS handshake with postgres failed".to_owned(),
    };
    format!("the TLS handshake with postgres failed: its certificate {problem}")
}

fn refused(error: &PgDatabaseError) -> MetadataError {
    let code = error.code();
    match (code, code.get(..2).unwrap_or_default()) {
        ("28P01", _) | (_, "28") => unavailable("postgres refuses the login: check user and password"),
        ("3D000", _) => unavailable("the database does not exist"),
        ("42P01" | "3F000", _) => unavailable("the schema is missing: run `liststore migrate`"),
        ("42501", _) => unavailable("permission denied by postgres: grant the role access to the schema's tables"),
        ("25006", _) => unavailable("this postgres server is read-only or a standby"),
        ("53300", _) => unavailable("postgres has reached its connection limit"),
        ("55P03", _) => unavailable("timed out waiting for a lock held by another change"),
        ("08P01", _) if error.message().contains("statement pooling") => unavailable(
            "changes need transactions, but the postgres pooler is in statement mode: set its pool_mode to session or \
             transaction",
        ),
        ("08P01", _) => unavailable(
            "postgres or its pooler refuses the connection's startup parameters (SQLSTATE 08P01): remove `options` \
             from metadata.postgres.url if you use a pooler",
        ),
        ("57014", _) => unavailable("postgres timed out"),
        ("57P03", _) => unavailable("postgres is starting up or shutting down"),
        ("57P01" | "57P02", _) => unavailable("postgres ended the connection"),
        ("40001" | "40P01", _) => unavailable("the change conflicted with other changes too often"),
        (_, "08" | "25" | "53" | "57" | "58") => unavailable(format!("postgres is unavailable (SQLSTATE {code})")),
        _ => {
            tracing::error!(sqlstate = code, reason = error.message(), "postgres refused a statement");
            internal(format!("postgres refused a statement (SQLSTATE {code})"))
        }
    }
}
