//! The body of a reverse lookup in a set.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::item_input::raw_jsons;
use super::{Problem, body, members, texts};
use crate::domain::NAMED_ITEMS_MAX;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_server_reads_as_the_same() {
        for lookup in [
            LookupInput::Keys(LookupKeysInput { keys: vec![r#""u-\u0031""#, "\"\""] }),
            LookupInput::Values(LookupValuesInput { values: vec!["1.50", "null"] }),
        ] {
            assert_eq!(LookupInput::read(&serde_json::to_vec(&lookup).unwrap()).unwrap(), lookup);
        }
    }

    #[test]
    fn every_refusal_names_what_is_to_blame() {
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
