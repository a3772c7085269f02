//! The answers of the API, as far as the commands look into them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::ValueType;

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Feature {
    pub entity_type: String,
    pub name: String,
    pub value_type: ValueType,
    pub ttl: String,
    pub description: String,
    pub owner: String,
    pub labels: BTreeMap<String, String>,
    pub versions: Vec<Version>,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Version {
    pub version: String,
    pub ttl: String,
    pub description: String,
    pub created_at: String,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Deleted {
    pub items_expire_by: String,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct FeaturePage {
    pub features: Vec<Box<RawValue>>,
    pub next_page_token: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct HistoryPage {
    pub history: Vec<Box<RawValue>>,
    pub next_page_token: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct HistoryEntry {
    pub at: String,
    pub by: String,
    pub action: String,
    pub version: Option<String>,
    pub before: Option<serde_json::Value>,
    pub after: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct ItemPage {
    pub items: Vec<Box<RawValue>>,
    pub next_page_token: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Item {
    pub timestamp: String,
    pub value: Box<RawValue>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
pub(in crate::cli) struct Added {
    pub added: u64,
    pub already_expired: u64,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Removed {
    pub removed: u64,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Backup {
    pub dir: String,
    pub data_files: u64,
    pub data_bytes: u64,
    pub copied_files: u64,
    pub log_segments: u64,
    pub log_bytes: u64,
    pub definitions: bool,
    pub seconds: f64,
}
