//! List the indexes of an entity type.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Index, Type};

pub static ROW: Row = Row {
    name: "list_indexes",
    summary: "List the indexes of an entity type",
    description: "Ordered by name; indexes that are being dropped come last.",
    group: Group::Entities,
    permission: Permission::FeaturesRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entity-types/{entity_type}/indexes",
    replies: &[json(200, "All indexes.", Type::of::<IndexList>())],
    errors: &[ANY, &[ErrorCode::EntityTypeNotFound]],
    ..Row::DEFAULT
};

/// All indexes of an entity type, by name.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct IndexList {
    pub indexes: Vec<Index>,
}
