//! Remove List Items.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::domain::{NAMED_ITEMS_MAX, Timestamp};
use crate::operations::add_items::AddItemsInput;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::item_input::{raw_json, raw_jsons};
use crate::wire::parameters::{Parameter, VERSION};
use crate::wire::{ErrorCode, ItemInput, Problem, Type, body, check_bounds, members, texts};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [VERSION];

pub static ROW: Row = Row {
    name: "remove_items",
    summary: "Remove list items",
    description: "Removes all items with a value, up to 1,000 items by timestamp and value, all items between two \
                  timestamps (inclusive, one of them optional), or up to 1,000 items of a keyed set by key.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:remove",
    query: &QUERY,
    request: Some(Type::of::<RemoveItemsInput<'static>>()),
    replies: &[json(200, "Removed.", Type::of::<Removed>())],
    errors: &[
        ANY,
        WRITE,
        LIST,
        BODY,
        &[ErrorCode::ValueTypeMismatch, ErrorCode::IdentityMismatch, ErrorCode::InvalidTimestamp],
    ],
    counts_items: true,
    ..Row::DEFAULT
};

/// The items to remove: by value, by timestamp and value, by key, or by time range.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RemoveItemsInput<'a> {
    Value(RemoveValueInput<'a>),
    Items(RemoveNamedInput<'a>),
    Key(RemoveKeyInput<'a>),
    Keys(RemoveKeysInput<'a>),
    Between(RemoveBetweenInput),
}

impl PartialSchema for RemoveItemsInput<'_> {
    fn schema() -> RefOr<Schema> {
        // The form with a value is last: a value can be anything, so that some clients see one in every form.
        let forms = [
            "RemoveKeyInput",
            "RemoveKeysInput",
            "RemoveNamedInput",
            "RemoveSinceInput",
            "RemoveUntilInput",
            "RemoveValueInput",
        ];
        let any = forms.into_iter().fold(AnyOfBuilder::new(), |any, form| any.item(Ref::from_schema_name(form)));
        any.description(Some("The items to remove: by value, by timestamp and value, by key, or by time range."))
            .examples([serde_json::json!({"value": "story-17"})])
            .into()
    }
}

impl ToSchema for RemoveItemsInput<'_> {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        RemovalForms::schemas(schemas);
    }
}

/// The forms of a removal. Each form requires a member that no other form has, so that clients distinguish them.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schemas that RemoveItemsInput refers to")]
enum RemovalForms<'a> {
    Value(RemoveValueInput<'a>),
    Items(RemoveNamedInput<'a>),
    Key(RemoveKeyInput<'a>),
    Keys(RemoveKeysInput<'a>),
    Since(RemoveSinceInput),
    Until(RemoveUntilInput),
}

/// Removes all items from a timestamp on, or between two timestamps. Both are inclusive.
#[derive(ToSchema)]
#[schema(example = json!({"min_timestamp": "2024-08-29T16:44:05.43Z"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the schema of one form of RemoveBetweenInput")]
struct RemoveSinceInput {
    #[schema(value_type = texts::RemovalBound)]
    min_timestamp: (),
    #[schema(value_type = texts::RemovalBound, required = false)]
    max_timestamp: (),
}

/// Removes all items up to a timestamp, inclusive.
#[derive(ToSchema)]
#[schema(example = json!({"max_timestamp": "2024-08-29T16:44:05.43Z"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the schema of one form of RemoveBetweenInput")]
struct RemoveUntilInput {
    #[schema(value_type = texts::RemovalBound)]
    max_timestamp: (),
}

/// Removes all items with this value, at any time.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": "story-17"}))]
#[serde(deny_unknown_fields)]
pub struct RemoveValueInput<'a> {
    #[serde(borrow, deserialize_with = "members::raw", serialize_with = "raw_json")]
    #[schema(value_type = serde_json::Value)]
    pub value: &'a str,
}

/// Removes the item with this key, at any time.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"key": "u-17"}))]
#[serde(deny_unknown_fields)]
pub struct RemoveKeyInput<'a> {
    // As JSON.
    #[serde(borrow, deserialize_with = "members::raw", serialize_with = "raw_json")]
    #[schema(value_type = texts::MemberKey, inline)]
    pub key: &'a str,
}

/// Removes the items with these keys, at any time.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"keys": ["u-17", "u-18"]}))]
#[serde(deny_unknown_fields)]
pub struct RemoveKeysInput<'a> {
    /// As JSON.
    #[serde(borrow, deserialize_with = "members::raws::<NAMED_ITEMS_MAX, _>", serialize_with = "raw_jsons")]
    #[schema(value_type = Vec<texts::MemberKey>, min_items = 1, max_items = 1000)]
    pub keys: Vec<&'a str>,
}

/// Removes these items.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}]}))]
#[serde(deny_unknown_fields)]
pub struct RemoveNamedInput<'a> {
    #[serde(borrow, deserialize_with = "members::many::<NAMED_ITEMS_MAX, _, _>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<ItemInput<'a>>,
}

