//! The errors between a command and its server, each in one line.

use std::error::Error as _;
use std::fmt::Display;
use std::time::Duration;

use liststore_contract::wire::{ErrorCode, HealthRead, ProblemBody};
use reqwest::StatusCode;
use rustls::CertificateError;

use super::printable::printable;

/// Enough of a foreign answer to know it by.
const EXCERPT_CHARS_MAX: usize = 200;

/// An error that the server documents.
#[derive(Debug, Clone)]
pub struct Problem {
    pub details: ProblemBody,
    pub retry_after: Option<Duration>,
    /// The next step for the user, if the client searched for one.
    pub next_step: Option<String>,
    /// The role of the server, such as "the target", in a command with several servers.
    pub role: Option<&'static str>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// The request was not sent.
    #[error("cannot reach {url}: {reason}; {advice}")]
    Unreachable { url: String, reason: String, advice: String },
    /// The request was not sent, because the server has an invalid certificate.
    #[error("cannot trust {url}: {reason}; {advice}")]
    Untrusted { url: String, reason: String, advice: &'static str },
    /// No server listens in a data directory.
    #[error("no server answers at {path}: {reason}; name the data directory of a running server with --data-dir")]
    NoSocket { path: String, reason: String },
    /// The request was sent, and no answer came.
    #[error("no response from {url}: {reason}{advice}")]
    NoAnswer { url: String, reason: String, advice: &'static str },
    #[error("{}", line(.0))]
    Problem(Box<Problem>),
    /// The server's answer about its readiness.
    #[error("{url} is not ready: {health}")]
    NotReady { url: String, health: String },
    /// An error of something that is not a Liststore server.
    #[error("{url} answered with HTTP status {status}: is it a liststore server? {excerpt}")]
    Foreign { url: String, status: u16, excerpt: String },
    #[error("this version of liststore cannot read the server's response: {0}")]
    Unreadable(String),
}

const PLAIN: &str = "the server speaks plain HTTP there: write http:// instead of https://, or turn on TLS in its \
                     settings (http.tls)";
/// The remedy for a refused certificate.
const AUTHORITY: &str = "name its certificate authority with --ca-file or LISTSTORE_CA_FILE if the system does not \
                         trust it";
const OWN_AUTHORITY: &str = "the server shows the certificate of an authority: give it a certificate that the \
                             authority signed (http.tls.certificate_file)";
const WRONG_NAME: &str = "use a name or an address in the URL that the certificate has";
/// The remedy for an answer that is not HTTP.
const TLS: &str = ": the server may use TLS there: write https:// instead of http://";

pub(crate) fn line(Problem { details: problem, next_step, role, .. }: &Problem) -> String {
    let role = role.map(|role| format!("{role}: ")).unwrap_or_default();
    let field = problem.field.as_ref().filter(|field| !problem.detail.starts_with(&format!("{field} ")));
    let field = field.map(|field| format!("{field}: ")).unwrap_or_default();
    let outcome = if problem.outcome_unknown { "; the change may have been applied" } else { "" };
    let next = next_step.as_ref().map(|step| format!(": {step}")).unwrap_or_default();
    let (detail, code, status) = (&problem.detail, &problem.code, problem.status);
    printable(&format!("{role}{field}{detail}{outcome} ({code}, HTTP status {status}){next}"))
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

/// The innermost cause, which a person can act on.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The fault of TLS that an error is about, if it is.
fn fault_of_tls(error: &reqwest::Error) -> Option<rustls::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    while let Some(outer) = cause {
        let mut inner = outer;
        // It is not a cause of an error of input or output, but the error itself.
        while let Some(wrapped) = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            inner = wrapped;
        }
        if let Some(fault) = inner.downcast_ref::<rustls::Error>() {
            return Some(fault.clone());
        }
        cause = outer.source();
    }
    None
}

/// The remedy for a certificate that is not accepted.
fn advice_about(fault: &CertificateError) -> &'static str {
    let text = format!("{fault:?}");
    match fault {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => WRONG_NAME,
        _ if text.contains("CaUsedAsEndEntity") => OWN_AUTHORITY,
        _ => AUTHORITY,
    }
}

impl ClientError {
    /// Whether the server has refused the request with this code.
    pub fn has_code(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Problem(problem) if problem.details.code == code.name())
    }

    /// `url_option` is how a person's command names the URL.
    pub fn of_transport(url: &impl Display, error: &reqwest::Error, url_option: Option<&str>) -> Self {
        let url = url.to_string();
        let reason = root_cause(error);
        if !error.is_connect() {
            let reason = if error.is_timeout() { "timed out".to_owned() } else { reason };
            let is_tls = url.starts_with("http://") && reason.contains("invalid HTTP version");
            return Self::NoAnswer { url, reason, advice: if is_tls { TLS } else { "" } };
        }
        let advice = match fault_of_tls(error) {
            Some(rustls::Error::InvalidCertificate(fault)) => {
                return Self::Untrusted { url, reason, advice: advice_about(&fault) };
            }
            Some(rustls::Error::InvalidMessage(_)) => PLAIN.to_owned(),
            _ if reason.contains("lookup address") => {
                format!("correct the name of the host in {}", url_option.unwrap_or("the URL"))
            }
            _ => {
                let other = url_option.map(|option| format!(", or name another with {option}")).unwrap_or_default();
                format!("start a server there with `liststore serve`{other}")
            }
        };
        Self::Unreachable { url, reason, advice }
    }

    pub fn of_response(
        url: &impl Display,
        status: StatusCode,
        is_problem: bool,
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> Self {
        if is_problem && let Ok(details) = serde_json::from_slice(body) {
            return Self::Problem(Box::new(Problem { details, retry_after, next_step: None, role: None }));
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
