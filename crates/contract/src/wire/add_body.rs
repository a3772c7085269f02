//! The body of an add: `{"items":[{"timestamp","value"}]}`, read in one pass.
//!
//! Values stay raw until their feature's type is known. Every refusal names the item to blame.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::Deserializer as _;
use serde::de::{self, Deserialize, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::object::{check_syntax, missing_member, repeated_member, text_of, unknown_member};
use super::plain_add;
use super::{ErrorCode, ItemInput, Problem, member_key};
use crate::domain::{ADD_ITEMS_MAX, Invalid, Timestamp};

pub(super) fn parse(body: &[u8]) -> Result<Vec<ItemInput<'_>>, Problem> {
    let text = text_of(body)?;
    plain_add::parse(text).map_or_else(|| parse_any(text), Ok)
}

/// Reads a body of any form.
pub(super) fn parse_any(text: &str) -> Result<Vec<ItemInput<'_>>, Problem> {
    let trail = Trail::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = deserializer.deserialize_map(BodyVisitor(&trail)).and_then(|items| deserializer.end().map(|()| items));
    parsed.map_err(|_| trail.explain(text))
}

/// Reads the items alone, in any form, from a body that is JSON. A text or number that is no timestamp, or no key, is
/// an error within: the items have their form.
pub(super) fn parse_items(text: &str) -> Result<Result<Vec<ItemInput<'_>>, Problem>, Problem> {
    let trail = Trail::default();
    trail.position.set(Position::Items);
    let parsed = ItemsSeed(&trail).deserialize(&mut serde_json::Deserializer::from_str(text));
    match parsed {
        Ok(items) => Ok(Ok(items)),
        Err(_) if trail.has_form.get() => Ok(Err(trail.explain(text))),
        Err(_) => Err(trail.explain(text)),
    }
}

/// Where the parser stands, and why it stopped, if it was not the JSON itself.
#[derive(Debug, Default)]
struct Trail {
    position: Cell<Position>,
    refusal: RefCell<Option<Problem>>,
    /// Whether the refused member is of the right JSON type.
    has_form: Cell<bool>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Position {
    #[default]
    Body,
    Items,
    Item(usize),
}

impl Trail {
    fn refuse<E: de::Error>(&self, problem: Problem) -> E {
        self.refusal.replace(Some(problem));
        E::custom("refused")
    }

    /// Refuses the content of a member. `types` are the first characters of the accepted JSON.
    fn refuse_value<E: de::Error>(&self, raw: &str, types: &str, problem: Problem) -> E {
        self.has_form.set(raw.starts_with(|first| types.contains(first)));
        self.refuse(problem)
    }

    /// The mistake. A text that is not JSON is reported as such, even if it has other mistakes.
    fn explain(self, text: &str) -> Problem {
        if let Err(problem) = check_syntax(text) {
            return problem;
        }
        self.refusal.into_inner().unwrap_or_else(|| match self.position.get() {
            Position::Body => {
                Problem::new(ErrorCode::InvalidArgument, "the body must be a JSON object {\"items\": [...]}")
            }
            Position::Items => Problem::argument("items", "items must be an array"),
            Position::Item(index) => {
                let field = format!("items[{index}]");
                let detail = format!(
                    "{field} must be an object {{\"timestamp\", \"value\"}}, with a \"key\" where items have keys"
                );
                Problem::argument(field, detail)
            }
        })
    }
}

struct BodyVisitor<'t>(&'t Trail);

impl<'de> Visitor<'de> for BodyVisitor<'_> {
    type Value = Vec<ItemInput<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let trail = self.0;
        let mut items = None;
        while let Some(Name(name)) = map.next_key()? {
            match name {
                Known::Items if items.is_some() => return Err(trail.refuse(repeated_member("items".to_owned()))),
                Known::Items => {
                    trail.position.set(Position::Items);
                    items = Some(map.next_value_seed(ItemsSeed(trail))?);
                    trail.position.set(Position::Body);
                }
                other => return Err(trail.refuse(unknown_member("", other.as_str(), &["items"]))),
            }
        }
        items.ok_or_else(|| trail.refuse(missing_member("items".to_owned())))
    }
}

struct ItemsSeed<'t>(&'t Trail);

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_> {
    type Value = Vec<ItemInput<'de>>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_> {
    type Value = Vec<ItemInput<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let trail = self.0;
        let mut items = Vec::new();
        trail.position.set(Position::Item(0));
        while let Some(item) = seq.next_element_seed(ItemSeed { trail, index: items.len() })? {
            if items.len() == ADD_ITEMS_MAX {
                let detail = format!("items must have 1 to {ADD_ITEMS_MAX} entries: split the request");
                return Err(trail.refuse(Problem::argument("items", detail)));
            }
            items.push(item);
            trail.position.set(Position::Item(items.len()));
        }
        if items.is_empty() {
            return Err(
                trail.refuse(Problem::argument("items", format!("items must have 1 to {ADD_ITEMS_MAX} entries")))
            );
        }
        Ok(items)
    }
}

struct ItemSeed<'t> {
    trail: &'t Trail,
    index: usize,
}

impl ItemSeed<'_> {
    fn field(&self, name: &str) -> String {
        format!("items[{}].{name}", self.index)
    }
}

