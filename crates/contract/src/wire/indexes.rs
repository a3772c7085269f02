//! The bodies of indexes of bags, and of their results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Bag, texts};

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
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_-]+$", required = false)]
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
