//! Get a feature with its versions.

use super::parts::{ANY, FEATURE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "get_feature",
    summary: "Get a feature with its versions",
    group: Group::Features,
    permission: Permission::FeaturesRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/features/{entity_type}/{name}",
    replies: &[FEATURE],
    errors: &[ANY, &[ErrorCode::FeatureNotFound]],
    ..Row::DEFAULT
};
