//! Remove List Items.

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{Parameter, VERSION};
use crate::wire::{ErrorCode, RemoveItemsInput, Removed, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [VERSION];

pub static ROW: Row = Row {
    name: "remove_items",
    summary: "Remove list items",
    description: "Removes all items with a value, up to 1,000 items by timestamp and value, all items between two \
                  timestamps (inclusive, one of them optional), or up to 1,000 items of a keyed set by key.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Feature,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:remove",
    query: &QUERY,
    request: Some(Type::of::<RemoveItemsInput<'static>>()),
    replies: &[json(200, "Removed.", Type::of::<Removed>())],
    errors: &[
        ANY,
        WRITE,
        LIST,
        BODY,
        &[ErrorCode::ValueTypeMismatch, ErrorCode::IdentityMismatch, ErrorCode::InvalidTimestamp],
    ],
    counts_items: true,
    ..Row::DEFAULT
};
