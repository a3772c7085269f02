//! Find values in a list.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::domain::NAMED_ITEMS_MAX;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::item_input::raw_jsons;
use crate::wire::parameters::{INT64_AS, MAX_TIMESTAMP, MIN_TIMESTAMP, Parameter, VERSION};
use crate::wire::{ErrorCode, Problem, Type, body, members};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 4] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, INT64_AS];

pub static ROW: Row = Row {
    name: "contains_items",
    summary: "Find values in a list",
    description: "Returns, for each of 1 to 1,000 values in request order, the timestamp of the newest visible \
                  item within the bounds, or null. Duplicate values get duplicate results.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:contains",
    query: &QUERY,
    request: Some(Type::of::<ContainsInput<'static>>()),
    replies: &[json(200, "One result for each value.", Type::of::<Contained>())],
    // The server cannot distinguish a page of another site that reads from one that writes.
    errors: &[ANY, WRITE, LIST, BODY, &[ErrorCode::ValueTypeMismatch, ErrorCode::InvalidTimestamp]],
    counts_items: true,
    ..Row::DEFAULT
};

/// Values to search for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"values": ["story-17", "story-18"]}))]
#[serde(deny_unknown_fields)]
pub struct ContainsInput<'a> {
    #[serde(borrow, deserialize_with = "members::raws::<NAMED_ITEMS_MAX, _>", serialize_with = "raw_jsons")]
    #[schema(value_type = Vec<serde_json::Value>, min_items = 1, max_items = 1000)]
    pub values: Vec<&'a str>,
}

impl<'a> ContainsInput<'a> {
    /// Values of one question.
    pub const VALUES_MAX: usize = NAMED_ITEMS_MAX;

    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

/// One result for each requested value, in order.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Contained {
    pub results: Vec<ContainedValue>,
}

/// Whether a list contains a value.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": "story-17", "timestamp": "2024-08-29T16:44:05.430000000Z"}))]
pub struct ContainedValue {
    /// The value as a get returns it.
    #[schema(value_type = serde_json::Value)]
    pub value: Box<RawValue>,
    /// The timestamp of its newest visible item; `null` if there is none.
    #[schema(value_type = Option<String>, min_length = 30, max_length = 30, required = true)]
    pub timestamp: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_reads_bodies_as_the_client_wrote_them() {
        let contains = ContainsInput { values: vec!["1.50", "\"a\"", "null"] };
        assert_eq!(ContainsInput::read(&serde_json::to_vec(&contains).unwrap()).unwrap(), contains);
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
