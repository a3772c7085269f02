//! The bodies of purges and jobs.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::object::Object;
use super::{Problem, text, texts};
use crate::domain::VersionLabel;

/// What of a feature is to be purged.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"deleted_only": true}))]
#[serde(deny_unknown_fields)]
pub struct PurgeInput {
    // All versions if it is left out.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Label, inline, required = false)]
    pub version: Option<VersionLabel>,
    /// Whether the lists that definitions lead to now are left alone; if left out, they are not.
    #[schema(required = false)]
    pub deleted_only: bool,
    /// Lists that are cleared in a second, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000, required = false)]
    pub lists_per_second: Option<NonZeroU32>,
}

impl PurgeInput {
    pub const LISTS_PER_SECOND_MAX: u32 = 1_000_000;

    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["version", "deleted_only", "lists_per_second"], &[])?;
        Ok(Self {
            version: object.optional("version", VersionLabel::new)?,
            deleted_only: deleted_only(&object)?,
            lists_per_second: lists_per_second(&object)?,
        })
    }
}

/// What every purge may be asked for.
pub(super) fn deleted_only(object: &Object<'_>) -> Result<bool, Problem> {
    let flag = object.raw("deleted_only").map(serde_json::from_str::<bool>).transpose();
    let flag = flag.map_err(|_| Problem::argument("deleted_only", "deleted_only must be true or false"))?;
    Ok(flag.unwrap_or(false))
}

pub(super) fn lists_per_second(object: &Object<'_>) -> Result<Option<NonZeroU32>, Problem> {
    let rate = object.optional_number("lists_per_second", 1..=PurgeInput::LISTS_PER_SECOND_MAX as usize)?;
    Ok(rate.and_then(|rate| NonZeroU32::new(u32::try_from(rate).ok()?)))
}

/// What of a job is to change.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"lists_per_second": 500}))]
#[serde(deny_unknown_fields)]
pub struct JobPatch {
    /// Lists that are cleared, or bags and entries that are looked at, in a second, at most; null for as many as can
    /// be.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000, required = true)]
    pub lists_per_second: Option<NonZeroU32>,
}

impl JobPatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["lists_per_second"], &[])?;
        let has_no_limit = object.required_raw("lists_per_second")? == "null";
        Ok(Self { lists_per_second: if has_no_limit { None } else { lists_per_second(&object)? } })
    }
}

/// Work in the background, and how far it is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub id: String,
    /// What it does: `purge` clears lists, `build_index` enters the bags of an entity type into an index,
    /// `drop_index` clears what is left of one, `clean` mends entries of indexes.
    pub kind: String,
    /// `waiting`, `running`, `paused`, `cancelled` or `done`.
    pub state: String,
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    // Absent where it is about the bags of the entity type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Name, inline, required = false)]
    pub feature: Option<String>,
    /// Generations of versions whose lists are to go, or the indexes that are built or cleaned.
    pub generations: u64,
    /// Those of them that are behind it.
    pub generations_cleared: u64,
    /// How much of all that is stored was gone through for the next of them, in percent, also where nothing of it was
    /// found: absent before it begins, and once the job is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, minimum = 0, maximum = 100, required = false)]
    pub walked_percent: Option<u64>,
    /// Lists that were cleared so far, or bags and entries that were looked at.
    pub lists_cleared: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    pub lists_per_second: Option<u32>,
    // The indexes that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<texts::IndexName>, required = false)]
    pub indexes: Vec<String>,
    /// Of a cleaning, the entries that were missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub entries_added: Option<u64>,
    /// Of a cleaning, the entries that no bag had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub entries_removed: Option<u64>,
    /// Of a building or a cleaning, the entries that are right, of all its indexes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub entries: Option<u64>,
    /// Once it is done: whether the files of the item store hold none of the bytes any more. Else the
    /// store gives them back later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    pub bytes_erased: Option<bool>,
    /// Why it does not go on at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub problem: Option<String>,
    #[schema(value_type = texts::Timestamp, inline)]
    pub created_at: String,
    pub created_by: String,
    #[schema(value_type = texts::Timestamp, inline)]
    pub updated_at: String,
}

/// All jobs, the newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    pub jobs: Vec<Job>,
}
