//! The bodies of requests to one list, except a get and an add.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::item_input::raw_json;
use super::object::Object;
use super::{AddItemsInput, ItemInput, Problem, text, texts};
use crate::domain::{NAMED_ITEMS_MAX, Timestamp};

/// The items to remove: by value, by timestamp and value, by key, or by time range.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"value": "story-17"}))]
#[serde(untagged)]
pub enum RemoveItemsInput<'a> {
    Value(RemoveValueInput<'a>),
    Items(RemoveNamedInput<'a>),
    Key(RemoveKeyInput<'a>),
    Keys(RemoveKeysInput<'a>),
    Between(RemoveBetweenInput),
}

/// Removes all items with this value, at any time.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"value": "story-17"}))]
#[serde(deny_unknown_fields)]
pub struct RemoveValueInput<'a> {
    #[serde(serialize_with = "raw_json")]
    #[schema(value_type = serde_json::Value)]
    pub value: &'a str,
}

/// Removes the item with this key, at any time.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"key": "u-17"}))]
#[serde(deny_unknown_fields)]
pub struct RemoveKeyInput<'a> {
    // As JSON.
    #[serde(serialize_with = "raw_json")]
    #[schema(value_type = texts::MemberKey, inline)]
    pub key: &'a str,
}

/// Removes the items with these keys, at any time.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"keys": ["u-17", "u-18"]}))]
#[serde(deny_unknown_fields)]
pub struct RemoveKeysInput<'a> {
    /// As JSON.
    #[serde(serialize_with = "raw_jsons")]
    #[schema(value_type = Vec<texts::MemberKey>, min_items = 1, max_items = 1000)]
    pub keys: Vec<&'a str>,
}

/// Removes these items.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}]}))]
#[serde(deny_unknown_fields)]
pub struct RemoveNamedInput<'a> {
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<ItemInput<'a>>,
}

/// Removes all items between two timestamps, both inclusive. At least one of them is required.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"max_timestamp": "2024-08-29T16:44:05.43Z"}), min_properties = 1)]
#[serde(deny_unknown_fields)]
pub struct RemoveBetweenInput {
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::TimestampInput, inline, required = false)]
    pub min_timestamp: Option<Timestamp>,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::TimestampInput, inline, required = false)]
    pub max_timestamp: Option<Timestamp>,
}

/// Values to search for.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"values": ["story-17", "story-18"]}))]
#[serde(deny_unknown_fields)]
pub struct ContainsInput<'a> {
    #[serde(serialize_with = "raw_jsons")]
    #[schema(value_type = Vec<serde_json::Value>, min_items = 1, max_items = 1000)]
    pub values: Vec<&'a str>,
}

pub(super) fn raw_jsons<S: Serializer>(values: &[&str], serializer: S) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(Some(values.len()))?;
    for value in values {
        let raw: &RawValue = serde_json::from_str(value).map_err(serde::ser::Error::custom)?;
        seq.serialize_element(raw)?;
    }
    seq.end()
}

impl<'a> RemoveItemsInput<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        let known = ["value", "items", "key", "keys", "min_timestamp", "max_timestamp"];
        let object = Object::read(body, &known, &[])?;
        let given: Vec<_> = known.into_iter().filter(|name| object.raw(name).is_some()).collect();
        match given[..] {
            ["value"] => Ok(Self::Value(RemoveValueInput { value: object.required_raw("value")? })),
            ["items"] => {
                // The same bounds, and the same error messages.
                let AddItemsInput { items } = AddItemsInput::read(body)?;
                Ok(Self::Items(RemoveNamedInput { items }))
            }
            ["key"] => Ok(Self::Key(RemoveKeyInput { key: object.required_raw("key")? })),
            ["keys"] => Ok(Self::Keys(RemoveKeysInput { keys: entries(&object, "keys")? })),
            ["min_timestamp" | "max_timestamp", ..] => {
                let moment = |name: &'static str| {
                    let parsed = object.raw(name).map(Timestamp::from_json).transpose();
                    parsed.map_err(|invalid| Problem::from(invalid).at(name))
                };
                let (min_timestamp, max_timestamp) = (moment("min_timestamp")?, moment("max_timestamp")?);
                check_bounds(min_timestamp, max_timestamp)?;
                Ok(Self::Between(RemoveBetweenInput { min_timestamp, max_timestamp }))
            }
            [] => {
                let detail = "name the items to remove with value, items, key, keys, or min_timestamp and \
                              max_timestamp; to remove all items of the list, send DELETE to its items";
                Err(Problem::argument("value", detail))
            }
            [_, second, ..] => {
                let detail = "send only one of value, items, key, keys, or min_timestamp with max_timestamp";
                Err(Problem::argument(second, detail))
            }
            [_] => Err(Problem::argument("value", "unknown field of a removal")),
        }
    }
}

/// Refuses bounds between which nothing can lie.
pub fn check_bounds(min: Option<Timestamp>, max: Option<Timestamp>) -> Result<(), Problem> {
    match (min, max) {
        (Some(min), Some(max)) if min > max => {
            Err(Problem::argument("min_timestamp", "min_timestamp must not be after max_timestamp"))
        }
        _ => Ok(()),
    }
}

