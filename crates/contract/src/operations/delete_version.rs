//! Delete a version.

use super::parts::{ANY, CHANGE, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{Deleted, ErrorCode, Type};

pub static ROW: Row = Row {
    name: "delete_version",
    summary: "Delete a version",
    description: "Its items become unreachable and leave the store as they expire. The default version can only be \
                  deleted with its feature.",
    group: Group::Versions,
    permission: Permission::FeaturesWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Delete,
    path: "/v1/features/{entity_type}/{name}/versions/{version}",
    headers: CHANGE,
    replies: &[json(200, "Deleted.", Type::of::<Deleted>())],
    errors: &[
        ANY,
        WRITE,
        &[ErrorCode::FeatureNotFound, ErrorCode::VersionNotFound, ErrorCode::DefaultVersion, ErrorCode::EtagMismatch],
    ],
    ..Row::DEFAULT
};
