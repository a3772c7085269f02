//! Create an entity type.

use super::parts::{ANY, BODY, CREATION, ETAG_OF_ENTITY_TYPE, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{EntityType, EntityTypeInput, ErrorCode, Type};

pub static ROW: Row = Row {
    name: "create_entity_type",
    summary: "Create an entity type",
    description: "Allows the entities of this type to have bags. An entity type that is created again after a \
                  deletion starts without bags. A bag expires `ttl` after its last change. The default is 20 \
                  years, the maximum.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::Body,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/entity-types",
    headers: CREATION,
    request: Some(Type::of::<EntityTypeInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The entity type's path."), ETAG_OF_ENTITY_TYPE],
        ..json(201, "Created.", Type::of::<EntityType>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeExists, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};
