//! Clean indexes of an entity type.

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{CleanInput, ErrorCode, Job, Type};

pub static ROW: Row = Row {
    name: "clean_indexes",
    summary: "Clean indexes of an entity type",
    description: "Starts a background job that checks all bags and all entries of its indexes, or of one index. It \
                  adds missing entries, removes entries without a bag, and counts the correct ones. The job \
                  survives restarts.",
    group: Group::Entities,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/entity-types/{entity_type}/clean",
    headers: CREATION,
    request: Some(Type::of::<CleanInput>()),
    replies: &[json(202, "The job.", Type::of::<Job>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexNotFound, ErrorCode::TooManyJobs]],
    ..Row::DEFAULT
};