impl<'de> DeserializeSeed<'de> for ItemSeed<'_> {
    type Value = ItemInput<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ItemSeed<'_> {
    type Value = ItemInput<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let trail = self.trail;
        let (mut timestamp, mut value, mut key) = (None, None, None);
        while let Some(Name(name)) = map.next_key()? {
            let place = match name {
                Known::Timestamp => &mut timestamp,
                Known::Value => &mut value,
                Known::Key => &mut key,
                other => {
                    let prefix = format!("items[{}].", self.index);
                    return Err(trail.refuse(unknown_member(&prefix, other.as_str(), &["timestamp", "value", "key"])));
                }
            };
            if place.is_some() {
                return Err(trail.refuse(repeated_member(self.field(name.as_str()))));
            }
            *place = Some(map.next_value::<&'de RawValue>()?.get());
        }
        let missing = |name| trail.refuse(missing_member(self.field(name)));
        let timestamp = timestamp.ok_or_else(|| missing("timestamp"))?;
        let value = value.ok_or_else(|| missing("value"))?;
        let refused = |name: &str, raw: &str, types: &str, invalid: Invalid| {
            trail.refuse_value(raw, types, Problem::from(invalid).at(self.field(name)))
        };
        let timestamp = Timestamp::from_json(timestamp)
            .map_err(|invalid| refused("timestamp", timestamp, "\"-0123456789", invalid))?;
        if let Some(key) = key {
            member_key(key).map_err(|invalid| refused("key", key, "\"", invalid))?;
        }
        Ok(ItemInput { timestamp, value, key })
    }
}

/// The name of a member: the known ones cost no allocation.
struct Name(Known);

enum Known {
    Items,
    Timestamp,
    Value,
    Key,
    Other(String),
}

impl Known {
    fn as_str(&self) -> &str {
        match self {
            Self::Items => "items",
            Self::Timestamp => "timestamp",
            Self::Value => "value",
            Self::Key => "key",
            Self::Other(name) => name,
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
                Ok(Name(match name {
                    "items" => Known::Items,
                    "timestamp" => Known::Timestamp,
                    "value" => Known::Value,
                    "key" => Known::Key,
                    other => Known::Other(other.to_owned()),
                }))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> (&'static str, String) {
        let problem = parse(body.as_bytes()).unwrap_err();
        (problem.code.name(), problem.field.unwrap_or_default().into_owned())
    }

    #[test]
    fn items_are_read_with_their_values_raw() {
        let body =
            r#" {"items" : [{"timestamp":1,"value": {"a": [1, 2]} }, {"value":null,"key":"\u0061","timestamp":"2"}]} "#;
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        assert_eq!(
            parse(body.as_bytes()),
            Ok(vec![
                ItemInput { timestamp: at(1), value: r#"{"a": [1, 2]}"#, key: None },
                ItemInput { timestamp: at(2), value: "null", key: Some(r#""\u0061""#) },
            ])
        );
    }

    #[test]
    fn every_refusal_names_what_is_to_blame() {
        for (body, field) in [
            ("[]", ""),
            ("7", ""),
            ("{}", "items"),
            (r#"{"items":{}}"#, "items"),
            (r#"{"items":null}"#, "items"),
            (r#"{"items":[]}"#, "items"),
            (r#"{"items":[{"timestamp":1,"value":1}],"items":[]}"#, "items"),
            (r#"{"item":[]}"#, "item"),
            (r#"{"items":[{"timestamp":1,"value":1}],"x":1}"#, "x"),
            (r#"{"items":[{"timestamp":1,"value":1},7]}"#, "items[1]"),
            (r#"{"items":[[1,"x"]]}"#, "items[0]"),
            (r#"{"items":[{"timestamp":1}]}"#, "items[0].value"),
            (r#"{"items":[{"value":1}]}"#, "items[0].timestamp"),
            (r#"{"items":[{"timestamp":1,"value":1,"vaule":1}]}"#, "items[0].vaule"),
            (r#"{"items":[{"timestamp":1,"value":1,"key":"a","key":"a"}]}"#, "items[0].key"),
            (r#"{"items":[{"timestamp":1,"value":1},{"timestamp":1,"value":1,"value":2}]}"#, "items[1].value"),
            (r#"{"items":[{"timestamp":null,"value":1}]}"#, "items[0].timestamp"),
            (r#"{"items":[{"timestamp":1,"value":1,"key":7}]}"#, "items[0].key"),
            (r#"{"items":[{"timestamp":1,"value":1,"key":""}]}"#, "items[0].key"),
        ] {
            assert_eq!(refusal(body), ("invalid_argument", field.to_owned()), "{body}");
        }
        let bad_timestamp = r#"{"items":[{"timestamp":1,"value":1},{"timestamp":"soon","value":1}]}"#;
        assert_eq!(refusal(bad_timestamp), ("invalid_timestamp", "items[1].timestamp".to_owned()));
    }

    #[test]
    fn what_is_not_json_is_said_first() {
        for body in
            ["", "{", r#"{"items":[{"timestamp":"soon","value":1}]"#, r#"{"item":[],}"#, "{} {}", r#"{"items":[}"#]
        {
            assert_eq!(refusal(body).0, "invalid_json", "{body}");
        }
    }

    #[test]
    fn the_number_of_items_is_bounded() {
        let many = |n: usize| format!(r#"{{"items":[{}]}}"#, vec![r#"{"timestamp":1,"value":1}"#; n].join(","));
        assert_eq!(parse(many(1_000).as_bytes()).map(|items| items.len()), Ok(1_000));
        assert_eq!(refusal(&many(1_001)), ("invalid_argument", "items".to_owned()));
    }
}
