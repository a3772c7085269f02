//! Change an entity type.

use super::parts::{ANY, BODY, CHANGE, ENTITY_TYPE_REPLY, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{EntityTypePatch, ErrorCode, Type};

pub static ROW: Row = Row {
    name: "update_entity_type",
    summary: "Change an entity type",
    description: "Absent fields remain unchanged; `labels` is replaced as a whole. A shorter `ttl` hides bags \
                  immediately.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Patch,
    path: "/v1/entity-types/{entity_type}",
    headers: CHANGE,
    request: Some(Type::of::<EntityTypePatch>()),
    replies: &[ReplyForm { description: "The entity type after the change.", ..ENTITY_TYPE_REPLY }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::EtagMismatch, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};
