//! The data plane: bags of entities.

use super::parts::{ANY, BODY, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::parameters::{BAG_IF_NONE_MATCH, IF_MATCH, Parameter, REQUEST_ID, TIMEOUT};
use crate::wire::{Bag, BagStored, BatchGetBagsInput, BatchGetBagsResults, EntityPage, ErrorCode, Properties, Type};

const CONDITIONS: &[Parameter] = &[IF_MATCH, BAG_IF_NONE_MATCH, REQUEST_ID, TIMEOUT];
const ETAG: (&str, &str) = ("ETag", "The bag's entity tag, which changes with every update.");

/// What every operation on bags of a type may fail with.
const BAGS: &[ErrorCode] =
    &[ErrorCode::EntityTypeNotFound, ErrorCode::StoreUnavailable, ErrorCode::TooManyTombstones, ErrorCode::Draining];

const STORED: ReplyForm =
    ReplyForm { headers: &[ETAG], ..json(200, "Stored; the previous bag was replaced.", Type::of::<BagStored>()) };

pub const ROWS: [Descriptor; 7] = [
    Descriptor {
        id: OperationId::GetBag,
        name: "get_bag",
        summary: "Get the bag of an entity",
        description: "With `lists`, the response includes items of the entity's lists. Its entity tag is then weak and \
                      cannot be used in a write condition.",
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
                description: "Not modified: `If-None-Match` has the bag's current tag.",
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
        description: "Stores a JSON object of at most 256 KiB as the whole bag. `If-Match` replaces only a bag with \
                      one of these tags. `If-None-Match: *` stores only if there is no bag.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Put,
        path: "/v1/entities/{entity_type}/{entity_id}",
        query: &queries::NONE,
        headers: CONDITIONS,
        request: Some(Type::of::<Properties>()),
        replies: &[STORED, ReplyForm { status: 201, description: "Stored; there was no bag before.", ..STORED }],
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
        description: "Merges a JSON object into the bag (RFC 7396): `null` removes a member, objects are merged, and \
                      other values replace existing ones. Concurrent changes are not lost.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/entities/{entity_type}/{entity_id}",
        query: &queries::NONE,
        headers: CONDITIONS,
        request: Some(Type::of::<Properties>()),
        replies: &[ReplyForm { headers: &[ETAG], ..json(200, "The bag after the change.", Type::of::<Bag>()) }],
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
        description: "Deletes only the bag. The entity's lists remain.",
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
        summary: "List the entities that have bags",
        description: "Lists each entity once, in a stable hash order. A page may have fewer entities than `page_size`, \
                      or none, without being the last. Continue until there is no token.",
        group: Group::Entities,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entities/{entity_type}",
        query: &queries::PAGE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of entity IDs.", Type::of::<EntityPage>())],
        errors: &[ANY, BAGS, &[ErrorCode::InvalidPageToken]],
    },
    Descriptor {
        id: OperationId::BatchGetBags,
        name: "batch_get_bags",
        summary: "Get many bags",
        description: "Reads each bag as a single get does, and returns the results in the order of the requests. The \
                      status is 200 even if some or all requests failed. With `lists`, the response includes items of \
                      each entity's lists.",
        group: Group::Entities,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Post,
        path: "/v1/entities:batchGet",
        query: &queries::JOINED,
        headers: REQUEST,
        request: Some(Type::of::<BatchGetBagsInput>()),
        replies: &[json(200, "One result for each request.", Type::of::<BatchGetBagsResults>())],
        errors: &[ANY, BODY, &[ErrorCode::Draining]],
    },
];
