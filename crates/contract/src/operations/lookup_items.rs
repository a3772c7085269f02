//! Look up members of a set.

use super::parts::{ANY, BODY, LIST, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{INT64_AS, Parameter, VERSION};
use crate::wire::{ErrorCode, Found, LookupInput, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [VERSION, INT64_AS];

pub static ROW: Row = Row {
    name: "lookup_items",
    summary: "Look up members of a set",
    description: "Returns, for each of 1 to 1,000 keys in request order, the visible item or null. For the \
                  identity `value`, send values instead. The time does not depend on the list's length. Duplicates \
                  get duplicate results. Items that exceed `http.response_bytes_max` together are refused with \
                  `lookup_too_large`: look up fewer members in a call.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:lookup",
    query: &QUERY,
    request: Some(Type::of::<LookupInput<'static>>()),
    replies: &[json(200, "An item or null for each.", Type::of::<Found>())],
    errors: &[
        ANY,
        WRITE,
        LIST,
        BODY,
        &[ErrorCode::ValueTypeMismatch, ErrorCode::IdentityMismatch, ErrorCode::LookupTooLarge],
    ],
    counts_items: true,
    ..Row::DEFAULT
};
