//! Get an API key.

use super::parts::{ANY, KEY};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "get_key",
    summary: "Get an API key",
    description: "The response does not include the token. `created_keys` names the active keys that this key \
                  created, directly or through another key.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/keys/{key_id}",
    replies: &[KEY],
    errors: &[ANY, &[ErrorCode::KeyNotFound]],
    ..Row::DEFAULT
};
