//! Change the log's configuration.

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{LogInput, LogState, Type};

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
