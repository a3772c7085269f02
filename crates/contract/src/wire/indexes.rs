//! The bodies of indexes of bags, and of their results.

use std::num::NonZeroU32;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType};

use super::jobs::lists_per_second;
use super::members::{few, parsed, raw, whole};
use super::refused::want;
use super::{Bag, Problem, body, texts};
use crate::domain::index::{PROPERTIES_MAX, Pointer};
use crate::domain::{IndexSpec, Limit, Order, VersionLabel, json};

/// What an index is created from.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "by_country", "properties": ["/country"], "order_by": "/score"}))]
#[serde(deny_unknown_fields)]
pub struct IndexInput {
    #[serde(deserialize_with = "index_name")]
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

fn index_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VersionLabel, D::Error> {
    parsed(deserializer, VersionLabel::of_index)
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

/// Which indexes of an entity type to clean.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"index": "by_country", "lists_per_second": 1000}))]
#[serde(deny_unknown_fields)]
pub struct CleanInput {
    // All of them if it is left out.
    #[serde(default, deserialize_with = "some_index_name", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::IndexName, inline, required = false)]
    pub index: Option<VersionLabel>,
    /// Maximum number of bags and entries to check per second.
    #[serde(default, deserialize_with = "lists_per_second", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000, required = false)]
    pub lists_per_second: Option<NonZeroU32>,
}

impl CleanInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

fn some_index_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<VersionLabel>, D::Error> {
    index_name(deserializer).map(Some)
}

/// An index of the bags of an entity type.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Index {
    #[schema(value_type = texts::IndexName, inline)]
    pub name: String,
    #[schema(value_type = Vec<texts::Pointer>)]
    pub properties: Vec<String>,
    /// If absent, bags are ordered by the time of their last update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub order_by: Option<String>,
    /// `building`: bags older than the index may be missing. `ready`: all bags are included. `cancelled`: the build was
    /// cancelled, and older bags are missing until a cleaning adds them. `dropping`: the index is deleted and its
    /// entries are being cleared.
    #[schema(value_type = IndexState)]
    pub state: String,
    /// While the index is being built: the bags processed so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub bags_done: Option<u64>,
    /// The number of entries at the last count, by the build or a cleaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub entries: Option<u64>,
    // When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub entries_counted_at: Option<String>,
    /// Age in seconds of the oldest bag or entry that this server has not yet repaired, over all its indexes; 0 if
    /// there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = f64, required = false)]
    pub lag_seconds: Option<f64>,
    /// Bags that the build left out because they have too many values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub bags_left_out: Option<u64>,
    // The job that builds it, or that drops the rest of it: `/v1/jobs/{job_id}` shows and pauses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::JobIdText, inline, required = false)]
    pub job_id: Option<String>,
    /// Why the build is currently blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub problem: Option<String>,
    #[schema(value_type = texts::Timestamp, inline)]
    pub created_at: String,
}

/// A page of matching bags, in the order of the index.
#[derive(ToSchema)]
#[expect(dead_code, reason = "rendered from bags as they were kept")]
pub struct FoundBags {
    entities: Vec<Bag>,
    /// Present if more bags may follow. A page may have few bags, or none, without being the last.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_\\-]+$", required = false)]
    next_page_token: Option<String>,
}

/// How far an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum IndexState {
    Building,
    Ready,
    Cancelled,
    Dropping,
}

impl IndexState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Ready => "ready",
            Self::Cancelled => "cancelled",
            Self::Dropping => "dropping",
        }
    }
}

/// All indexes of an entity type, by name.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct IndexList {
    pub indexes: Vec<Index>,
}
