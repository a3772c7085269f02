//! Change an entity type.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CHANGE, ENTITY_TYPE_REPLY, WRITE};
use crate::domain::{Description, Labels, Owner, Ttl};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::refused::Others;
use crate::wire::{ErrorCode, Problem, Type, body, texts};

pub static ROW: Row = Row {
    name: "update_entity_type",
    summary: "Change an entity type",
    description: "Absent fields remain unchanged; `labels` is replaced as a whole. A shorter `ttl` hides bags \
                  immediately.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Patch,
    path: "/v1/entity-types/{entity_type}",
    headers: CHANGE,
    request: Some(Type::of::<EntityTypePatch>()),
    replies: &[ReplyForm { description: "The entity type after the change.", ..ENTITY_TYPE_REPLY }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::EtagMismatch, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ttl": "30d"}))]
#[serde(deny_unknown_fields)]
pub struct EntityTypePatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub ttl: Option<Ttl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 200, pattern = "^[^\\x00]*$", required = false)]
    pub owner: Option<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Labels, inline, required = false)]
    pub labels: Option<Labels>,
}

const FIXED: [(&str, &str); 1] = [("entity_type", "an entity type cannot be renamed: create another entity type")];

impl EntityTypePatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read_among(body, Others { fixed: &FIXED, ..Others::default() })
    }

    pub fn is_empty(&self) -> bool {
        let Self { ttl, description, owner, labels } = self;
        ttl.is_none() && description.is_none() && owner.is_none() && labels.is_none()
    }
}
