//! List entity types.

use serde::Serialize;
use utoipa::ToSchema;

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter, TYPE_TEXT};
use crate::wire::{EntityType, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 3] = [TYPE_TEXT, PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_entity_types",
    summary: "List entity types",
    description: "Lists the entity types whose entities can have bags, by name in byte order.",
    group: Group::Entities,
    permission: Permission::FeaturesRead,
    subject: Subject::Visible,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entity-types",
    query: &QUERY,
    replies: &[json(200, "A page of entity types.", Type::of::<EntityTypePage>())],
    errors: &[ANY, &[ErrorCode::InvalidPageToken]],
    ..Row::DEFAULT
};

/// A page of entity types, ordered by their names.
#[derive(Debug, Serialize, ToSchema)]
pub struct EntityTypePage {
    pub entity_types: Vec<EntityType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_-]+$", required = false)]
    pub next_page_token: Option<String>,
}
