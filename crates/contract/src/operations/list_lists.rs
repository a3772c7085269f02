//! List the lists of an entity.

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter};
use crate::wire::{EntityLists, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_lists",
    summary: "List the lists of an entity",
    description: "Lists each list of the entity that has visible items, by feature and version, with the time of its \
                  newest item. It has the features that the caller may read. A page may have fewer lists than \
                  `page_size`, or none, without being the last. Continue until there is no token.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Visible,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entities/{entity_type}/{entity_id}/lists",
    query: &QUERY,
    replies: &[json(200, "A page of lists.", Type::of::<EntityLists>())],
    errors: &[
        ANY,
        &[ErrorCode::InvalidPageToken, ErrorCode::StoreUnavailable, ErrorCode::TooManyTombstones, ErrorCode::Draining],
    ],
    counts_items: true,
    ..Row::DEFAULT
};
