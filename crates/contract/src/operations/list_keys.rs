//! List API keys.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter};
use crate::wire::{ErrorCode, Key, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_keys",
    summary: "List API keys",
    description: "Ordered by name, including revoked keys. Tokens are not shown.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/keys",
    query: &QUERY,
    replies: &[json(200, "A page of keys.", Type::of::<KeyPage>())],
    errors: &[ANY, &[ErrorCode::InvalidPageToken]],
    ..Row::DEFAULT
};

/// A page of keys, by name.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyPage {
    pub keys: Vec<Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub next_page_token: Option<String>,
}
