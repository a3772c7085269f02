//! Lists, their items, and the order of these.

use std::cmp::Ordering;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

/// One feature version: it is created and deleted, and lists belong to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VersionName {
    pub feature: String,
    /// `""` is the default version, which lives and dies with its feature.
    pub label: String,
}

/// One list: a feature version and an entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListName {
    pub version: VersionName,
    pub entity: String,
}

/// An item as callers see it: its nanoseconds, and its value as the API writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Item {
    pub timestamp: u64,
    /// JSON text.
    pub value: String,
}

/// The order of a list's items: the timestamp, then the Base64 of the value's MD5 as text. Lists are read in its
/// descending order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub timestamp: u64,
    pub digest: String,
}

/// The types of value in the workload. The stored form decides ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    String,
    Int64,
    Bytes,
    Json,
}

impl ValueType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int64 => "int64",
            Self::Bytes => "bytes",
            Self::Json => "json",
        }
    }

    /// The stored form of a value, as the API guide defines it, from its JSON text.
    fn stored(self, json: &str) -> Result<Vec<u8>, String> {
        let fail = |error: &dyn fmt::Display| format!("{json} is no {}: {error}", self.as_str());
        match self {
            Self::String => serde_json::from_str::<String>(json).map(String::into_bytes).map_err(|e| fail(&e)),
            Self::Int64 => json.parse::<i64>().map(|n| n.to_be_bytes().to_vec()).map_err(|e| fail(&e)),
            Self::Bytes => {
                let text: String = serde_json::from_str(json).map_err(|e| fail(&e))?;
                STANDARD.decode(text).map_err(|e| fail(&e))
            }
            // The workload writes canonical JSON, and must read it unchanged.
            Self::Json => Ok(json.as_bytes().to_vec()),
        }
    }

    /// The order in which values with equal counts are returned: numbers by their size, all others by their stored
    /// forms.
    pub fn order(self, one: &str, other: &str) -> Result<Ordering, String> {
        let number = |json: &str| json.parse::<i64>().ok().filter(|_| matches!(self, Self::Int64 | Self::Json));
        match (number(one), number(other)) {
            (Some(one), Some(other)) => Ok(one.cmp(&other)),
            _ => Ok(self.stored(one)?.cmp(&self.stored(other)?)),
        }
    }

    pub fn key(self, item: &Item) -> Result<Key, String> {
        let digest = STANDARD.encode(Md5::digest(self.stored(&item.value)?));
        Ok(Key { timestamp: item.timestamp, digest })
    }
}

/// Which end of a list a page begins at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    Newest,
    Oldest,
}

/// The special property of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Special {
    /// Its lists are sets, of whose members, values, the newest item stays.
    Sets,
    /// Its lists show at most this many items.
    Bounded(u64),
}

impl fmt::Display for ListName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.version, self.entity)
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.feature, self.label)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.timestamp, self.value)
    }
}
