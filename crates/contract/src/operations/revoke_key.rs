//! Revoke an API key.

use super::parts::{ANY, CREATION, KEY, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;
use crate::wire::parameters::{CREATED_KEYS, Parameter};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [CREATED_KEYS];

pub static ROW: Row = Row {
    name: "revoke_key",
    summary: "Revoke an API key",
    description: "The key becomes invalid on this server before the response, and on other servers as soon as they \
                  are notified. It remains in the list, and its name can be used again. `created_keys` names the \
                  active keys that this key created, directly or through another key. With `created_keys=true` \
                  they are revoked too.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::RepeatableWrite,
    method: Method::Delete,
    path: "/v1/keys/{key_id}",
    query: &QUERY,
    headers: CREATION,
    replies: &[KEY],
    errors: &[ANY, WRITE, &[ErrorCode::KeyNotFound]],
    ..Row::DEFAULT
};
