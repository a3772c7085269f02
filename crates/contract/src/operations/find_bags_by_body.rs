//! Find bags by an index, with values in the body.

use super::parts::{ANY, BODY, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, FindBagsInput, FoundBags, Type};

pub static ROW: Row = Row {
    name: "find_bags_by_body",
    summary: "Find bags by an index, with values in the body",
    description: "Finds the same bags as the call with a query. Use it for values that are too long for a URL or must \
                  not be in logs of proxies.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/entity-types/{entity_type}/indexes/{index}/entities:find",
    request: Some(Type::of::<FindBagsInput>()),
    replies: &[json(200, "A page of bags.", Type::of::<FoundBags>())],
    errors: &[
        ANY,
        WRITE,
        BODY,
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
