//! Count List Items.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, LIST, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{COUNT_MAX, MAX_TIMESTAMP, MIN_TIMESTAMP, Parameter, VERSION};
use crate::wire::{ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 4] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, COUNT_MAX];

pub static ROW: Row = Row {
    name: "count_items",
    summary: "Count list items",
    description: "Counts the visible items within the bounds, up to `max`, and reports whether there are more.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:count",
    query: &QUERY,
    replies: &[json(200, "Counted.", Type::of::<Counted>())],
    errors: &[ANY, LIST, &[ErrorCode::InvalidTimestamp]],
    counts_items: true,
    ..Row::DEFAULT
};

/// How many visible items there are.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"count": 42, "exact": true}))]
pub struct Counted {
    /// At most the requested `max`.
    pub count: u64,
    /// Whether the count is exact: `false` if there are more items.
    pub exact: bool,
}
