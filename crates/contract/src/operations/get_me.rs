//! Get the caller's identity and permissions.

use super::parts::json;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Me, Type};

pub static ROW: Row = Row {
    name: "get_me",
    summary: "Get the caller's identity and permissions",
    description: "Returns the name, roles and permissions of the API key or token. On an open server, every caller \
                  is `anonymous` with full access.",
    group: Group::Access,
    permission: Permission::Known,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/me",
    replies: &[json(200, "Who asked.", Type::of::<Me>())],
    errors: &[&[
        ErrorCode::InvalidArgument,
        ErrorCode::Unauthenticated,
        ErrorCode::UnknownHost,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Overloaded,
        ErrorCode::MetadataUnavailable,
        ErrorCode::IssuerUnavailable,
    ]],
    ..Row::DEFAULT
};
