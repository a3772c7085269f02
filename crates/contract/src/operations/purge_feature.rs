//! Purge a feature.

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Job, PurgeInput, Type};

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
