//! Purge a feature.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::domain::VersionLabel;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Job, Problem, Type, body, members, texts};

pub static ROW: Row = Row {
    name: "purge_feature",
    summary: "Purge a feature",
    description: "Starts a background job that removes all lists of a feature and its versions, including deleted \
                  generations. The job survives restarts. The feature remains. Items added during the purge may \
                  remain.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/features/{entity_type}/{name}/purge",
    headers: CREATION,
    request: Some(Type::of::<PurgeInput>()),
    replies: &[json(202, "The job.", Type::of::<Job>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureNotFound, ErrorCode::VersionNotFound, ErrorCode::TooManyJobs]],
    ..Row::DEFAULT
};

/// The parts of a feature to purge.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"deleted_only": true}))]
#[serde(deny_unknown_fields)]
pub struct PurgeInput {
    // All versions if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Label, inline, required = false)]
    pub version: Option<VersionLabel>,
    /// Whether to purge only deleted versions and generations; default `false`.
    #[serde(default)]
    #[schema(required = false)]
    pub deleted_only: bool,
    /// Maximum number of lists to clear per second.
    #[serde(default, deserialize_with = "members::lists_per_second", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000, required = false)]
    pub lists_per_second: Option<NonZeroU32>,
}

impl PurgeInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}
