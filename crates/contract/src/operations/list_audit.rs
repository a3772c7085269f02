//! Read the audit trail.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{AUDIT_ACTION, AUDIT_BY, AUDIT_TARGET, PAGE_SIZE, PAGE_TOKEN, Parameter, SINCE, UNTIL};
use crate::wire::{ErrorCode, Type, texts};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 7] = [AUDIT_BY, AUDIT_TARGET, AUDIT_ACTION, SINCE, UNTIL, PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_audit",
    summary: "Read the audit trail",
    description: "Changes of definitions, API keys and servers (pool, log, jobs, backups), newest first. The \
                  action `refuse` lists this server's recent refusals instead. Equal refusals within a minute are \
                  one entry, with their number in `after.count`.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/audit",
    query: &QUERY,
    replies: &[json(200, "A page of changes.", Type::of::<AuditPage>())],
    errors: &[ANY, &[ErrorCode::InvalidPageToken, ErrorCode::InvalidTimestamp]],
    ..Row::DEFAULT
};

/// A change of a definition, a key or a server, an erasure, or a refusal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Audited {
    #[schema(value_type = texts::Timestamp, inline)]
    pub at: String,
    /// `key:` and a key's name, or `local`. On an open server, the name that the caller sent, or `anonymous`.
    pub by: String,
    /// The user that the caller named, which is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub on_behalf_of: Option<String>,
    pub action: String,
    /// `user.story_presented`, `key:feed`, `entity:user/u-123`, or a part of a server such as `pool`. For refusals
    /// (`refuse`), the name of the operation.
    pub target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Label, inline, required = false)]
    pub version: Option<String>,
    /// The index of a change of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub index: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub before: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub after: Option<serde_json::Value>,
}

/// A page of the audit trail, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    pub changes: Vec<Audited>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub next_page_token: Option<String>,
}
