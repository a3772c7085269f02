//! Change a version.

use super::parts::{ANY, BODY, CHANGE, FEATURE_VERSION, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, Type, VersionPatch};

pub static ROW: Row = Row {
    name: "update_version",
    summary: "Change a version",
    description: "Absent fields remain unchanged. Change the default version through its feature.",
    group: Group::Versions,
    permission: Permission::FeaturesWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Patch,
    path: "/v1/features/{entity_type}/{name}/versions/{version}",
    headers: CHANGE,
    request: Some(Type::of::<VersionPatch>()),
    replies: &[ReplyForm { description: "The version after the change.", ..FEATURE_VERSION }],
    errors: &[
        ANY,
        WRITE,
        BODY,
        &[
            ErrorCode::FeatureNotFound,
            ErrorCode::VersionNotFound,
            ErrorCode::DefaultVersion,
            ErrorCode::EtagMismatch,
            ErrorCode::TtlTooLong,
        ],
    ],
    ..Row::DEFAULT
};
