//! Requests for aggregates over windows of time. `read` reads it as strictly as any body, and `reply` has
//! the answer.

mod read;
mod reply;

use std::fmt;

use serde::de::Deserializer;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::members::{few, parsed, whole};
use super::{members, texts};
use crate::domain::index::Pointer;
use crate::domain::{Invalid, Timestamp, Ttl};

pub use reply::{AggregateResults, Aggregated, GroupAggregates, WindowAggregates};

/// The aggregates to compute over the items of a list, in windows of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "windows": ["1h", "24h"],
    "aggregates": [
        {"name": "payments", "function": "count"},
        {"name": "spent", "function": "sum", "property": "/amount"},
    ],
}))]
#[serde(deny_unknown_fields)]
pub struct AggregateInput {
    /// Durations that end with `as_of`, or periods between two timestamps.
    #[serde(deserialize_with = "few::<16, _, _>")]
    #[schema(min_items = 1, max_items = 16)]
    pub windows: Vec<AggregateWindow>,
    // The end of durations, and no later items count. It must not be in the future. Default: the server's clock.
    #[serde(default, deserialize_with = "members::some_timestamp", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::TimestampInput, required = false)]
    pub as_of: Option<Timestamp>,
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AggregateWhere, required = false)]
    pub filter: Option<AggregateWhere>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AggregateGroupBy, required = false)]
    pub group_by: Option<AggregateGroupBy>,
    #[serde(deserialize_with = "few::<16, _, _>")]
    #[schema(min_items = 1, max_items = 16)]
    pub aggregates: Vec<Aggregate>,
}

impl AggregateInput {
    /// These aggregates of all items in these windows.
    pub fn new(windows: Vec<AggregateWindow>, aggregates: Vec<Aggregate>) -> Self {
        Self { windows, as_of: None, filter: None, group_by: None, aggregates }
    }
}

/// A period of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum AggregateWindow {
    /// The time up to `as_of`, which belongs to it; its beginning does not.
    Last(WindowLength),
    Between(WindowBounds),
}

impl AggregateWindow {
    /// A duration such as `10m`, `1h` or `1d12h`.
    pub fn last(length: &str) -> Result<Self, Invalid> {
        WindowLength::parse(length).map(Self::Last)
    }
}

impl PartialSchema for AggregateWindow {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .description(Some("A duration that ends with `as_of`, or a period between two timestamps."))
            .item(texts::Ttl::schema())
            .item(WindowBounds::schema())
            .into()
    }
}

impl ToSchema for AggregateWindow {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        WindowBounds::schemas(schemas);
    }
}

/// The duration of a window, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowLength {
    text: String,
    length: Ttl,
}

impl WindowLength {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let length = Ttl::parse(text).map_err(|_| {
            Invalid::argument(
                "a window must be a duration from 1s to 7300d such as 10m, 1h or 1d12h, or an object with \
                 min_timestamp and max_timestamp",
            )
        })?;
        Ok(Self { text: text.to_owned(), length })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn as_nanos(&self) -> u64 {
        self.length.as_secs() * 1_000_000_000
    }
}

impl Serialize for WindowLength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// The time between two timestamps, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowBounds {
    #[serde(deserialize_with = "members::timestamp")]
    #[schema(value_type = texts::TimestampInput)]
    pub min_timestamp: Timestamp,
    #[serde(deserialize_with = "members::timestamp")]
    #[schema(value_type = texts::TimestampInput)]
    pub max_timestamp: Timestamp,
}

/// Which items count: items whose property, or value, is one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"property": "/country", "in": ["NO", "SE"]}))]
#[serde(deny_unknown_fields)]
pub struct AggregateWhere {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Pointer, inline, required = false)]
    pub property: Option<Pointer>,
    /// As JSON texts.
    #[serde(rename = "in", deserialize_with = "read::json_values", serialize_with = "json_texts")]
    #[schema(value_type = Vec<serde_json::Value>, min_items = 1, max_items = 1000)]
    pub values: Vec<String>,
}

/// One result for each value of a property, or for each value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"property": "/category", "max_groups": 50}))]
#[serde(deny_unknown_fields)]
pub struct AggregateGroupBy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Pointer, inline, required = false)]
    pub property: Option<Pointer>,
    /// The groups with the most items. The rest is one more group.
    #[serde(default, deserialize_with = "whole::<1000, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 100, required = false)]
    pub max_groups: Option<usize>,
}

impl AggregateGroupBy {
    pub const GROUPS_MAX: usize = 1_000;
    pub const GROUPS_DEFAULT: usize = 100;
}

/// One aggregate of each window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "spent", "function": "sum", "property": "/amount"}))]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// Its name among the results. Each name is unique.
    #[serde(deserialize_with = "read::name")]
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    #[schema(value_type = AggregateFunction)]
    pub function: AggregateFunction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Pointer, inline, required = false)]
    pub property: Option<Pointer>,
    /// How many values `top` returns.
    #[serde(default, deserialize_with = "whole::<1000, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 10, required = false)]
    pub k: Option<usize>,
}

impl Aggregate {
    pub const NAME_CHARS_MAX: usize = 64;
    pub const K_MAX: usize = 1_000;
    pub const K_DEFAULT: usize = 10;

    /// An aggregate of the items' values.
    pub fn new(name: &str, function: AggregateFunction) -> Self {
        Self { name: name.to_owned(), function, property: None, k: None }
    }

    /// The same of a property of the values, which are JSON.
    pub fn of(self, property: &str) -> Result<Self, Invalid> {
        Ok(Self { property: Some(Pointer::new(property)?), ..self })
    }
}

/// The computed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    Count,
    CountDistinct,
    Sum,
    Mean,
    Min,
    Max,
    /// Of the population: of all items in the window.
    Stddev,
    /// The value of the oldest item.
    First,
    /// The value of the newest item.
    Last,
    /// The most frequent values.
    Top,
}

impl AggregateFunction {
    pub const ALL: [Self; 10] = [
        Self::Count,
        Self::CountDistinct,
        Self::Sum,
        Self::Mean,
        Self::Min,
        Self::Max,
        Self::Stddev,
        Self::First,
        Self::Last,
        Self::Top,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::CountDistinct => "count_distinct",
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Stddev => "stddev",
            Self::First => "first",
            Self::Last => "last",
            Self::Top => "top",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|function| function.as_str() == text)
            .ok_or_else(|| Invalid::argument(format!("unknown function; known functions: {}", known())))
    }

    /// Whether it is of numbers alone.
    pub fn needs_numbers(self) -> bool {
        matches!(self, Self::Sum | Self::Mean | Self::Min | Self::Max | Self::Stddev)
    }
}

impl fmt::Display for AggregateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for AggregateFunction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AggregateFunction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, Self::parse)
    }
}

impl PartialSchema for AggregateFunction {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("The computed value; `stddev` is of the population."))
            .enum_values(Some(Self::ALL.map(Self::as_str)))
            .into()
    }
}

impl ToSchema for AggregateFunction {}

fn json_texts<S: Serializer>(values: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(Some(values.len()))?;
    for value in values {
        let raw: &RawValue = serde_json::from_str(value).map_err(serde::ser::Error::custom)?;
        seq.serialize_element(raw)?;
    }
    seq.end()
}
