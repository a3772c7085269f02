//! List features.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{ENTITY_TYPE, PAGE_SIZE, PAGE_TOKEN, Parameter, TEXT};
use crate::wire::{ErrorCode, FeaturePage, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 4] = [ENTITY_TYPE, TEXT, PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_features",
    summary: "List features",
    description: "Ordered by entity type, then by name, in byte order.",
    group: Group::Features,
    permission: Permission::FeaturesRead,
    subject: Subject::Visible,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/features",
    query: &QUERY,
    replies: &[json(200, "A page of features.", Type::of::<FeaturePage>())],
    errors: &[ANY, &[ErrorCode::InvalidPageToken]],
    ..Row::DEFAULT
};
