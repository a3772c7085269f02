//! Rotate an API key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::domain::Ttl;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, KeyMade, Problem, Type, body, texts};

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

/// How to rotate a key.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"overlap": "12h"}))]
#[serde(deny_unknown_fields)]
pub struct KeyRotation {
    // How long the present secret holds yet; 1d if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub overlap: Option<Ttl>,
    // How long the key holds from now on; as before if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub expires: Option<Ttl>,
}

impl KeyRotation {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}
