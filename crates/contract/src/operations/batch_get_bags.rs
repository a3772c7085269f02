//! Get many bags.

use super::parts::{ANY, BODY, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{INT64_AS, JOINED_LISTS, Parameter};
use crate::wire::{BatchGetBagsInput, BatchGetBagsResults, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [JOINED_LISTS, INT64_AS];

pub static ROW: Row = Row {
    name: "batch_get_bags",
    summary: "Get many bags",
    description: "Reads each bag as a single get does, and returns the results in the order of the requests. The \
                  status is 200 even if some or all requests failed. With `lists`, the response includes items of \
                  each entity's lists.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::Body,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/entities:batchGet",
    query: &QUERY,
    request: Some(Type::of::<BatchGetBagsInput>()),
    replies: &[json(200, "One result for each request.", Type::of::<BatchGetBagsResults>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::Draining]],
    counts_items: true,
    ..Row::DEFAULT
};