/// Removes all items between two timestamps, both inclusive. At least one of them is required.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveBetweenInput {
    #[serde(default, deserialize_with = "members::some_timestamp", skip_serializing_if = "Option::is_none")]
    pub min_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "members::some_timestamp", skip_serializing_if = "Option::is_none")]
    pub max_timestamp: Option<Timestamp>,
}

/// Which of the members a body has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    value: Option<IgnoredAny>,
    items: Option<IgnoredAny>,
    key: Option<IgnoredAny>,
    keys: Option<IgnoredAny>,
    min_timestamp: Option<IgnoredAny>,
    max_timestamp: Option<IgnoredAny>,
}

impl<'a> RemoveItemsInput<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        let Given { value, items, key, keys, min_timestamp, max_timestamp } = body::read(body)?;
        let members = [
            ("value", value),
            ("items", items),
            ("key", key),
            ("keys", keys),
            ("min_timestamp", min_timestamp),
            ("max_timestamp", max_timestamp),
        ];
        let given: Vec<_> = members.into_iter().filter_map(|(name, given)| given.map(|_| name)).collect();
        match given[..] {
            ["value"] => body::read(body).map(Self::Value),
            // Plain items have a fast reader.
            ["items"] => {
                AddItemsInput::read(body).map(|AddItemsInput { items }| Self::Items(RemoveNamedInput { items }))
            }
            ["key"] => body::read(body).map(Self::Key),
            ["keys"] => body::read(body).map(Self::Keys),
            ["min_timestamp" | "max_timestamp"] | ["min_timestamp", "max_timestamp"] => {
                let between: RemoveBetweenInput = body::read(body)?;
                // Without a bound it would remove everything.
                if between.min_timestamp.or(between.max_timestamp).is_none() {
                    let detail = "name min_timestamp, max_timestamp or both; to remove all items of the list, send \
                                  DELETE to its items";
                    return Err(Problem::argument("min_timestamp", detail));
                }
                check_bounds(between.min_timestamp, between.max_timestamp)?;
                Ok(Self::Between(between))
            }
            [_, second, ..] => {
                let detail = "send only one of value, items, key, keys, or min_timestamp with max_timestamp";
                Err(Problem::argument(second, detail))
            }
            [] | [_] => {
                let detail = "name the items to remove with value, items, key, keys, or min_timestamp and \
                              max_timestamp; to remove all items of the list, send DELETE to its items";
                Err(Problem::argument("value", detail))
            }
        }
    }
}

/// How many visible items were removed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"removed": 1}))]
pub struct Removed {
    pub removed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    #[test]
    fn the_server_reads_bodies_as_the_client_wrote_them() {
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
        let open = RemoveItemsInput::read(br#"{"min_timestamp":7,"max_timestamp":null}"#).unwrap();
        assert_eq!(open, RemoveItemsInput::Between(bounds(Some(at(7)), None)));
    }

    #[test]
    fn a_removal_has_one_form_and_every_refusal_names_the_faulty_member() {
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
            (r#"{"min_timestamp":null,"max_timestamp":null}"#, "invalid_argument", "min_timestamp"),
            (r#"{"max_timestamp":"soon"}"#, "invalid_timestamp", "max_timestamp"),
            (r#"{"min_timestamp":2,"max_timestamp":1}"#, "invalid_argument", "min_timestamp"),
        ] {
            assert_eq!(refused(body), (code, field.to_owned()), "{body}");
        }
        let hint = RemoveItemsInput::read(b"{}").unwrap_err().detail;
        assert!(hint.contains("DELETE"), "{hint}");
    }
}
