//! Create List Feature Version.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, ETAG_OF_VERSION, WRITE, json};
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{Description, VersionLabel};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::with_properties::{VALUE_TYPE_OF_VERSION, with_properties};
use crate::wire::{ErrorCode, FeatureVersion, Problem, Type, texts};

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

/// The definition of a new version. Properties that are absent default to the feature's.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"version": "v2", "ttl": "7d"}))]
#[serde(deny_unknown_fields)]
pub struct VersionInput {
    #[schema(value_type = texts::Label, inline)]
    pub version: VersionLabel,
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
}

impl VersionInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let (input, properties): (Self, _) = with_properties(body, VersionProperties::NAMES, &[VALUE_TYPE_OF_VERSION])?;
        Ok(Self { properties, ..input })
    }
}
