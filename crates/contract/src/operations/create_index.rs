//! Create an index of bags.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, ETAG_OF_INDEX, WRITE, json};
use crate::domain::index::{PROPERTIES_MAX, Pointer};
use crate::domain::{IndexSpec, VersionLabel};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::members::few;
use crate::wire::{ErrorCode, Index, Problem, Type, body, members, texts};

pub static ROW: Row = Row {
    name: "create_index",
    summary: "Create an index of bags",
    description: "Later writes update the index immediately; a background job adds existing bags. An index that is \
                  created again after a deletion starts empty.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/entity-types/{entity_type}/indexes",
    headers: CREATION,
    request: Some(Type::of::<IndexInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The index's path."), ETAG_OF_INDEX],
        ..json(201, "Created; the index is being built.", Type::of::<Index>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexExists, ErrorCode::TooManyIndexes]],
    ..Row::DEFAULT
};

/// The definition of a new index.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "by_country", "properties": ["/country"], "order_by": "/score"}))]
#[serde(deny_unknown_fields)]
pub struct IndexInput {
    #[serde(deserialize_with = "members::index_name")]
    #[schema(value_type = texts::IndexName, inline)]
    pub name: VersionLabel,
    /// JSON Pointers (RFC 6901) to the indexed properties, without duplicates.
    #[serde(deserialize_with = "few::<PROPERTIES_MAX, _, _>")]
    #[schema(value_type = Vec<texts::Pointer>, min_items = 1, max_items = 8)]
    pub properties: Vec<Pointer>,
    // A JSON Pointer to a property that is a number or a time in RFC 3339. If it is left out, bags are ordered by
    // when they were updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Pointer, inline, required = false)]
    pub order_by: Option<Pointer>,
}

impl IndexInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }

    pub fn spec(self) -> Result<(VersionLabel, IndexSpec), Problem> {
        let spec = IndexSpec::new(self.properties, self.order_by);
        Ok((self.name, spec.map_err(|invalid| Problem::from(invalid).at("properties"))?))
    }
}
