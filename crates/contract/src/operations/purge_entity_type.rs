//! Purge the bags of an entity type.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Job, Problem, Type, body, members};

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

/// Which bags of an entity type to purge.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"deleted_only": true}))]
#[serde(deny_unknown_fields)]
pub struct PurgeBagsInput {
    /// Whether to purge only bags of deleted generations; default `false`.
    #[serde(default)]
    #[schema(required = false)]
    pub deleted_only: bool,
    /// Maximum number of bags to clear per second.
    #[serde(default, deserialize_with = "members::lists_per_second", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000, required = false)]
    pub lists_per_second: Option<NonZeroU32>,
}

impl PurgeBagsInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}
