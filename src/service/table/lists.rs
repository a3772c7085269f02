//! The data plane: items of lists.

use super::parts::{ANY, BODY, CONDITIONAL, LIST, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Content, Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::{
    AddItemsInput, Added, Contained, ContainsInput, Counted, EntityPage, ErrorCode, Found, ItemPage, LookupInput,
    RemoveItemsInput, Removed, Type,
};

const ETAG: (&str, &str) = ("ETag", "The page's entity tag.");
const PAGE: ReplyForm = ReplyForm {
    status: 200,
    description: "A page of items.",
    content: Some(Content::JsonOrLines(Type::of::<ItemPage>())),
    headers: &[ETAG],
};
const UNCHANGED: ReplyForm =
    ReplyForm { status: 304, description: "Not modified: the caller has this page.", content: None, headers: &[ETAG] };

pub const ROWS: [Descriptor; 8] = [
    Descriptor {
        id: OperationId::GetItems,
        name: "get_items",
        summary: "Get List Items",
        description: "Newest first. Equal timestamps are ordered by item key, descending. `order=oldest` reverses this \
                      order. A list without writes is empty. A page may have fewer than `limit` items: rely on the \
                      token, not on the count. With `Accept: application/x-ndjson`, the response has one item per line \
                      and the token, if any, in the last line.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
        query: &queries::GET_ITEMS,
        headers: CONDITIONAL,
        request: None,
        replies: &[PAGE, UNCHANGED],
        errors: &[ANY, LIST, &[ErrorCode::InvalidPageToken, ErrorCode::InvalidTimestamp]],
    },
    Descriptor {
        id: OperationId::AddItems,
        name: "add_items",
        summary: "Add List Items",
        description: "Adds all items or none. Adding the same timestamp and value again does not create a second item, \
                      so retries are safe. In a set, each value or key occurs once. Items that have already expired \
                      are counted but not stored.",
        group: Group::Lists,
        permission: Permission::ListsWrite,
        effect: Effect::RepeatableWrite,
        method: Method::Post,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
        query: &queries::VERSION_ONLY,
        headers: REQUEST,
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
    },
    Descriptor {
        id: OperationId::RemoveAllItems,
        name: "remove_all_items",
        summary: "Remove All List Items",
        description: "",
        group: Group::Lists,
        permission: Permission::ListsWrite,
        effect: Effect::RepeatableWrite,
        method: Method::Delete,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
        query: &queries::VERSION_ONLY,
        headers: REQUEST,
        request: None,
        replies: &[ReplyForm { status: 204, description: "The list is empty.", content: None, headers: &[] }],
        errors: &[ANY, WRITE, LIST],
    },
    Descriptor {
        id: OperationId::RemoveItems,
        name: "remove_items",
        summary: "Remove List Items",
        description: "Removes all items with a value, up to 1,000 items by timestamp and value, all items between two \
                      timestamps (inclusive, one of them optional), or up to 1,000 items of a keyed set by key.",
        group: Group::Lists,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:remove",
        query: &queries::VERSION_ONLY,
        headers: REQUEST,
        request: Some(Type::of::<RemoveItemsInput<'static>>()),
        replies: &[json(200, "Removed.", Type::of::<Removed>())],
        errors: &[
            ANY,
            WRITE,
            LIST,
            BODY,
            &[ErrorCode::ValueTypeMismatch, ErrorCode::IdentityMismatch, ErrorCode::InvalidTimestamp],
        ],
    },
    Descriptor {
        id: OperationId::CountItems,
        name: "count_items",
        summary: "Count List Items",
        description: "Counts the visible items within the bounds, up to `max`, and reports whether there are more.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:count",
        query: &queries::COUNT_ITEMS,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "Counted.", Type::of::<Counted>())],
        errors: &[ANY, LIST, &[ErrorCode::InvalidTimestamp]],
    },
    Descriptor {
        id: OperationId::ContainsItems,
        name: "contains_items",
        summary: "Find values in a list",
        description: "Returns, for each of 1 to 1,000 values in request order, the timestamp of the newest visible \
                      item within the bounds, or null. Duplicate values get duplicate results.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:contains",
        query: &queries::WITHIN,
        headers: REQUEST,
        request: Some(Type::of::<ContainsInput<'static>>()),
        replies: &[json(200, "One result for each value.", Type::of::<Contained>())],
        // A browser's page of another site is not told from one that writes.
        errors: &[ANY, WRITE, LIST, BODY, &[ErrorCode::ValueTypeMismatch, ErrorCode::InvalidTimestamp]],
    },
    Descriptor {
        id: OperationId::LookupItems,
        name: "lookup_items",
        summary: "Look up members of a set",
        description: "Returns, for each of 1 to 1,000 keys in request order, the visible item or null. For the \
                      identity `value`, send values instead. The time does not depend on the list's length. Duplicates \
                      get duplicate results. Items that exceed `http.response_bytes_max` together are refused with \
                      `lookup_too_large`: look up fewer members in a call.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:lookup",
        query: &queries::VERSION_ONLY,
        headers: REQUEST,
        request: Some(Type::of::<LookupInput<'static>>()),
        replies: &[json(200, "An item or null for each.", Type::of::<Found>())],
        errors: &[
            ANY,
            WRITE,
            LIST,
            BODY,
            &[ErrorCode::ValueTypeMismatch, ErrorCode::IdentityMismatch, ErrorCode::LookupTooLarge],
        ],
    },
    Descriptor {
        id: OperationId::ListEntities,
        name: "list_entities",
        summary: "List the entities of a feature version",
        description: "Lists each entity that has visible items in this feature version once, in a stable hash order. A \
                      page may have fewer entities than `page_size`, or none, without being the last: rely on the \
                      token, not on the count. Entities whose list is filled or emptied during the walk may be missing \
                      or included.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/features/{entity_type}/{name}/entities",
        query: &queries::LIST_ENTITIES,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of entity IDs.", Type::of::<EntityPage>())],
        errors: &[ANY, LIST, &[ErrorCode::InvalidPageToken]],
    },
];
