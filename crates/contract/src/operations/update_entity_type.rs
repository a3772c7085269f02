//! Change an entity type.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CHANGE, ENTITY_TYPE_REPLY, WRITE};
use crate::domain::Ttl;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::refused::Others;
use crate::wire::{Annotations, ErrorCode, Problem, Type, body, texts};

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
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub annotations: Annotations,
}

const FIXED: [(&str, &str); 1] = [("entity_type", "an entity type cannot be renamed: create another entity type")];

impl EntityTypePatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let patch: Self = body::read_among(body, Others { passed: Annotations::NAMES, fixed: &FIXED })?;
        Ok(Self { annotations: Annotations::of(body)?, ..patch })
    }

    pub fn is_empty(&self) -> bool {
        let Self { ttl, annotations } = self;
        ttl.is_none() && annotations.is_empty()
    }
}
