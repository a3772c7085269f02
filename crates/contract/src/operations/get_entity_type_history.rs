//! Read the audit trail of an entity type.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter};
use crate::wire::{ErrorCode, HistoryPage, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "get_entity_type_history",
    summary: "Read the audit trail of an entity type",
    description: "Newest first. The audit trail remains after the entity type is deleted.",
    group: Group::Entities,
    permission: Permission::FeaturesRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entity-types/{entity_type}/history",
    query: &QUERY,
    replies: &[json(200, "A page of changes.", Type::of::<HistoryPage>())],
    errors: &[ANY, &[ErrorCode::EntityTypeNotFound, ErrorCode::InvalidPageToken]],
    ..Row::DEFAULT
};
