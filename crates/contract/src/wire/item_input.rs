//! One item to add, alone or among many.

use std::borrow::Cow;

use serde::de::Deserializer;
use serde::ser::{Error, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::refused::{refuse, want};
use super::{members, texts};
use crate::domain::{Invalid, MemberKey, Timestamp, json};

/// An item to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemInput<'a> {
    #[serde(deserialize_with = "members::timestamp")]
    #[schema(value_type = texts::TimestampInput)]
    pub timestamp: Timestamp,
    /// The value as JSON of the feature's value type: `bytes` as standard Base64, `int64` as a number or a decimal
    /// string. At most 64,000 stored bytes.
    #[serde(borrow, deserialize_with = "members::raw", serialize_with = "raw_json")]
    #[schema(value_type = serde_json::Value)]
    pub value: &'a str,
    // As JSON.
    #[serde(default, borrow, deserialize_with = "key", serialize_with = "raw_json_of_some")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::MemberKey, inline, required = false)]
    pub key: Option<&'a str>,
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de str>, D::Error> {
    let raw = members::raw(deserializer)?;
    match member_key(raw) {
        Ok(_) => Ok(Some(raw)),
        Err(invalid) if raw.starts_with('"') => Err(refuse(invalid)),
        Err(_) => Err(want("a JSON string")),
    }
}

/// The text of an item's key, from its JSON.
pub fn member_key(raw: &str) -> Result<Cow<'_, str>, Invalid> {
    let text = json::string(raw).ok_or_else(|| Invalid::argument("key must be a JSON string"))?;
    MemberKey::new(&text)?;
    Ok(text)
}

fn raw_json_of_some<S: Serializer>(json: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    match json {
        Some(json) => raw_json(json, serializer),
        None => serializer.serialize_none(),
    }
}

/// Writes a value as it is: JSON numbers keep their digits.
pub(crate) fn raw_json<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(json).map_err(S::Error::custom)?.serialize(serializer)
}

/// The same for each entry of an array.
pub(crate) fn raw_jsons<S: Serializer>(values: &[&str], serializer: S) -> Result<S::Ok, S::Error> {
    let mut array = serializer.serialize_seq(Some(values.len()))?;
    for value in values {
        let raw: &RawValue = serde_json::from_str(value).map_err(S::Error::custom)?;
        array.serialize_element(raw)?;
    }
    array.end()
}
