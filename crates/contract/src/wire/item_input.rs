//! One item to add, alone or among many.

use std::borrow::Cow;

use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{text, texts};
use crate::domain::{Invalid, MemberKey, Timestamp, json};

/// An item to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemInput<'a> {
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::TimestampInput, inline)]
    pub timestamp: Timestamp,
    /// The value as JSON of the feature's value type: `bytes` as standard Base64, `int64` as a number or a decimal
    /// string. At most 64,000 stored bytes.
    #[serde(serialize_with = "raw_json")]
    #[schema(value_type = serde_json::Value)]
    pub value: &'a str,
    // As JSON.
    #[serde(serialize_with = "raw_json_of_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::MemberKey, inline, required = false)]
    pub key: Option<&'a str>,
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

/// A value stands in a body as it is: JSON numbers keep their digits.
pub(super) fn raw_json<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(json).map_err(S::Error::custom)?.serialize(serializer)
}
