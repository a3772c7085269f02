//! Find bags by an index, with values in the body.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType};

use super::parts::{ANY, BODY, WRITE, json};
use crate::domain::index::PROPERTIES_MAX;
use crate::domain::{Limit, Order, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::members::{few, parsed, raw, whole};
use crate::wire::refused::want;
use crate::wire::{ErrorCode, FoundBags, Problem, Type, body};

pub static ROW: Row = Row {
    name: "find_bags_by_body",
    summary: "Find bags by an index, with values in the body",
    description: "Finds the same bags as the call with a query. Use it for values that are too long for a URL or must \
                  not be in logs of proxies.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/entity-types/{entity_type}/indexes/{index}/entities:find",
    request: Some(Type::of::<FindBagsInput>()),
    replies: &[json(200, "A page of bags.", Type::of::<FoundBags>())],
    errors: &[
        ANY,
        WRITE,
        BODY,
        &[
            ErrorCode::EntityTypeNotFound,
            ErrorCode::IndexNotFound,
            ErrorCode::InvalidTimestamp,
            ErrorCode::InvalidPageToken,
            ErrorCode::StoreUnavailable,
            ErrorCode::TooManyTombstones,
        ],
    ],
    counts_items: true,
    ..Row::DEFAULT
};

/// Which bags to find by an index.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(example = json!({"values": ["GB"], "min": 7.5, "order": "oldest", "limit": 20}))]
#[serde(deny_unknown_fields)]
pub struct FindBagsInput {
    /// A string, number, boolean or null for each property of the index, in order.
    #[serde(deserialize_with = "json_values")]
    #[schema(schema_with = values)]
    pub values: Vec<String>,
    /// Lower bound in the order of the index: a number, or a time in RFC 3339.
    #[serde(default, deserialize_with = "number_or_text")]
    #[schema(schema_with = bound, required = false)]
    pub min: Option<String>,
    /// Upper bound in the order of the index.
    #[serde(default, deserialize_with = "number_or_text")]
    #[schema(schema_with = bound, required = false)]
    pub max: Option<String>,
    /// `newest` (or greatest) first, the default, or `oldest`.
    #[serde(default, deserialize_with = "order")]
    #[schema(value_type = String, required = false)]
    pub order: Option<Order>,
    /// Maximum number of bags; default 100.
    #[serde(default, deserialize_with = "whole::<PAGE_SIZE_MAX, _, _>")]
    #[schema(value_type = u32, minimum = 1, maximum = 1000, required = false)]
    pub limit: Option<usize>,
    /// Continue after the page that returned this token.
    #[schema(value_type = String, required = false)]
    pub page_token: Option<String>,
}

const PAGE_SIZE_MAX: u64 = Limit::PAGE_SIZE_MAX as u64;

fn json_values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values = few::<PROPERTIES_MAX, &'de RawValue, D>(deserializer)?;
    Ok(values.into_iter().map(|value| value.get().to_owned()).collect())
}

fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let raw = raw(deserializer)?;
    if raw == "null" {
        return Ok(None);
    }
    if raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Ok(Some(raw.to_owned()));
    }
    let text = json::string(raw).ok_or_else(|| want::<D::Error>("a number or a string"))?;
    Ok(Some(text.into_owned()))
}

fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Order>, D::Error> {
    parsed(deserializer, Order::parse).map(Some)
}

/// Any JSON. Generators make an optional value of this, and classes of a choice between types.
fn any() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue)
}

fn values() -> Schema {
    let value = any().description(Some("A string, number, boolean or null.")).build();
    let description = "A string, number, boolean or null for each property of the index, in order.";
    let values = ArrayBuilder::new().items(value).min_items(Some(1)).max_items(Some(PROPERTIES_MAX));
    values.description(Some(description)).into()
}

fn bound() -> Schema {
    let description = "Lower or upper bound in the order of the index: a number, or a time in RFC 3339.";
    any().description(Some(description)).into()
}

impl FindBagsInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}
