//! Change a feature.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CHANGE, FEATURE, WRITE};
use crate::definition::GivenProperties;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::with_properties::change_with_properties;
use crate::wire::{Annotations, ErrorCode, Problem, Type};

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

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ttl": "7d", "owner": "feed team"}))]
#[serde(deny_unknown_fields)]
pub struct FeaturePatch {
    // The properties of the default version.
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub annotations: Annotations,
}

/// Why these cannot be changed, in addition to [`GivenProperties::FIXED`].
const FIXED_OF_FEATURE: [(&str, &str); 3] = [
    ("value_type", "the value type of a feature cannot be changed: create another feature"),
    ("entity_type", "the entity type of a feature cannot be changed: create another feature"),
    ("name", "a feature cannot be renamed: create another feature"),
];

impl FeaturePatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let (Self { .. }, properties) = change_with_properties(body, Annotations::NAMES, &FIXED_OF_FEATURE)?;
        Ok(Self { properties, annotations: Annotations::of(body)? })
    }

    pub fn is_empty(&self) -> bool {
        let Self { properties, annotations } = self;
        properties.is_empty() && annotations.is_empty()
    }
}

impl From<GivenProperties> for FeaturePatch {
    fn from(properties: GivenProperties) -> Self {
        Self { properties, ..Self::default() }
    }
}

impl From<Annotations> for FeaturePatch {
    fn from(annotations: Annotations) -> Self {
        Self { annotations, ..Self::default() }
    }
}
