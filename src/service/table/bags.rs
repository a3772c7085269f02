//! The data plane: bags of entities.

use super::parts::{ANY, BODY, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::parameters::{BAG_IF_NONE_MATCH, IF_MATCH, Parameter, REQUEST_ID, TIMEOUT};
use crate::wire::{Bag, BagStored, BatchGetBagsInput, BatchGetBagsResults, EntityPage, ErrorCode, Properties, Type};

const CONDITIONS: &[Parameter] = &[IF_MATCH, BAG_IF_NONE_MATCH, REQUEST_ID, TIMEOUT];
const ETAG: (&str, &str) = ("ETag", "The bag's entity tag: another one after every change.");

/// What every operation on bags of a type may fail with.
const BAGS: &[ErrorCode] =
    &[ErrorCode::EntityTypeNotFound, ErrorCode::StoreUnavailable, ErrorCode::TooManyTombstones, ErrorCode::Draining];

const STORED: ReplyForm = ReplyForm {
    headers: &[ETAG],
    ..json(200, "Stored, in the place of the bag that was there.", Type::of::<BagStored>())
};

pub const ROWS: [Descriptor; 7] = [
    Descriptor {
        id: OperationId::GetBag,
        name: "get_bag",
        summary: "Get the bag of an entity",
        description: "With `lists`, items of lists of the entity come along; the entity tag of such an answer is weak, and \
                      no condition of a write.",
        group: Group::Entities,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entities/{entity_type}/{entity_id}",
        query: &queries::JOINED,
        headers: &[BAG_IF_NONE_MATCH, REQUEST_ID, TIMEOUT],
        request: None,
        replies: &[
            ReplyForm { headers: &[ETAG], ..json(200, "The bag.", Type::of::<Bag>()) },
            ReplyForm {
                status: 304,
                description: "The caller has it already: one of the tags in `If-None-Match` is its tag.",
                content: None,
                headers: &[ETAG],
            },
        ],
        errors: &[ANY, BAGS, &[ErrorCode::BagNotFound]],
    },
    Descriptor {
        id: OperationId::PutBag,
        name: "put_bag",
        summary: "Put the bag of an entity",
        description: "Stores a JSON object of at most 256 KiB as the whole bag. `If-Match` makes it take the place of \
                      a bag that has one of these tags only, and `If-None-Match: *` only where there is none.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Put,
        path: "/v1/entities/{entity_type}/{entity_id}",
        query: &queries::NONE,
        headers: CONDITIONS,
        request: Some(Type::of::<Properties>()),
        replies: &[STORED, ReplyForm { status: 201, description: "Stored, where there was none.", ..STORED }],
        errors: &[
            ANY,
            WRITE,
            BODY,
            BAGS,
            &[ErrorCode::EtagMismatch, ErrorCode::BagTooLarge, ErrorCode::TooManyEntries],
        ],
    },
    Descriptor {
        id: OperationId::PatchBag,
        name: "patch_bag",
        summary: "Change the bag of an entity",
        description: "Merges a JSON object into the bag (RFC 7396): members that are `null` go, objects are merged, \
                      all else takes the place of what was there. No change that is made meanwhile is lost.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/entities/{entity_type}/{entity_id}",
        query: &queries::NONE,
        headers: CONDITIONS,
        request: Some(Type::of::<Properties>()),
        replies: &[ReplyForm { headers: &[ETAG], ..json(200, "The bag as it is now.", Type::of::<Bag>()) }],
        errors: &[
            ANY,
            WRITE,
            BODY,
            BAGS,
            &[ErrorCode::BagNotFound, ErrorCode::EtagMismatch, ErrorCode::BagTooLarge, ErrorCode::TooManyEntries],
        ],
    },
    Descriptor {
        id: OperationId::DeleteBag,
        name: "delete_bag",
        summary: "Delete the bag of an entity",
        description: "The bag alone: lists of the entity stay.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Delete,
        path: "/v1/entities/{entity_type}/{entity_id}/bag",
        query: &queries::NONE,
        headers: CONDITIONS,
        request: None,
        replies: &[ReplyForm { status: 204, description: "Deleted.", content: None, headers: &[] }],
        errors: &[ANY, WRITE, BAGS, &[ErrorCode::BagNotFound, ErrorCode::EtagMismatch]],
    },
    Descriptor {
        id: OperationId::CreateBag,
        name: "create_bag",
        summary: "Put a bag under a new ID",
        description: "The entity's ID is a new UUID (version 7).",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/entities/{entity_type}",
        query: &queries::NONE,
        headers: REQUEST,
        request: Some(Type::of::<Properties>()),
        replies: &[ReplyForm {
            headers: &[("Location", "The bag's path."), ETAG],
            ..json(201, "Stored.", Type::of::<BagStored>())
        }],
        errors: &[ANY, WRITE, BODY, BAGS, &[ErrorCode::BagTooLarge, ErrorCode::TooManyEntries]],
    },
    Descriptor {
        id: OperationId::ListBags,
        name: "list_bags",
        summary: "List which entities have bags",
        description: "In the order of a hash that stays, each once. A page may have fewer than it may, or none, and \
                      not be the last: go on until there is no token.",
        group: Group::Entities,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entities/{entity_type}",
        query: &queries::PAGE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A part of them.", Type::of::<EntityPage>())],
        errors: &[ANY, BAGS, &[ErrorCode::InvalidPageToken]],
    },
    Descriptor {
        id: OperationId::BatchGetBags,
        name: "batch_get_bags",
        summary: "Get many bags",
        description: "Each as by a get of its own. What came of each request stands in its place; the status is 200 \
                      also where some or all have failed. With `lists`, items of lists of each entity come along.",
        group: Group::Entities,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/entities:batchGet",
        query: &queries::JOINED,
        headers: REQUEST,
        request: Some(Type::of::<BatchGetBagsInput>()),
        replies: &[json(200, "What came of each request.", Type::of::<BatchGetBagsResults>())],
        errors: &[ANY, BODY, &[ErrorCode::Draining]],
    },
];
