//! Change a feature.

use super::parts::{ANY, BODY, CHANGE, FEATURE, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, FeaturePatch, Type};

pub static ROW: Row = Row {
    name: "update_feature",
    summary: "Change a feature",
    description: "Absent fields remain unchanged; `labels` is replaced as a whole. Properties of versions, such as \
                  `ttl`, apply to the default version and are the defaults of later versions. A shorter `ttl` or \
                  smaller `max_items` hides items immediately. `null` removes a property that a version need not \
                  have.",
    group: Group::Features,
    permission: Permission::FeaturesWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Patch,
    path: "/v1/features/{entity_type}/{name}",
    headers: CHANGE,
    request: Some(Type::of::<FeaturePatch>()),
    replies: &[ReplyForm { description: "The feature after the change.", ..FEATURE }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureNotFound, ErrorCode::EtagMismatch, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};
