//! Purge the bags of an entity type.

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Job, PurgeBagsInput, Type};

pub static ROW: Row = Row {
    name: "purge_entity_type",
    summary: "Purge the bags of an entity type",
    description: "Starts a background job that removes all bags of the entity type, including deleted generations. \
                  The job survives restarts. The entity type and the lists of its entities remain. Bags written \
                  during the purge may remain.",
    group: Group::Entities,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/entity-types/{entity_type}/purge",
    headers: CREATION,
    request: Some(Type::of::<PurgeBagsInput>()),
    replies: &[json(202, "The job.", Type::of::<Job>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::TooManyJobs]],
    ..Row::DEFAULT
};
