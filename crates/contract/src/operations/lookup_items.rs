//! Look up members of a set.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{self, AnyOfBuilder, ArrayBuilder, ObjectBuilder, SchemaType};
use utoipa::openapi::{Ref, Schema};

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::domain::NAMED_ITEMS_MAX;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::item_input::raw_jsons;
use crate::wire::parameters::{INT64_AS, Parameter, VERSION};
use crate::wire::{ErrorCode, Item, Problem, Type, body, members, texts};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [VERSION, INT64_AS];

pub static ROW: Row = Row {
    name: "lookup_items",
    summary: "Look up members of a set",
    description: "Returns, for each of 1 to 1,000 keys in request order, the visible item or null. For the \
                  identity `value`, send values instead. The time does not depend on the list's length. Duplicates \
                  get duplicate results. Items that exceed `http.response_bytes_max` together are refused with \
                  `lookup_too_large`: look up fewer members in a call.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:lookup",
    query: &QUERY,
    request: Some(Type::of::<LookupInput<'static>>()),
    replies: &[json(200, "An item or null for each.", Type::of::<Found>())],
    errors: &[
        ANY,
        WRITE,
        LIST,
        BODY,
        &[ErrorCode::ValueTypeMismatch, ErrorCode::IdentityMismatch, ErrorCode::LookupTooLarge],
    ],
    counts_items: true,
    ..Row::DEFAULT
};

/// Members to look up: by key, or by value if the feature's identity is `value`.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"keys": ["u-17", "u-18"]}))]
#[serde(untagged)]
pub enum LookupInput<'a> {
    Keys(LookupKeysInput<'a>),
    Values(LookupValuesInput<'a>),
}

/// Keys to look up.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"keys": ["u-17", "u-18"]}))]
#[serde(deny_unknown_fields)]
pub struct LookupKeysInput<'a> {
    /// As JSON.
    #[serde(borrow, deserialize_with = "members::raws::<NAMED_ITEMS_MAX, _>", serialize_with = "raw_jsons")]
    #[schema(value_type = Vec<texts::MemberKey>, min_items = 1, max_items = 1000)]
    pub keys: Vec<&'a str>,
}

/// Values to look up.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"values": ["story-17", "story-18"]}))]
#[serde(deny_unknown_fields)]
pub struct LookupValuesInput<'a> {
    /// As JSON.
    #[serde(borrow, deserialize_with = "members::raws::<NAMED_ITEMS_MAX, _>", serialize_with = "raw_jsons")]
    #[schema(value_type = Vec<serde_json::Value>, min_items = 1, max_items = 1000)]
    pub values: Vec<&'a str>,
}

/// Which of the members a body has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    keys: Option<IgnoredAny>,
    values: Option<IgnoredAny>,
}

impl<'a> LookupInput<'a> {
    /// Members of one question.
    pub const MEMBERS_MAX: usize = crate::domain::NAMED_ITEMS_MAX;

    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        let Given { keys, values } = body::read(body)?;
        match (keys.is_some(), values.is_some()) {
            (true, false) => body::read(body).map(Self::Keys),
            (false, true) => body::read(body).map(Self::Values),
            (true, true) => Err(Problem::argument("values", "send either keys or values, not both")),
            (false, false) => Err(Problem::argument("keys", "send keys or values to look up")),
        }
    }

    /// The number of members to look up.
    #[expect(clippy::len_without_is_empty, reason = "none has no entry")]
    pub fn len(&self) -> usize {
        match self {
            Self::Keys(LookupKeysInput { keys }) => keys.len(),
            Self::Values(LookupValuesInput { values }) => values.len(),
        }
    }
}

/// One result for each requested member, in order.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"results": [{"timestamp": "2024-08-29T16:44:05.430000000Z", "key": "u-17", "value": "spam"}, null]}))]
pub struct Found {
    #[schema(schema_with = found_items)]
    pub results: Vec<Option<Item>>,
}

/// Generators make an optional item of this choice.
fn found_items() -> Schema {
    let no_item = ObjectBuilder::new().schema_type(SchemaType::Type(schema::Type::Null));
    let item = AnyOfBuilder::new().item(Ref::from_schema_name("Item")).item(no_item);
    ArrayBuilder::new().items(item).description(Some("`null` if there is no visible item.")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_reads_bodies_as_the_client_wrote_them() {
        for lookup in [
            LookupInput::Keys(LookupKeysInput { keys: vec![r#""u-\u0031""#, "\"\""] }),
            LookupInput::Values(LookupValuesInput { values: vec!["1.50", "null"] }),
        ] {
            assert_eq!(LookupInput::read(&serde_json::to_vec(&lookup).unwrap()).unwrap(), lookup);
        }
    }

    #[test]
    fn every_refusal_names_the_faulty_member() {
        for (body, field) in [
            ("{}", "keys"),
            (r#"{"keys":["a"],"values":["a"]}"#, "values"),
            (r#"{"keys":[]}"#, "keys"),
            (r#"{"values":7}"#, "values"),
            (r#"{"key":"a"}"#, "key"),
        ] {
            let problem = LookupInput::read(body.as_bytes()).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{body}");
        }
    }
}
