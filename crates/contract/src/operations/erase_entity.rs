//! Erase an entity.

use super::parts::{ANY, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{BAG_IF_NONE_MATCH, IF_MATCH, REQUEST_ID, TIMEOUT, USER};
use crate::wire::{EntityErased, ErrorCode, Type};

pub static ROW: Row = Row {
    name: "erase_entity",
    summary: "Erase an entity",
    description: "Removes the bag and all lists of an entity, of every feature and version of its type, including \
                  deleted ones with unexpired items. Returns a receipt that names each list. If `complete` is false, \
                  some lists could not be cleared: send the request again. The audit trail records the caller and the \
                  entity's ID. Items added during the erasure may remain. Requires `lists:write` for the whole entity \
                  type. A condition refers to the bag; if it does not match, nothing is erased. From `bytes_erased_by` \
                  on, no file of the data directory contains the erased bytes.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::RepeatableWrite,
    method: Method::Delete,
    path: "/v1/entities/{entity_type}/{entity_id}",
    headers: &[IF_MATCH, BAG_IF_NONE_MATCH, USER, REQUEST_ID, TIMEOUT],
    replies: &[json(200, "The result for each list.", Type::of::<EntityErased>())],
    errors: &[
        ANY,
        WRITE,
        &[ErrorCode::Draining, ErrorCode::StoreUnavailable, ErrorCode::TooManyTombstones, ErrorCode::EtagMismatch],
    ],
    counts_items: true,
    ..Row::DEFAULT
};
