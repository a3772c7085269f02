//! Delete an entity type.

use super::parts::{ANY, CHANGE, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{Deleted, ErrorCode, Type};

pub static ROW: Row = Row {
    name: "delete_entity_type",
    summary: "Delete an entity type",
    description: "Its bags become unreachable and leave the store as they expire. The lists of its entities remain \
                  because they belong to features.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Delete,
    path: "/v1/entity-types/{entity_type}",
    headers: CHANGE,
    replies: &[json(200, "Deleted.", Type::of::<Deleted>())],
    errors: &[ANY, WRITE, &[ErrorCode::EntityTypeNotFound, ErrorCode::EtagMismatch]],
    ..Row::DEFAULT
};
