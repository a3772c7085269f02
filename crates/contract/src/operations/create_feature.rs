//! Create List Feature.

use super::parts::{ANY, BODY, CREATION, ETAG_OF_FEATURE, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, Feature, FeatureInput, Type};

pub static ROW: Row = Row {
    name: "create_feature",
    summary: "Create a feature",
    description: "Creates the feature with its default version. A feature that is created again after a deletion \
                  starts empty.",
    group: Group::Features,
    permission: Permission::FeaturesWrite,
    subject: Subject::Body,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/features",
    headers: CREATION,
    request: Some(Type::of::<FeatureInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The feature's path."), ETAG_OF_FEATURE],
        ..json(201, "Created.", Type::of::<Feature>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureExists, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};
