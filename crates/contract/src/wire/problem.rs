//! Problems: the form of every refusal and failure, as RFC 9457 problem details.
//!
//! A problem never contains a driver's text, a payload or a secret. Details for the operator go into its cause, which
//! is logged and not sent.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ErrorCode;
use crate::domain::{Code, Invalid};

/// Why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: ErrorCode,
    /// For the caller: the accepted values, or the remedy.
    pub detail: Cow<'static, str>,
    /// The member, parameter or header with the error, such as `items[3].timestamp`.
    pub field: Option<Cow<'static, str>>,
    /// Whether a write may have been made nevertheless, now or later.
    pub outcome_unknown: bool,
    /// For the log alone.
    pub cause: Option<String>,
    /// The refusal that this one replaces, if that would reveal too much: for the log, the audit trail and metrics
    /// alone.
    pub conceals: Option<Box<Problem>>,
    /// The methods that the path has, for a 405.
    pub allow: Option<Box<str>>,
    /// The time after which to retry, if the code has none.
    pub retry_after_secs: Option<u64>,
}

impl Problem {
    pub fn new(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            field: None,
            outcome_unknown: false,
            cause: None,
            conceals: None,
            allow: None,
            retry_after_secs: None,
        }
    }

    pub fn argument(field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidArgument, detail).at(field)
    }

    /// A failure of the server. The caller gets no details, and the log has the cause.
    pub fn internal(cause: impl Into<String>) -> Self {
        let detail = "internal error: search the server's log for this request ID";
        Self::new(ErrorCode::Internal, detail).with_cause(cause)
    }

    pub fn method_not_allowed(allow: String) -> Self {
        let detail = format!("method not allowed: use {allow}");
        Self { allow: Some(allow.into()), ..Self::new(ErrorCode::MethodNotAllowed, detail) }
    }

    /// Blames a member, parameter or header.
    pub fn at(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Places the field within a larger whole, such as `requests[3]`, or names that whole.
    pub fn within(mut self, place: &str) -> Self {
        self.field = Some(match self.field {
            Some(field) => place_within(place, &field).into(),
            None => place.to_owned().into(),
        });
        self
    }

    /// Keeps for the log why this happened.
    pub fn with_cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Stores the refusal that this one replaces.
    pub fn in_place_of(mut self, refusal: Self) -> Self {
        self.conceals = Some(Box::new(refusal));
        self
    }

    /// The real refusal, for the log and metrics, even if another one is sent.
    pub fn noted(&self) -> &Self {
        self.conceals.as_deref().unwrap_or(self)
    }

    pub fn with_outcome_unknown(mut self, outcome_unknown: bool) -> Self {
        self.outcome_unknown = outcome_unknown;
        self
    }

    /// The body to send.
    pub fn body(&self) -> ProblemBody {
        let row = self.code.row();
        ProblemBody {
            kind: row.kind(),
            title: row.title.to_owned(),
            status: row.status,
            code: row.name.to_owned(),
            detail: self.detail.clone().into_owned(),
            retryable: row.retryable,
            field: self.field.clone().map(Cow::into_owned),
            outcome_unknown: self.outcome_unknown,
        }
    }
}

/// The path of a place within a larger whole. Either may be empty.
pub(crate) fn place_within(whole: &str, place: &str) -> String {
    let dot = if whole.is_empty() || place.is_empty() || place.starts_with('[') { "" } else { "." };
    format!("{whole}{dot}{place}")
}

impl From<Invalid> for Problem {
    fn from(Invalid { code, detail }: Invalid) -> Self {
        let code = match code {
            Code::InvalidArgument => ErrorCode::InvalidArgument,
            Code::InvalidTimestamp => ErrorCode::InvalidTimestamp,
            Code::InvalidPageToken => ErrorCode::InvalidPageToken,
            Code::ValueTypeMismatch => ErrorCode::ValueTypeMismatch,
            Code::IdentityMismatch => ErrorCode::IdentityMismatch,
            Code::TtlTooLong => ErrorCode::TtlTooLong,
            Code::TimestampTooFarAhead => ErrorCode::TimestampTooFarAhead,
        };
        Self::new(code, detail)
    }
}

/// Problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// The path of the code's page on this server: `/docs/errors/` and the code.
    #[serde(rename = "type", default)]
    #[schema(required = true)]
    pub kind: String,
    #[serde(default)]
    #[schema(required = true)]
    pub title: String,
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// A stable code for programs.
    #[schema(value_type = ErrorCode)]
    pub code: String,
    /// The accepted values or the remedy, as readable text.
    pub detail: String,
    /// Whether the same request may succeed later, unchanged.
    pub retryable: bool,
    /// The member, parameter or header with the error, such as `items[3].timestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub field: Option<String>,
    /// Present and true if a write may have been applied, or may still be applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub outcome_unknown: bool,
}
