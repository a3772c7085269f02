//! Metrics in Prometheus' text format.

use crate::permission::Permission;
use crate::row::{Content, Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "metrics",
    summary: "Get metrics in Prometheus' text format",
    group: Group::Health,
    permission: Permission::ServerRead,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/metrics",
    headers: &[],
    replies: &[ReplyForm {
        status: 200,
        description: "All metrics.",
        content: Some(Content::Text("text/plain; version=0.0.4")),
        headers: &[],
    }],
    errors: &[&[
        ErrorCode::InvalidArgument,
        ErrorCode::Unauthenticated,
        ErrorCode::PermissionDenied,
        ErrorCode::Internal,
        ErrorCode::Overloaded,
        ErrorCode::MetadataUnavailable,
        ErrorCode::IssuerUnavailable,
        ErrorCode::UnknownHost,
        ErrorCode::RateLimited,
    ]],
    ..Row::DEFAULT
};
