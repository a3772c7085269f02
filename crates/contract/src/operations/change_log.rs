//! Change the log's configuration.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::domain::{AccessLog, Invalid};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::members::parsed;
use crate::wire::{LogState, Problem, Type, body, texts};

pub static ROW: Row = Row {
    name: "change_log",
    summary: "Change the log's configuration",
    description: "Takes effect immediately, on this server only. A restart uses the settings again. The change is \
                  written to the audit trail first; if that fails, nothing changes.",
    group: Group::Operations,
    permission: Permission::ServerWrite,
    subject: Subject::Server,
    effect: Effect::RepeatableWrite,
    method: Method::Patch,
    path: "/v1/log",
    headers: CREATION,
    request: Some(Type::of::<LogInput>()),
    replies: &[json(200, "The log's configuration after the change.", Type::of::<LogState>())],
    errors: &[ANY, WRITE, BODY],
    ..Row::DEFAULT
};

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
