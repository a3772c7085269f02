//! Add List Items to many lists.

use super::parts::{ANY, BODY, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{BatchAddInput, BatchAddResults, Type};

pub static ROW: Row = Row {
    name: "batch_add",
    summary: "Add items to many lists",
    description: "Each request is atomic on its own. Requests for the same list are applied in order. Returns one \
                  result for each request, in order, with status 200 even if some failed. An invalid name, ID, key \
                  or timestamp is a problem of its request only.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Body,
    effect: Effect::RepeatableWrite,
    method: Method::Post,
    path: "/v1/lists:batchAdd",
    request: Some(Type::of::<BatchAddInput<'static>>()),
    replies: &[json(200, "One result for each request.", Type::of::<BatchAddResults>())],
    errors: &[ANY, WRITE, BODY],
    counts_items: true,
    ..Row::DEFAULT
};
