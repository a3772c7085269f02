//! Add List Items.

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{Parameter, VERSION};
use crate::wire::{AddItemsInput, Added, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [VERSION];

pub static ROW: Row = Row {
    name: "add_items",
    summary: "Add list items",
    description: "Adds all items or none. Adding the same timestamp and value again does not create a second item, \
                  so retries are safe. In a set, each value or key occurs once. Items that have already expired \
                  are counted but not stored.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Feature,
    effect: Effect::RepeatableWrite,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
    query: &QUERY,
    request: Some(Type::of::<AddItemsInput<'static>>()),
    replies: &[json(200, "Added.", Type::of::<Added>())],
    errors: &[
        ANY,
        WRITE,
        LIST,
        BODY,
        &[
            ErrorCode::ValueTypeMismatch,
            ErrorCode::IdentityMismatch,
            ErrorCode::InvalidTimestamp,
            ErrorCode::TimestampTooFarAhead,
            ErrorCode::TtlTooLong,
        ],
    ],
    counts_items: true,
    ..Row::DEFAULT
};
