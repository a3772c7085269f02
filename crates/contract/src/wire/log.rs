//! The bodies of requests and replies about a server's log.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::members::parsed;
use super::{Problem, body, texts};
use crate::domain::{AccessLog, Invalid};

/// The log's new configuration. Absent fields remain unchanged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"filter": "debug"}))]
#[serde(deny_unknown_fields)]
pub struct LogInput {
    /// Directives in the syntax of the setting `log.filter`, such as `debug`.
    #[serde(default, deserialize_with = "filter", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, min_length = 1, max_length = 1000, required = false)]
    pub filter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::AccessLog, inline, required = false)]
    pub access: Option<AccessLog>,
}

impl LogInput {
    pub const FILTER_CHARS_MAX: usize = 1_000;

    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

fn filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let filter = |text: &str| match text.chars().count() {
        1..=LogInput::FILTER_CHARS_MAX => Ok(Some(text.to_owned())),
        _ => Err(Invalid::argument(format!("filter must have 1 to {} characters", LogInput::FILTER_CHARS_MAX))),
    };
    parsed(deserializer, filter)
}

/// The configuration of a server's log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LogState {
    pub filter: String,
    /// Which requests are logged: `off`, `errors` or `all`.
    pub access: String,
}
