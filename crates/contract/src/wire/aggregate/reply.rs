//! The answer to a request for aggregates.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::wire::texts;

/// AggregateResults by the names of their aggregates.
pub type AggregateResults = BTreeMap<String, Value>;

/// The aggregates of each window, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"as_of": "2024-08-29T17:00:00.000000000Z", "windows": [{
    "window": "1h",
    "min_timestamp": "2024-08-29T16:00:00.000000001Z",
    "max_timestamp": "2024-08-29T17:00:00.000000000Z",
    "complete": true,
    "results": {"payments": 12, "spent": 431.5},
    "skipped": 0,
}], "items_read": 12}))]
pub struct Aggregated {
    // The moment at which durations end.
    #[schema(value_type = texts::Timestamp, inline)]
    pub as_of: String,
    pub windows: Vec<WindowAggregates>,
    /// The items that the server looked at, which count against the caller's limit of items.
    pub items_read: u64,
}

/// The aggregates of one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WindowAggregates {
    /// The duration, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub window: Option<String>,
    // Inclusive.
    #[schema(value_type = texts::Timestamp, inline)]
    pub min_timestamp: String,
    // Inclusive.
    #[schema(value_type = texts::Timestamp, inline)]
    pub max_timestamp: String,
    /// Whether the results have all items of the window that were ever added and not removed. Items that had expired
    /// before the TTL was lengthened are not noticed.
    pub complete: bool,
    /// Why the window is not complete: `ttl` if it begins before the oldest moment whose items are visible, `max_items`
    /// if it begins before the last item that the list shows, `items_max` if the server read as many items as it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub reason: Option<String>,
    /// By the names of the aggregates. Absent with `group_by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, serde_json::Value>, required = false)]
    pub results: Option<AggregateResults>,
    /// With `group_by`: the group with the most items first, and of equal counts the lowest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<GroupAggregates>, required = false)]
    pub groups: Option<Vec<GroupAggregates>>,
    /// Items that at least one aggregate, or the grouping, left out: they lack its property, or it has another type.
    pub skipped: u64,
}

/// The aggregates of the items with one value of `group_by`, or of all other groups together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupAggregates {
    /// The value of the group. Absent for all other groups.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub value: Option<Value>,
    /// Present, and `true`, for all groups beyond `max_groups` together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub other: bool,
    /// The items of the group.
    pub count: u64,
    /// By the names of the aggregates.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub results: AggregateResults,
}

/// A value that is there, also null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
