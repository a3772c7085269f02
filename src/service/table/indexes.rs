//! Indexes of bags, and what is found by them.

use super::parts::{ANY, BODY, CHANGE, CREATION, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::{CleanInput, ErrorCode, FoundBags, Index, IndexInput, IndexList, Job, Type};

const ETAG: (&str, &str) = ("ETag", "The index's entity tag. An index that is being dropped has none.");

const INDEX: ReplyForm = ReplyForm { headers: &[ETAG], ..json(200, "The index.", Type::of::<Index>()) };

pub const ROWS: [Descriptor; 6] = [
    Descriptor {
        id: OperationId::CreateIndex,
        name: "create_index",
        summary: "Create an index of bags",
        description: "Later writes update the index immediately; a background job adds existing bags. An index that is \
                      created again after a deletion starts empty.",
        group: Group::Entities,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/entity-types/{entity_type}/indexes",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<IndexInput>()),
        replies: &[ReplyForm {
            headers: &[("Location", "The index's path."), ETAG],
            ..json(201, "Created; the index is being built.", Type::of::<Index>())
        }],
        errors: &[
            ANY,
            WRITE,
            BODY,
            &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexExists, ErrorCode::TooManyIndexes],
        ],
    },
    Descriptor {
        id: OperationId::ListIndexes,
        name: "list_indexes",
        summary: "List the indexes of an entity type",
        description: "Ordered by name; indexes that are being dropped come last.",
        group: Group::Entities,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entity-types/{entity_type}/indexes",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "All indexes.", Type::of::<IndexList>())],
        errors: &[ANY, &[ErrorCode::EntityTypeNotFound]],
    },
    Descriptor {
        id: OperationId::GetIndex,
        name: "get_index",
        summary: "Get an index and its build progress",
        description: "",
        group: Group::Entities,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entity-types/{entity_type}/indexes/{index}",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[INDEX],
        errors: &[ANY, &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexNotFound]],
    },
    Descriptor {
        id: OperationId::DeleteIndex,
        name: "delete_index",
        summary: "Delete an index",
        description: "Writes and queries stop using the index immediately. A background job clears its entries. Bags \
                      remain unchanged.",
        group: Group::Entities,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Delete,
        path: "/v1/entity-types/{entity_type}/indexes/{index}",
        query: &queries::NONE,
        headers: CHANGE,
        request: None,
        replies: &[ReplyForm { status: 204, description: "Deleted.", content: None, headers: &[] }],
        errors: &[
            ANY,
            WRITE,
            &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexNotFound, ErrorCode::EtagMismatch, ErrorCode::TooManyJobs],
        ],
    },
    Descriptor {
        id: OperationId::CleanIndexes,
        name: "clean_indexes",
        summary: "Clean indexes of an entity type",
        description: "Starts a background job that checks all bags and all entries of its indexes, or of one index. It \
                      adds missing entries, removes entries without a bag, and counts the correct ones. The job \
                      survives restarts.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/entity-types/{entity_type}/clean",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<CleanInput>()),
        replies: &[json(202, "The job.", Type::of::<Job>())],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexNotFound, ErrorCode::TooManyJobs]],
    },
    Descriptor {
        id: OperationId::FindBags,
        name: "find_bags",
        summary: "Find bags by an index",
        description: "Returns each bag whose properties currently have these values, once, in the order of the index: \
                      newest or greatest first. While the index is being built, bags older than the index may be \
                      missing.",
        group: Group::Entities,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entity-types/{entity_type}/indexes/{index}/entities",
        query: &queries::FIND_BAGS,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of bags.", Type::of::<FoundBags>())],
        errors: &[
            ANY,
            &[
                ErrorCode::EntityTypeNotFound,
                ErrorCode::IndexNotFound,
                ErrorCode::InvalidTimestamp,
                ErrorCode::InvalidPageToken,
                ErrorCode::StoreUnavailable,
                ErrorCode::TooManyTombstones,
            ],
        ],
    },
];
