//! Clean indexes of an entity type.

use std::num::NonZeroU32;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::domain::VersionLabel;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Job, Problem, Type, body, members, texts};

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

/// Which indexes of an entity type to clean.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"index": "by_country", "lists_per_second": 1000}))]
#[serde(deny_unknown_fields)]
pub struct CleanInput {
    // All of them if it is left out.
    #[serde(default, deserialize_with = "some_index_name", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::IndexName, inline, required = false)]
    pub index: Option<VersionLabel>,
    /// Maximum number of bags and entries to check per second.
    #[serde(default, deserialize_with = "members::lists_per_second", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000, required = false)]
    pub lists_per_second: Option<NonZeroU32>,
}

impl CleanInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

fn some_index_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<VersionLabel>, D::Error> {
    members::index_name(deserializer).map(Some)
}
