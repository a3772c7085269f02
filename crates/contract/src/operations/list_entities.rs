//! List the entities of a feature version.

use super::parts::{ANY, LIST, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter, VERSION};
use crate::wire::{EntityPage, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 3] = [VERSION, PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_entities",
    summary: "List the entities of a feature version",
    description: "Lists each entity that has visible items in this feature version once, in a stable hash order. A \
                  page may have fewer entities than `page_size`, or none, without being the last: rely on the \
                  token, not on the count. Entities whose list is filled or emptied during the walk may be missing \
                  or included.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/features/{entity_type}/{name}/entities",
    query: &QUERY,
    replies: &[json(200, "A page of entity IDs.", Type::of::<EntityPage>())],
    errors: &[ANY, LIST, &[ErrorCode::InvalidPageToken]],
    counts_items: true,
    ..Row::DEFAULT
};
