//! The bodies of indexes of bags, and of their results.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, Object, ObjectBuilder, Schema, SchemaType, Type};

use super::jobs::lists_per_second;
use super::object;
use super::{Bag, Problem, text, texts};
use crate::domain::index::{PROPERTIES_MAX, Pointer};
use crate::domain::{IndexSpec, Limit, Order, VersionLabel};

/// What an index is created from.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"name": "by_country", "properties": ["/country"], "order_by": "/score"}))]
#[serde(deny_unknown_fields)]
pub struct IndexInput {
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::IndexName, inline)]
    pub name: VersionLabel,
    /// JSON Pointers (RFC 6901) to the indexed properties, without duplicates.
    #[serde(serialize_with = "pointers")]
    #[schema(value_type = Vec<texts::Pointer>, min_items = 1, max_items = 8)]
    pub properties: Vec<Pointer>,
    // A JSON Pointer to a property that is a number or a time in RFC 3339. If it is left out, bags are ordered by
    // when they were updated.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Pointer, inline, required = false)]
    pub order_by: Option<Pointer>,
}

fn pointers<S: Serializer>(pointers: &[Pointer], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pointers.iter().map(Pointer::as_str))
}

impl IndexInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = object::Object::read(body, &["name", "properties", "order_by"], &[])?;
        let raw = object.required_raw("properties")?;
        let texts: Vec<String> = serde_json::from_str(raw)
            .map_err(|_| Problem::argument("properties", "properties must be a list of strings"))?;
        if texts.len() > PROPERTIES_MAX {
            let detail = format!("an index must have 1 to {PROPERTIES_MAX} properties");
            return Err(Problem::argument("properties", detail));
        }
        let pointer = |(index, text): (usize, &String)| {
            Pointer::new(text).map_err(|invalid| Problem::from(invalid).at(format!("properties[{index}]")))
        };
        Ok(Self {
            name: object.required("name", VersionLabel::of_index)?,
            properties: texts.iter().enumerate().map(pointer).collect::<Result<_, _>>()?,
            order_by: object.optional("order_by", Pointer::new)?,
        })
    }

    pub fn spec(self) -> Result<(VersionLabel, IndexSpec), Problem> {
        let spec = IndexSpec::new(self.properties, self.order_by);
        Ok((self.name, spec.map_err(|invalid| Problem::from(invalid).at("properties"))?))
    }
}

/// Which bags to find by an index.
#[derive(Debug, PartialEq, Eq, ToSchema)]
#[schema(example = json!({"values": ["GB"], "min": 7.5, "order": "oldest", "limit": 20}))]
pub struct FindBagsInput {
    /// A string, number, boolean or null for each property of the index, in order.
    #[schema(schema_with = values)]
    pub values: Vec<String>,
    /// Lower bound in the order of the index: a number, or a time in RFC 3339.
    #[schema(schema_with = bound, required = false)]
    pub min: Option<String>,
    /// Upper bound in the order of the index.
    #[schema(schema_with = bound, required = false)]
    pub max: Option<String>,
    /// `newest` (or greatest) first, the default, or `oldest`.
    #[schema(value_type = String, required = false)]
    pub order: Option<Order>,
    /// Maximum number of bags; default 100.
    #[schema(value_type = u32, minimum = 1, maximum = 1000, required = false)]
    pub limit: Option<usize>,
    /// Continue after the page that returned this token.
    #[schema(value_type = String, required = false)]
    pub page_token: Option<String>,
}

fn of_types(types: &[Type]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(types.iter().cloned().collect::<SchemaType>())
}

fn values() -> Schema {
    let value: Object = of_types(&[Type::String, Type::Number, Type::Boolean, Type::Null]).build();
    let description = "A string, number, boolean or null for each property of the index, in order.";
    let values = ArrayBuilder::new().items(value).min_items(Some(1)).max_items(Some(PROPERTIES_MAX));
    values.description(Some(description)).into()
}

fn bound() -> Schema {
    let description = "Lower or upper bound in the order of the index: a number, or a time in RFC 3339.";
    of_types(&[Type::Number, Type::String]).description(Some(description)).into()
}

impl FindBagsInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = object::Object::read(body, &["values", "min", "max", "order", "limit", "page_token"], &[])?;
        let refused = || Problem::argument("values", format!("values must be a list of 1 to {PROPERTIES_MAX} values"));
        let values: Vec<&RawValue> = serde_json::from_str(object.required_raw("values")?).map_err(|_| refused())?;
        if values.is_empty() || values.len() > PROPERTIES_MAX {
            return Err(refused());
        }
        let bound = |name: &'static str| {
            let text = object.raw(name).map(|raw| match raw.as_bytes().first() {
                Some(b'-' | b'0'..=b'9') => Some(raw.to_owned()),
                _ => serde_json::from_str(raw).ok(),
            });
            let refused = || Problem::argument(name, format!("{name} must be a number or a string"));
            text.map(|text| text.ok_or_else(refused)).transpose()
        };
        Ok(Self {
            values: values.iter().map(|value| value.get().to_owned()).collect(),
            min: bound("min")?,
            max: bound("max")?,
            order: object.optional("order", Order::parse)?,
            limit: object.optional_number("limit", 1..=Limit::PAGE_SIZE_MAX)?,
            page_token: object.optional("page_token", |text| Ok(text.to_owned()))?,
        })
    }
}

/// Which indexes of an entity type to clean.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"index": "by_country", "lists_per_second": 1000}))]
#[serde(deny_unknown_fields)]
pub struct CleanInput {
    // All of them if it is left out.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::IndexName, inline, required = false)]
    pub index: Option<VersionLabel>,
    /// Maximum number of bags and entries to check per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000, required = false)]
    pub lists_per_second: Option<NonZeroU32>,
}

impl CleanInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = object::Object::read(body, &["index", "lists_per_second"], &[])?;
        Ok(Self {
            index: object.optional("index", VersionLabel::of_index)?,
            lists_per_second: lists_per_second(&object)?,
        })
    }
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
