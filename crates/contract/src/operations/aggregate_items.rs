//! Aggregate List Items.

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{INT64_AS, Parameter, VERSION};
use crate::wire::{AggregateInput, Aggregated, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [VERSION, INT64_AS];

pub static ROW: Row = Row {
    name: "aggregate_items",
    summary: "Aggregate list items",
    description: "Returns counts, sums and other aggregates of the visible items in each of 1 to 16 windows of time. \
                  A window whose items are not all visible has `complete` false and a `reason`. A call reads at most \
                  `items.aggregate_items_max` items.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:aggregate",
    query: &QUERY,
    request: Some(Type::of::<AggregateInput>()),
    replies: &[json(200, "The aggregates of each window.", Type::of::<Aggregated>())],
    // The server cannot distinguish a page of another site that reads from one that writes.
    errors: &[ANY, WRITE, LIST, BODY, &AGGREGATION],
    counts_items: true,
    ..Row::DEFAULT
};

/// The errors of aggregates, in addition to the errors of every read of a list.
const AGGREGATION: [ErrorCode; 4] =
    [ErrorCode::ValueTypeMismatch, ErrorCode::InvalidTimestamp, ErrorCode::OutOfRange, ErrorCode::AggregateTooLarge];
