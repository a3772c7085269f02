//! Delete List Feature.

use super::parts::{ANY, CHANGE, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{Deleted, ErrorCode, Type};

pub static ROW: Row = Row {
    name: "delete_feature",
    summary: "Delete a feature",
    description: "Deletes the feature with all its versions. Its items become unreachable and leave the store as \
                  they expire.",
    group: Group::Features,
    permission: Permission::FeaturesWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Delete,
    path: "/v1/features/{entity_type}/{name}",
    headers: CHANGE,
    replies: &[json(200, "Deleted.", Type::of::<Deleted>())],
    errors: &[ANY, WRITE, &[ErrorCode::FeatureNotFound, ErrorCode::EtagMismatch]],
    ..Row::DEFAULT
};
