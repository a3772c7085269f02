//! Show the pool of list actors.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{Pool, Type};

pub static ROW: Row = Row {
    name: "get_pool",
    summary: "Get the pool of list actors",
    description: "Returns the size of this server's pool, the states of its actors and the permits in use.",
    group: Group::Operations,
    permission: Permission::PoolsWrite,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/pool",
    replies: &[json(200, "The pool.", Type::of::<Pool>())],
    errors: &[ANY],
    ..Row::DEFAULT
};
