//! Get a version.

use super::parts::{ANY, FEATURE_VERSION};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "get_version",
    summary: "Get a version",
    group: Group::Versions,
    permission: Permission::FeaturesRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/features/{entity_type}/{name}/versions/{version}",
    replies: &[FEATURE_VERSION],
    errors: &[ANY, &[ErrorCode::FeatureNotFound, ErrorCode::VersionNotFound]],
    ..Row::DEFAULT
};
