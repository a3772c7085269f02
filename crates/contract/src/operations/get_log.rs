//! Show the log's configuration.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{LogState, Type};

pub static ROW: Row = Row {
    name: "get_log",
    summary: "Get the log's configuration",
    description: "Returns this server's log filter and the requests that it logs.",
    group: Group::Operations,
    permission: Permission::ServerRead,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/log",
    replies: &[json(200, "The log's configuration.", Type::of::<LogState>())],
    errors: &[ANY],
    ..Row::DEFAULT
};
