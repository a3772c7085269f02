//! The bodies of requests and replies about a server's log.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::object::Object;
use super::{Problem, text, texts};
use crate::domain::{AccessLog, Invalid};

/// The log's new configuration. Absent fields remain unchanged.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"filter": "debug"}))]
#[serde(deny_unknown_fields)]
pub struct LogInput {
    /// Directives in the syntax of the setting `log.filter`, such as `debug`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, min_length = 1, max_length = 1000, required = false)]
    pub filter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text::serialize_some")]
    #[schema(value_type = texts::AccessLog, inline, required = false)]
    pub access: Option<AccessLog>,
}

impl LogInput {
    pub const FILTER_CHARS_MAX: usize = 1_000;

    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["filter", "access"], &[])?;
        let filter = |text: &str| match text.chars().count() {
            1..=Self::FILTER_CHARS_MAX => Ok(text.to_owned()),
            _ => Err(Invalid::argument(format!("filter must have 1 to {} characters", Self::FILTER_CHARS_MAX))),
        };
        Ok(Self { filter: object.optional("filter", filter)?, access: object.optional("access", AccessLog::parse)? })
    }
}

/// The configuration of a server's log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LogState {
    pub filter: String,
    /// Which requests are logged: `off`, `errors` or `all`.
    pub access: String,
}
