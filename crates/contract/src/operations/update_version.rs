//! Change a version.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CHANGE, FEATURE_VERSION, WRITE};
use crate::definition::GivenProperties;
use crate::domain::Description;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::with_properties::{VALUE_TYPE_OF_VERSION, change_with_properties};
use crate::wire::{ErrorCode, Problem, Type};

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

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ttl": "14d"}))]
#[serde(deny_unknown_fields)]
pub struct VersionPatch {
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
}

const FIXED_OF_VERSION: [(&str, &str); 2] =
    [VALUE_TYPE_OF_VERSION, ("version", "a version cannot be renamed: create another version")];

impl VersionPatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let (patch, properties): (Self, _) = change_with_properties(body, &[], &FIXED_OF_VERSION)?;
        Ok(Self { properties, ..patch })
    }

    pub fn is_empty(&self) -> bool {
        let Self { properties, description } = self;
        properties.is_empty() && description.is_none()
    }
}

impl From<GivenProperties> for VersionPatch {
    fn from(properties: GivenProperties) -> Self {
        Self { properties, ..Self::default() }
    }
}
