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
    ReplyForm { status: 304, description: "The page is one that the caller has.", content: None, headers: &[ETAG] };

pub const ROWS: [Descriptor; 8] = [
    Descriptor {
        id: OperationId::GetItems,
        name: "get_items",
        summary: "Get List Items",
        description: "Newest first; equal timestamps by item key, descending; with `order=oldest` exactly reversed. A \
                      list that nobody wrote is empty. A page may end before `limit` items: trust the token, not the count. With `Accept: \
                      application/x-ndjson` it comes as one item a line, and a last line with the token if there is \
                      one.",
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
        description: "All of them or none. The same (timestamp, value) added twice is one item, so that adding again \
                      is safe whenever an outcome is unknown; in a set a value or key stands once. An item that has \
                      expired already is counted, not stored.",
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
        description: "Removes every item with a value, at whatever time; or up to 1,000 items by timestamp and value; \
                      or every item between two moments, both inclusive, of which one may be left out; or, of a set \
                      with keys, up to 1,000 items by key.",
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
        description: "The visible items within the bounds. Counts no further than `max`, and says whether there are \
                      more.",
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
        description: "For each of 1 to 1,000 values, in the order of the request, the timestamp of its newest visible \
                      item within the bounds, or null. A value that is asked for twice is answered twice.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:contains",
        query: &queries::WITHIN,
        headers: REQUEST,
        request: Some(Type::of::<ContainsInput<'static>>()),
        replies: &[json(200, "An answer for each value.", Type::of::<Contained>())],
        // A browser's page of another site is not told from one that writes.
        errors: &[ANY, WRITE, LIST, BODY, &[ErrorCode::ValueTypeMismatch, ErrorCode::InvalidTimestamp]],
    },
    Descriptor {
        id: OperationId::LookupItems,
        name: "lookup_items",
        summary: "Look up members of a set",
        description: "For each of 1 to 1,000 keys, or values where the feature's identity is value, in the order of the \
                      request, its visible item, or null. It takes as long in a long list as in a short one. What is \
                      asked for twice is answered twice.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:lookup",
        query: &queries::VERSION_ONLY,
        headers: REQUEST,
        request: Some(Type::of::<LookupInput<'static>>()),
        replies: &[json(200, "An item or null for each.", Type::of::<Found>())],
        errors: &[ANY, WRITE, LIST, BODY, &[ErrorCode::ValueTypeMismatch, ErrorCode::IdentityMismatch]],
    },
    Descriptor {
        id: OperationId::ListEntities,
        name: "list_entities",
        summary: "List the entities of a feature version",
        description: "The IDs of the entities whose lists of the feature version have visible items, each once, in the \
                      order of a hash of theirs, which stays the same. A page may have fewer entities than `page_size`, \
                      or none, and not be the last: trust the token, not the count. An entity whose list is filled or \
                      emptied during a walk may be in it or not.",
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
