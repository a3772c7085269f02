//! Add List Items.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::domain::ADD_ITEMS_MAX;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::body::{read_text, text_of};
use crate::wire::members::many;
use crate::wire::parameters::{Parameter, VERSION};
use crate::wire::refused::Others;
use crate::wire::{Added, ErrorCode, ItemInput, Problem, Type, plain_add};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [VERSION];

pub static ROW: Row = Row {
    name: "add_items",
    summary: "Add list items",
    description: "Adds all items or none. Adding the same timestamp and value again does not create a second item, \
                  so retries are safe. In a set, each value or key occurs once. Items that have already expired \
                  are counted but not stored.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Feature,
    effect: Effect::RepeatableWrite,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
    query: &QUERY,
    request: Some(Type::of::<AddItemsInput<'static>>()),
    replies: &[json(200, "Added.", Type::of::<Added>())],
    errors: &[
        ANY,
        WRITE,
        LIST,
        BODY,
        &[
            ErrorCode::ValueTypeMismatch,
            ErrorCode::IdentityMismatch,
            ErrorCode::InvalidTimestamp,
            ErrorCode::TimestampTooFarAhead,
            ErrorCode::TtlTooLong,
        ],
    ],
    counts_items: true,
    ..Row::DEFAULT
};

/// Items to add, all or none.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}]}))]
#[serde(deny_unknown_fields)]
pub struct AddItemsInput<'a> {
    #[serde(borrow, deserialize_with = "many::<ADD_ITEMS_MAX, _, _>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<ItemInput<'a>>,
}

impl<'a> AddItemsInput<'a> {
    /// Items of one add.
    pub const ITEMS_MAX: usize = crate::domain::ADD_ITEMS_MAX;

    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        parse(body).map(|items| Self { items })
    }
}

fn parse(body: &[u8]) -> Result<Vec<ItemInput<'_>>, Problem> {
    let text = text_of(body)?;
    plain_add::parse(text).map_or_else(|| parse_any(text), Ok)
}

/// Reads a body of any form.
fn parse_any(text: &str) -> Result<Vec<ItemInput<'_>>, Problem> {
    read_text::<AddItemsInput<'_>>(text, Others::default()).map(|input| input.items)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;
    use crate::domain::Timestamp;

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
    fn every_refusal_names_the_faulty_member() {
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
    fn a_name_that_is_not_text_is_refused_with_the_reason() {
        let problem = parse(br#"{"items":[{"timestamp":1,"value":1,"\ud800":1}]}"#).unwrap_err();
        assert_eq!(problem.field.as_deref(), Some("items[0]"));
        assert!(problem.detail.contains("surrogate"), "{}", problem.detail);
    }

    #[test]
    fn malformed_json_is_reported_first() {
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

    #[test]
    fn the_server_reads_bodies_as_the_client_wrote_them() {
        let timestamp = Timestamp::from_nanos(9_999_999_999_999_999_999).unwrap();
        let items =
            AddItemsInput { items: vec![ItemInput { timestamp, value: "12345678901234567890", key: Some("\"k\"") }] };
        assert_eq!(AddItemsInput::read(&serde_json::to_vec(&items).unwrap()).unwrap(), items);
    }

    #[test]
    fn the_schema_of_an_add_has_its_bounds() {
        let schema = serde_json::to_value(AddItemsInput::schema()).unwrap();
        assert_eq!(schema["properties"]["items"]["maxItems"], json!(AddItemsInput::ITEMS_MAX));
    }

    proptest! {
        /// This reader reads a body as the general parser does.
        #[test]
        fn both_parsers_read_a_body_alike(
            items in prop::collection::vec(("timestamp|value|key|x", "[0-9]{1,3}|\"[0-9]{1,3}\"|-1|1e3|1\\.5|\"a\\\\n\"|nul|\\{\\}", "timestamp|value|key", "-?[0-9]{0,3}|\"[a-z\u{1}]{0,2}\"|true"), 0..3),
            cut in 0_usize..200,
            junk in "[\\]\\[{}:,\" \\\\a0]?",
        ) {
            let items: Vec<_> = items.iter().map(|(a, b, c, d)| format!(r#"{{"{a}":{b},"{c}":{d}}}"#)).collect();
            let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
            for text in [body.clone(), [&body[..cut.min(body.len())], &junk, &body[cut.min(body.len())..]].concat()] {
                if let Some(items) = plain_add::parse(&text) {
                    prop_assert_eq!(parse_any(&text), Ok(items));
                }
            }
        }
    }
}
