//! What goes wrong between a command and its server, each in one line.

use std::error::Error as _;
use std::fmt::Display;
use std::time::Duration;

use reqwest::StatusCode;

use super::printable::printable;
use crate::wire::{HealthRead, ProblemBody};

/// Enough of a foreign answer to know it by.
const EXCERPT_CHARS_MAX: usize = 200;

/// An error that the server documents.
#[derive(Debug, Clone)]
pub struct Problem {
    pub details: ProblemBody,
    pub retry_after: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// The request was not sent.
    #[error(
        "cannot reach {url}: {reason}; start a server there with `liststore serve`, or name another with --url or \
         LISTSTORE_URL"
    )]
    Unreachable { url: String, reason: String },
    /// The same: who answered has shown a certificate that does not hold.
    #[error(
        "cannot trust {url}: {reason}; name its certificate authority with --ca-file or LISTSTORE_CA_FILE if the \
         system does not trust it"
    )]
    Untrusted { url: String, reason: String },
    /// No server listens in a data directory.
    #[error("no server answers at {path}: {reason}; name the data directory of a running server with --data-dir")]
    NoSocket { path: String, reason: String },
    /// The request was sent, and no answer came.
    #[error("no response from {url}: {reason}")]
    NoAnswer { url: String, reason: String },
    #[error("{}", line(.0))]
    Problem(Box<Problem>),
    /// What it says of itself when it is asked whether it is.
    #[error("{url} is not ready: {health}")]
    NotReady { url: String, health: String },
    /// An error of something that is no Liststore server.
    #[error("{url} answered with HTTP status {status}: is it a liststore server? {excerpt}")]
    Foreign { url: String, status: u16, excerpt: String },
    #[error("this version of liststore cannot read the server's response: {0}")]
    Unreadable(String),
}

fn line(Problem { details: problem, .. }: &Problem) -> String {
    let field = problem.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
    let outcome = if problem.outcome_unknown { "; the change may have been applied" } else { "" };
    printable(&format!("{field}{}{outcome} ({}, HTTP status {})", problem.detail, problem.code, problem.status))
}

/// An error with its causes, innermost last.
pub fn causes(error: &reqwest::Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.join(": ")
}

/// The innermost cause, which is what a person can act on.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Whether the server's certificate is why there is no connection.
fn is_of_certificate(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    while let Some(outer) = cause {
        let mut inner = outer;
        // It is no cause of an error of input or output, but the error itself.
        while let Some(wrapped) = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            inner = wrapped;
        }
        if matches!(inner.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        cause = outer.source();
    }
    false
}

impl ClientError {
    pub fn of_transport(url: &impl Display, error: &reqwest::Error) -> Self {
        let url = url.to_string();
        if error.is_connect() && is_of_certificate(error) {
            Self::Untrusted { url, reason: root_cause(error) }
        } else if error.is_connect() {
            Self::Unreachable { url, reason: root_cause(error) }
        } else if error.is_timeout() {
            Self::NoAnswer { url, reason: "timed out".to_owned() }
        } else {
            Self::NoAnswer { url, reason: root_cause(error) }
        }
    }

    pub fn of_response(
        url: &impl Display,
        status: StatusCode,
        is_problem: bool,
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> Self {
        if is_problem && let Ok(details) = serde_json::from_slice(body) {
            return Self::Problem(Box::new(Problem { details, retry_after }));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE
            && let Ok(health) = serde_json::from_slice::<HealthRead>(body)
        {
            return Self::NotReady { url: url.to_string(), health: printable(&health.to_string()) };
        }
        let text = String::from_utf8_lossy(body);
        let excerpt = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let excerpt = printable(&excerpt.chars().take(EXCERPT_CHARS_MAX).collect::<String>());
        Self::Foreign { url: url.to_string(), status: status.as_u16(), excerpt }
    }
}
