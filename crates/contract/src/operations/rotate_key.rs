//! Rotate an API key.

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, KeyMade, KeyRotation, Type};

pub static ROW: Row = Row {
    name: "rotate_key",
    summary: "Rotate an API key",
    description: "Creates a new token. The current token stays valid for the `overlap`, so that services can \
                  switch. Older tokens end immediately. If the caller's key, token or certificate expires, the key \
                  must expire within `access.keys.lifetime_max_secs`. A longer `expires` is refused.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/keys/{key_id}/rotate",
    headers: CREATION,
    request: Some(Type::of::<KeyRotation>()),
    replies: &[json(200, "The key with its new token.", Type::of::<KeyMade>())],
    errors: &[
        ANY,
        WRITE,
        BODY,
        &[ErrorCode::KeyNotFound, ErrorCode::KeyRevoked, ErrorCode::KeyExpired, ErrorCode::TtlTooLong],
    ],
    ..Row::DEFAULT
};
