//! The bodies of purges and jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::texts;

/// A background job and its progress.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub id: String,
    /// The work of the job: `purge` clears lists, `build_index` adds the bags of an entity type to an index,
    /// `drop_index` clears a deleted index, `clean` repairs index entries.
    pub kind: String,
    /// `waiting`, `running`, `paused`, `cancelled` or `done`.
    pub state: String,
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    // Absent where it is about the bags of the entity type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Name, inline, required = false)]
    pub feature: Option<String>,
    /// The number of version generations to clear, or of indexes to build or clean.
    pub generations: u64,
    /// How many of them are finished.
    pub generations_cleared: u64,
    /// How much of the store was scanned for the next of them, in percent, including parts without matches. Absent
    /// before it begins and after the job ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, minimum = 0, maximum = 100, required = false)]
    pub walked_percent: Option<u64>,
    /// Lists cleared, or bags and entries checked, so far.
    pub lists_cleared: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    pub lists_per_second: Option<u32>,
    // The indexes that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<texts::IndexName>, required = false)]
    pub indexes: Vec<String>,
    /// For a cleaning: the missing entries it added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub entries_added: Option<u64>,
    /// For a cleaning: the entries without a bag it removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub entries_removed: Option<u64>,
    /// For a build or a cleaning: the correct entries of all its indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub entries: Option<u64>,
    /// After the job: whether the bytes have left the files of the item store. If not, the store reclaims them later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    pub bytes_erased: Option<bool>,
    /// Why the job is currently blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub problem: Option<String>,
    #[schema(value_type = texts::Timestamp, inline)]
    pub created_at: String,
    pub created_by: String,
    #[schema(value_type = texts::Timestamp, inline)]
    pub updated_at: String,
}
