//! Find bags by an index.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{BAGS_LIMIT, MAX, MIN, ORDER, PAGE_TOKEN, Parameter, VALUE};
use crate::wire::{ErrorCode, FoundBags, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 6] = [VALUE, MIN, MAX, ORDER, BAGS_LIMIT, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "find_bags",
    summary: "Find bags by an index",
    description: "Returns each bag whose properties currently have these values, once, in the order of the index: \
                  newest or greatest first. While the index is being built, bags older than the index may be \
                  missing.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entity-types/{entity_type}/indexes/{index}/entities",
    query: &QUERY,
    replies: &[json(200, "A page of bags.", Type::of::<FoundBags>())],
    errors: &[
        ANY,
        &[
            ErrorCode::EntityTypeNotFound,
            ErrorCode::IndexNotFound,
            ErrorCode::InvalidTimestamp,
            ErrorCode::InvalidPageToken,
            ErrorCode::StoreUnavailable,
            ErrorCode::TooManyTombstones,
        ],
    ],
    counts_items: true,
    ..Row::DEFAULT
};
