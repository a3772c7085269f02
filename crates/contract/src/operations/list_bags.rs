//! List the entities that have bags.

use super::parts::{ANY, BAGS, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter};
use crate::wire::{EntityPage, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_bags",
    summary: "List the entities that have bags",
    description: "Lists each entity once, in a stable hash order. A page may have fewer entities than `page_size`, \
                  or none, without being the last. Continue until there is no token.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entities/{entity_type}",
    query: &QUERY,
    replies: &[json(200, "A page of entity IDs.", Type::of::<EntityPage>())],
    errors: &[ANY, BAGS, &[ErrorCode::InvalidPageToken]],
    counts_items: true,
    ..Row::DEFAULT
};
