//! Create List Feature Version.

use super::parts::{ANY, BODY, CREATION, ETAG_OF_VERSION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, FeatureVersion, Type, VersionInput};

pub static ROW: Row = Row {
    name: "create_version",
    summary: "Create a version",
    description: "A version has separate lists. It copies the properties that the body leaves out, such as `ttl`, from \
                  the feature.",
    group: Group::Versions,
    permission: Permission::FeaturesWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/features/{entity_type}/{name}/versions",
    headers: CREATION,
    request: Some(Type::of::<VersionInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The version's path."), ETAG_OF_VERSION],
        ..json(201, "Created.", Type::of::<FeatureVersion>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureNotFound, ErrorCode::VersionExists, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};
