//! What erases items of several lists at once.

use super::parts::{ANY, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method};
use crate::wire::parameters::{BAG_IF_NONE_MATCH, IF_MATCH, REQUEST_ID, TIMEOUT, USER};
use crate::wire::{EntityErased, ErrorCode, Type};

pub const ROWS: [Descriptor; 1] = [Descriptor {
    id: OperationId::EraseEntity,
    name: "erase_entity",
    summary: "Erase an entity",
    description: "Removes all lists of an entity and its bag, of every feature and version of its type, deleted ones too, whose \
                  items may not have expired yet. The answer is a receipt that names each list; where `complete` is \
                  false, some could not be cleared: send the call again. The audit trail keeps who erased what, with \
                  the entity's ID. What is added meanwhile may stay. It needs `lists:write` for the entity type as a \
                  whole. A condition is about the bag, and if it does not hold nothing is erased. `bytes_erased_by` says when no \
                  file of the data directory holds the erased bytes any more.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    effect: Effect::RepeatableWrite,
    method: Method::Delete,
    path: "/v1/entities/{entity_type}/{entity_id}",
    query: &queries::NONE,
    headers: &[IF_MATCH, BAG_IF_NONE_MATCH, USER, REQUEST_ID, TIMEOUT],
    request: None,
    replies: &[json(200, "What became of each list.", Type::of::<EntityErased>())],
    errors: &[
        ANY,
        WRITE,
        &[ErrorCode::Draining, ErrorCode::StoreUnavailable, ErrorCode::TooManyTombstones, ErrorCode::EtagMismatch],
    ],
}];
