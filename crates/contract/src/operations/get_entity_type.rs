//! Get an entity type.

use super::parts::{ANY, ENTITY_TYPE_REPLY};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "get_entity_type",
    summary: "Get an entity type",
    group: Group::Entities,
    permission: Permission::FeaturesRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entity-types/{entity_type}",
    replies: &[ENTITY_TYPE_REPLY],
    errors: &[ANY, &[ErrorCode::EntityTypeNotFound]],
    ..Row::DEFAULT
};
