//! Domain types that are texts on the wire, and nothing else to serde.

use std::fmt::Display;

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::domain::{AheadMax, Bucket, IdentityKind, Keep, ValueType};

pub(super) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn serialize_some<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

pub(super) fn serialize_all<T: Display, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

pub(super) fn value_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ValueType, D::Error> {
    ValueType::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

pub(super) fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IdentityKind, D::Error> {
    IdentityKind::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

pub(super) fn bucket<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bucket>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| Bucket::parse(&text)).transpose().map_err(de::Error::custom)
}

pub(super) fn ahead_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<AheadMax>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| AheadMax::parse(&text)).transpose().map_err(de::Error::custom)
}

pub(super) fn keep<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Keep>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| Keep::parse(&text)).transpose().map_err(de::Error::custom)
}
