//! Get the caller's identity and permissions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::json;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Type};

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

/// The caller's identity and permissions.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "key:feed", "kind": "known", "permissions": {"lists:read": ["user.*"]}}))]
pub struct Me {
    /// The name in the audit trail: `key:` and the name of an API key, `local`, or `anonymous`.
    pub name: String,
    pub kind: PrincipalKind,
    /// The permissions, such as `lists:read`, with the features they apply to; `*` means all.
    pub permissions: BTreeMap<String, Vec<String>>,
}

/// How a caller was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// Not identified: the server is open.
    Anonymous,
    /// By the socket in the server's data directory.
    Local,
    /// By credentials such as an API key.
    Known,
}
