//! Get an index and its build progress.

use super::parts::{ANY, INDEX};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "get_index",
    summary: "Get an index and its build progress",
    group: Group::Entities,
    permission: Permission::FeaturesRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entity-types/{entity_type}/indexes/{index}",
    replies: &[INDEX],
    errors: &[ANY, &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexNotFound]],
    ..Row::DEFAULT
};
