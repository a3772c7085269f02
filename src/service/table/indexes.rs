//! Indexes of bags, and what is found by them.

use super::parts::{ANY, BODY, CHANGE, CREATION, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::{CleanInput, ErrorCode, FoundBags, Index, IndexInput, IndexList, Job, Type};

const ETAG: (&str, &str) = ("ETag", "The index's entity tag.");

const INDEX: ReplyForm = ReplyForm { headers: &[ETAG], ..json(200, "The index.", Type::of::<Index>()) };

pub const ROWS: [Descriptor; 6] = [
    Descriptor {
        id: OperationId::CreateIndex,
        name: "create_index",
        summary: "Create an index of bags",
        description: "At any time: whatever is written from then on is in it, and bags that were there before are \
                      entered in the background. A name that was deleted before starts empty.",
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
            ..json(201, "Created; it is being built.", Type::of::<Index>())
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
        description: "By name; those that are dropped come last.",
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
        summary: "Get an index, and how far it is",
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
        description: "Nothing is entered into it from then on, and nothing is found by it. What is left of it is \
                      cleared in the background. Bags stay as they are.",
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
        description: "Looks at all bags and at all entries of its indexes, or of one, by a job that goes on by itself and \
                      over restarts: adds entries that are missing, removes those that no bag has, and counts the \
                      others. Nothing waits for it.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/entity-types/{entity_type}/clean",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<CleanInput>()),
        replies: &[json(202, "The job that does it.", Type::of::<Job>())],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexNotFound, ErrorCode::TooManyJobs]],
    },
    Descriptor {
        id: OperationId::FindBags,
        name: "find_bags",
        summary: "Find bags by an index",
        description: "The bags whose properties have these values now, in the order of the index: newest, or greatest, \
                      first. Each once. While the index is built, bags that were there before it may be missing.",
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
