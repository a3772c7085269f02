//! List features.

use serde::Serialize;
use utoipa::ToSchema;

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{ENTITY_TYPE, PAGE_SIZE, PAGE_TOKEN, Parameter, TEXT};
use crate::wire::{ErrorCode, Feature, Type};

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

/// A page of features, ordered by entity type, then by name.
#[derive(Debug, Serialize, ToSchema)]
pub struct FeaturePage {
    pub features: Vec<Feature>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_-]+$", required = false)]
    pub next_page_token: Option<String>,
}
