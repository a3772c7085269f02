//! Find values in a list.

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{INT64_AS, MAX_TIMESTAMP, MIN_TIMESTAMP, Parameter, VERSION};
use crate::wire::{Contained, ContainsInput, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 4] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, INT64_AS];

pub static ROW: Row = Row {
    name: "contains_items",
    summary: "Find values in a list",
    description: "Returns, for each of 1 to 1,000 values in request order, the timestamp of the newest visible \
                  item within the bounds, or null. Duplicate values get duplicate results.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:contains",
    query: &QUERY,
    request: Some(Type::of::<ContainsInput<'static>>()),
    replies: &[json(200, "One result for each value.", Type::of::<Contained>())],
    // The server cannot distinguish a page of another site that reads from one that writes.
    errors: &[ANY, WRITE, LIST, BODY, &[ErrorCode::ValueTypeMismatch, ErrorCode::InvalidTimestamp]],
    counts_items: true,
    ..Row::DEFAULT
};
