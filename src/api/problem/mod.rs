//! Problems: how every refusal and failure is answered, as RFC 9457 problem details.
//!
//! A problem never holds a driver's words, a payload or a secret: what only the operator may know
//! goes into its cause, which is logged and not sent.

use std::borrow::Cow;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER};
use serde::Serialize;

mod code;
pub(super) mod translate;

pub use code::{ErrorCode, Row};

/// The media type of RFC 9457, section 6.1.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// Why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: ErrorCode,
    /// For the caller: what would have been accepted, or what to do.
    pub detail: Cow<'static, str>,
    /// The member, parameter or header to blame, such as `items[3].timestamp`.
    pub field: Option<Cow<'static, str>>,
    /// Whether a write may have been carried out all the same, now or later.
    pub outcome_unknown: bool,
    /// For the log alone.
    pub cause: Option<String>,
    /// The methods that the path has, for a 405.
    allow: Option<String>,
}

impl Problem {
    pub fn new(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), field: None, outcome_unknown: false, cause: None, allow: None }
    }

    pub fn argument(field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidArgument, detail).at(field)
    }

    /// A failure of ours: the caller learns no more than that, the log learns the cause.
    pub fn internal(cause: impl Into<String>) -> Self {
        let detail = "the server failed; its log says why, under this request's id";
        Self::new(ErrorCode::Internal, detail).because(cause)
    }

    pub fn method_not_allowed(allow: String) -> Self {
        let detail = format!("this path takes {allow}");
        Self { allow: Some(allow), ..Self::new(ErrorCode::MethodNotAllowed, detail) }
    }

    /// Blames a member, parameter or header.
    pub fn at(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Keeps for the log why this happened.
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub fn with_outcome_unknown(mut self, outcome_unknown: bool) -> Self {
        self.outcome_unknown = outcome_unknown;
        self
    }

    pub fn status(&self) -> StatusCode {
        self.code.status()
    }

    pub fn to_response(&self) -> HttpResponse {
        let row = self.code.row();
        let mut response = HttpResponse::build(row.status);
        response.content_type(CONTENT_TYPE);
        if let Some(secs) = row.retry_after_secs {
            response.insert_header((RETRY_AFTER, secs.to_string()));
        }
        if let Some(allow) = &self.allow {
            response.insert_header((ALLOW, allow.as_str()));
        }
        let body = Body {
            kind: format!("urn:liststore:problem:{}", row.name),
            title: row.title,
            status: row.status.as_u16(),
            code: row.name,
            detail: &self.detail,
            retryable: row.retryable,
            field: self.field.as_deref(),
            outcome_unknown: self.outcome_unknown.then_some(true),
        };
        response.json(body)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome_unknown: Option<bool>,
}
