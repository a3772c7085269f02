//! Create an API key.

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, KeyInput, KeyMade, Type};

pub static ROW: Row = Row {
    name: "create_key",
    summary: "Create an API key",
    description: "The response has the key's token, which is not shown again. After the first key is created, \
                  servers with the `access.mode` `auto` require one. If the caller's key, token or certificate \
                  expires, the new key must expire within `access.keys.lifetime_max_secs`. A longer `expires` is \
                  refused. The default is this maximum.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/keys",
    headers: CREATION,
    request: Some(Type::of::<KeyInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The key's path.")],
        ..json(201, "Created.", Type::of::<KeyMade>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::KeyExists, ErrorCode::TooManyKeys, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};
