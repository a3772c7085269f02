//! Create an entity type.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, ETAG_OF_ENTITY_TYPE, WRITE, json};
use crate::domain::{self, Ttl};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::refused::Others;
use crate::wire::{Annotations, EntityType, ErrorCode, Problem, Type, body, texts};

pub static ROW: Row = Row {
    name: "create_entity_type",
    summary: "Create an entity type",
    description: "Allows the entities of this type to have bags. An entity type that is created again after a \
                  deletion starts without bags. A bag expires `ttl` after its last change. The default is 20 \
                  years, the maximum.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::Body,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/entity-types",
    headers: CREATION,
    request: Some(Type::of::<EntityTypeInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The entity type's path."), ETAG_OF_ENTITY_TYPE],
        ..json(201, "Created.", Type::of::<EntityType>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeExists, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};

/// The definition of a new entity type.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entity_type": "user", "ttl": "365d", "owner": "feed team"}))]
#[serde(deny_unknown_fields)]
pub struct EntityTypeInput {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: domain::EntityType,
    // How long a bag lives after it was changed last: 20 years if it is not given, the longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub ttl: Option<Ttl>,
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub annotations: Annotations,
}

impl EntityTypeInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let input: Self = body::read_among(body, Others { passed: Annotations::NAMES, ..Others::default() })?;
        Ok(Self { annotations: Annotations::of(body)?, ..input })
    }
}
