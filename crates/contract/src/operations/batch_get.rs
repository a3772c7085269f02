//! Get List Items of many lists.

use super::parts::{ANY, BODY, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{INT64_AS, Parameter};
use crate::wire::{BatchGetInput, BatchGetResults, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [INT64_AS];

pub static ROW: Row = Row {
    name: "batch_get",
    summary: "Get items of many lists",
    description: "Returns a page or a problem for each request, in order. Identical requests are read once. All \
                  requests share one deadline and the size limit of one response. A list that no longer fits has \
                  the problem `response_too_large`: request it again. An invalid name, ID or timestamp is a \
                  problem of its request only.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Body,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/lists:batchGet",
    query: &QUERY,
    request: Some(Type::of::<BatchGetInput<'static>>()),
    replies: &[json(200, "One result for each request.", Type::of::<BatchGetResults>())],
    errors: &[ANY, WRITE, BODY],
    counts_items: true,
    ..Row::DEFAULT
};
