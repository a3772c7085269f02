//! The bodies of replies.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::texts;
use crate::definition::{self, VersionProperties};
use crate::domain::{TimestampUnit, ValueType};

/// A page of items, in the requested order.
#[derive(ToSchema)]
#[expect(dead_code, reason = "rendered straight from stored bytes, and read page by page as it was sent")]
pub struct ItemPage {
    items: Vec<Item>,
    /// Present if and only if more items followed at the time of the read.
    #[schema(pattern = "^[A-Za-z0-9_-]+$", required = false)]
    next_page_token: String,
}

/// An item of a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"timestamp": "2024-08-29T16:44:05.430000000Z", "value": "story-17"}))]
pub struct Item {
    #[schema(value_type = texts::Timestamp, inline)]
    pub timestamp: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::MemberKey, inline, required = false)]
    pub key: Option<String>,
    /// The JSON of the feature's value type. An `int64` is a number, or a string of digits with `int64_as=string`.
    #[schema(value_type = serde_json::Value)]
    pub value: Box<RawValue>,
}

/// The result of an add. The counts add up to the number of items sent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"added": 1, "already_expired": 0}))]
pub struct Added {
    pub added: u64,
    pub already_expired: u64,
    /// Warnings about a probable mistake, as readable text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub warnings: Vec<String>,
}

impl Added {
    pub fn new(added: usize, already_expired: usize, mistaken_unit: Option<TimestampUnit>) -> Self {
        let warning = |unit: TimestampUnit| {
            format!(
                "timestamps are nanoseconds since 1970, but some of these look like {}: they were read as dates in \
                 1970 and have expired; multiply them, or send RFC 3339",
                unit.name()
            )
        };
        let warnings = mistaken_unit.map(warning).into_iter().collect();
        Self { added: added as u64, already_expired: already_expired as u64, warnings }
    }
}

/// A page of the entities that have lists of a feature version.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entities": ["u-123", "u-17"]}))]
pub struct EntityPage {
    #[schema(value_type = Vec<texts::EntityIdShown>)]
    pub entities: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_-]+$", required = false)]
    pub next_page_token: Option<String>,
}

/// A page of the lists that an entity has.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EntityLists {
    /// By feature and version.
    pub lists: Vec<EntityList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_-]+$", required = false)]
    pub next_page_token: Option<String>,
}

/// A list of the entity with visible items.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EntityList {
    #[schema(value_type = texts::Name, inline)]
    pub feature: String,
    #[schema(value_type = texts::Label, inline)]
    pub version: String,
    #[schema(value_type = texts::ValueType)]
    pub value_type: ValueType,
    // When its newest visible item happened.
    #[schema(value_type = texts::Timestamp, inline)]
    pub newest_timestamp: String,
}

/// A list feature with all its versions, the default one first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Feature {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    #[schema(value_type = texts::Name, inline)]
    pub name: String,
    #[schema(value_type = texts::ValueType)]
    pub value_type: ValueType,
    // The properties of the default version.
    #[serde(flatten)]
    pub properties: VersionProperties,
    pub description: String,
    pub owner: String,
    #[schema(value_type = texts::Labels, inline)]
    pub labels: BTreeMap<String, String>,
    #[schema(min_items = 1)]
    pub versions: Vec<FeatureVersion>,
    #[schema(value_type = texts::Timestamp, inline)]
    pub created_at: String,
    #[schema(value_type = texts::Timestamp, inline)]
    pub updated_at: String,
}

impl From<&definition::Feature> for Feature {
    fn from(feature: &definition::Feature) -> Self {
        Self {
            entity_type: feature.id.entity_type.to_string(),
            name: feature.id.name.to_string(),
            value_type: feature.value_type,
            properties: feature.properties(),
            description: feature.description.as_str().to_owned(),
            owner: feature.owner.as_str().to_owned(),
            labels: feature.labels.as_map().clone(),
            versions: feature.versions.iter().map(FeatureVersion::from).collect(),
            created_at: feature.created_at.to_string(),
            updated_at: feature.updated_at.to_string(),
        }
    }
}

/// A version of a feature.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FeatureVersion {
    #[schema(value_type = texts::Label, inline)]
    pub version: String,
    #[serde(flatten)]
    pub properties: VersionProperties,
    pub description: String,
    #[schema(value_type = texts::Timestamp, inline)]
    pub created_at: String,
}

impl From<&definition::FeatureVersion> for FeatureVersion {
    fn from(version: &definition::FeatureVersion) -> Self {
        Self {
            version: version.version.to_string(),
            properties: version.properties.clone(),
            description: version.description.as_str().to_owned(),
            created_at: version.created_at.to_string(),
        }
    }
}

/// The result of a deletion.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"items_expire_by": "2024-09-28T16:44:10.430000000Z"}))]
pub struct Deleted {
    #[schema(value_type = texts::ExpiryEstimate, inline)]
    pub items_expire_by: String,
}

/// Health: the worst of its checks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "pass", "checks": {"item_store": "pass", "catalog": "pass"}}))]
pub struct Health {
    pub status: Check,
    pub checks: BTreeMap<&'static str, Check>,
    /// The reason of each check that does not pass, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<&'static str, String>,
}

/// [`Health`], as clients read it.
#[derive(Debug, Deserialize)]
pub struct HealthRead {
    pub status: String,
    #[serde(default)]
    pub checks: BTreeMap<String, String>,
    #[serde(default)]
    pub reasons: BTreeMap<String, String>,
}

impl fmt::Display for HealthRead {
    /// In one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        self.reasons.iter().try_for_each(|(check, reason)| write!(f, "; {check}: {reason}"))
    }
}

/// Ordered from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    Pass,
    Warn,
    Fail,
}
