//! What goes wrong between a command and its server, each in one line.

use std::error::Error as _;
use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;

use super::ServerUrl;
use crate::cli::failure::Failure;
use crate::cli::output::printable;

/// Enough of a foreign answer to know it by.
const EXCERPT_CHARS_MAX: usize = 200;

/// An error that the server documents (RFC 9457).
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Problem {
    pub status: u16,
    pub code: String,
    pub detail: String,
    pub retryable: bool,
    /// What of the request is to blame, such as `items[3].timestamp`.
    pub field: Option<String>,
    /// A write that may or may not have been done.
    #[serde(default)]
    pub outcome_unknown: bool,
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ClientError {
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// The request was not sent.
    #[error(
        "cannot reach {url}: {reason}; is the server running there? `liststore serve` starts one, --url or \
         LISTSTORE_URL names another"
    )]
    Unreachable { url: String, reason: String },
    /// The request was sent, and no answer came.
    #[error("no answer from {url}: {reason}")]
    NoAnswer { url: String, reason: String },
    #[error("{}", line(.0))]
    Problem(Problem),
    /// An error of something that is no Liststore server.
    #[error("{url} answered with HTTP status {status}: is it a liststore server? {excerpt}")]
    Foreign { url: String, status: u16, excerpt: String },
    #[error("the server's answer is none that this version of liststore knows: {0}")]
    Unreadable(String),
}

fn line(problem: &Problem) -> String {
    let field = problem.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
    let outcome = if problem.outcome_unknown { "; it may have been done all the same" } else { "" };
    printable(&format!("{field}{}{outcome} ({}, HTTP status {})", problem.detail, problem.code, problem.status))
}

/// An error with its causes, innermost last.
pub(super) fn causes(error: &reqwest::Error) -> String {
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

impl ClientError {
    pub(super) fn of_transport(url: &ServerUrl, error: &reqwest::Error) -> Self {
        let url = url.to_string();
        if error.is_connect() {
            Self::Unreachable { url, reason: root_cause(error) }
        } else if error.is_timeout() {
            Self::NoAnswer { url, reason: "it took too long".to_owned() }
        } else {
            Self::NoAnswer { url, reason: root_cause(error) }
        }
    }

    pub(super) fn of_answer(
        url: &ServerUrl,
        status: StatusCode,
        is_problem: bool,
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> Self {
        if is_problem && let Ok(problem) = serde_json::from_slice::<Problem>(body) {
            return Self::Problem(Problem { retry_after, ..problem });
        }
        let text = String::from_utf8_lossy(body);
        let excerpt = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let excerpt = printable(&excerpt.chars().take(EXCERPT_CHARS_MAX).collect::<String>());
        Self::Foreign { url: url.to_string(), status: status.as_u16(), excerpt }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.to_string())
    }
}
