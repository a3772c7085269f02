//! The body of an add: `{"items":[{"timestamp","value"}]}`.
//!
//! Values stay raw until their feature's type is known. Every refusal names the item with the mistake.

use super::body::{Others, read_text, text_of};
use super::{AddItemsInput, ItemInput, Problem, plain_add};

pub(super) fn parse(body: &[u8]) -> Result<Vec<ItemInput<'_>>, Problem> {
    let text = text_of(body)?;
    plain_add::parse(text).map_or_else(|| parse_any(text), Ok)
}

/// Reads a body of any form.
pub(super) fn parse_any(text: &str) -> Result<Vec<ItemInput<'_>>, Problem> {
    read_text::<AddItemsInput<'_>>(text, Others::default()).map(|input| input.items)
}

#[cfg(test)]
mod tests {
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
