//! List entity types.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter, TYPE_TEXT};
use crate::wire::{EntityTypePage, ErrorCode, Type};

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