impl<'a> ContainsInput<'a> {
    /// Values of one question.
    pub const VALUES_MAX: usize = NAMED_ITEMS_MAX;

    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["values"], &[])?;
        Ok(Self { values: entries(&object, "values")? })
    }
}

/// The entries of a member that is an array, as JSON.
pub(super) fn entries<'a>(object: &Object<'a>, name: &'static str) -> Result<Vec<&'a str>, Problem> {
    let raw = object.required_raw(name)?;
    let Values { values, count } =
        serde_json::from_str(raw).map_err(|_| Problem::argument(name, format!("{name} must be an array")))?;
    if !(1..=NAMED_ITEMS_MAX).contains(&count) {
        let detail = format!("{name} must have 1 to {NAMED_ITEMS_MAX} entries: split the request");
        return Err(Problem::argument(name, detail));
    }
    Ok(values)
}

/// The entries of an array, up to the allowed number.
struct Values<'a> {
    values: Vec<&'a str>,
    count: usize,
}

impl<'de> Deserialize<'de> for Values<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValuesVisitor;

        impl<'de> Visitor<'de> for ValuesVisitor {
            type Value = Values<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while values.len() < NAMED_ITEMS_MAX
                    && let Some(value) = seq.next_element::<&'de RawValue>()?
                {
                    values.push(value.get());
                }
                let mut count = values.len();
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Values { values, count })
            }
        }

        deserializer.deserialize_seq(ValuesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    #[test]
    fn what_a_client_writes_the_server_reads_as_the_same() {
        let bounds = |min, max| RemoveBetweenInput { min_timestamp: min, max_timestamp: max };
        for removal in [
            RemoveItemsInput::Value(RemoveValueInput { value: "1.50" }),
            RemoveItemsInput::Items(RemoveNamedInput {
                items: vec![ItemInput { timestamp: at(7), value: "null", key: None }],
            }),
            RemoveItemsInput::Key(RemoveKeyInput { key: "\"k\"" }),
            RemoveItemsInput::Keys(RemoveKeysInput { keys: vec!["\"k\"", "\"l\""] }),
            RemoveItemsInput::Between(bounds(Some(at(7)), Some(at(7)))),
            RemoveItemsInput::Between(bounds(None, Some(at(7)))),
            RemoveItemsInput::Between(bounds(Some(at(7)), None)),
        ] {
            let sent = serde_json::to_vec(&removal).unwrap();
            assert_eq!(RemoveItemsInput::read(&sent).unwrap(), removal);
        }
        let contains = ContainsInput { values: vec!["1.50", "\"a\"", "null"] };
        assert_eq!(ContainsInput::read(&serde_json::to_vec(&contains).unwrap()).unwrap(), contains);
    }

    #[test]
    fn a_removal_says_one_thing_and_every_refusal_names_what_is_to_blame() {
        let refused = |body: &str| {
            let problem = RemoveItemsInput::read(body.as_bytes()).unwrap_err();
            (problem.code.name(), problem.field.unwrap_or_default().into_owned())
        };
        for (body, code, field) in [
            ("{}", "invalid_argument", "value"),
            (r#"{"value":1,"items":[]}"#, "invalid_argument", "items"),
            (r#"{"value":1,"max_timestamp":1}"#, "invalid_argument", "max_timestamp"),
            (r#"{"items":[],"min_timestamp":1}"#, "invalid_argument", "min_timestamp"),
            (r#"{"items":[]}"#, "invalid_argument", "items"),
            (r#"{"keys":[]}"#, "invalid_argument", "keys"),
            (r#"{"keys":"k"}"#, "invalid_argument", "keys"),
            (r#"{"value":1,"key":"k"}"#, "invalid_argument", "key"),
            (r#"{"items":[{"timestamp":1}]}"#, "invalid_argument", "items[0].value"),
            (r#"{"items":[{"timestamp":"x","value":1}]}"#, "invalid_timestamp", "items[0].timestamp"),
            (r#"{"min_timestamp":null}"#, "invalid_argument", "min_timestamp"),
            (r#"{"max_timestamp":"soon"}"#, "invalid_timestamp", "max_timestamp"),
            (r#"{"min_timestamp":2,"max_timestamp":1}"#, "invalid_argument", "min_timestamp"),
        ] {
            assert_eq!(refused(body), (code, field.to_owned()), "{body}");
        }
        let hint = RemoveItemsInput::read(b"{}").unwrap_err().detail;
        assert!(hint.contains("DELETE"), "{hint}");
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let many = |n: usize| format!(r#"{{"values":[{}]}}"#, vec!["1"; n].join(","));
        assert_eq!(ContainsInput::read(many(1_000).as_bytes()).unwrap().values.len(), 1_000);
        for body in [many(0), many(1_001), r#"{"values":{}}"#.into(), r#"{"values":null}"#.into(), "{}".into()] {
            let refused = ContainsInput::read(body.as_bytes()).unwrap_err();
            assert_eq!((refused.code.name(), refused.field.as_deref()), ("invalid_argument", Some("values")));
        }
    }
}
