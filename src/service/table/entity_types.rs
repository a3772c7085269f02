//! The control plane: entity types, whose entities have bags.

use super::parts::{ANY, BODY, CHANGE, CREATION, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::{
    Deleted, EntityType, EntityTypeInput, EntityTypePage, EntityTypePatch, ErrorCode, HistoryPage, Job, PurgeBagsInput,
    Type,
};

const ETAG: (&str, &str) = ("ETag", "The entity type's entity tag.");

const ENTITY_TYPE: ReplyForm =
    ReplyForm { headers: &[ETAG], ..json(200, "The entity type.", Type::of::<EntityType>()) };

pub const ROWS: [Descriptor; 7] = [
    Descriptor {
        id: OperationId::ListEntityTypes,
        name: "list_entity_types",
        summary: "List entity types",
        description: "Lists the entity types whose entities can have bags, by name in byte order.",
        group: Group::Entities,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entity-types",
        query: &queries::LIST_ENTITY_TYPES,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of entity types.", Type::of::<EntityTypePage>())],
        errors: &[ANY, &[ErrorCode::InvalidPageToken]],
    },
    Descriptor {
        id: OperationId::CreateEntityType,
        name: "create_entity_type",
        summary: "Create an entity type",
        description: "Allows the entities of this type to have bags. An entity type that is created again after a \
                      deletion starts without bags. A bag expires `ttl` after its last change. The default is 20 \
                      years, the maximum.",
        group: Group::Entities,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/entity-types",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<EntityTypeInput>()),
        replies: &[ReplyForm {
            headers: &[("Location", "The entity type's path."), ETAG],
            ..json(201, "Created.", Type::of::<EntityType>())
        }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeExists, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::GetEntityType,
        name: "get_entity_type",
        summary: "Get an entity type",
        description: "",
        group: Group::Entities,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entity-types/{entity_type}",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[ENTITY_TYPE],
        errors: &[ANY, &[ErrorCode::EntityTypeNotFound]],
    },
    Descriptor {
        id: OperationId::UpdateEntityType,
        name: "update_entity_type",
        summary: "Change an entity type",
        description: "Absent fields remain unchanged; `labels` is replaced as a whole. A shorter `ttl` hides bags \
                      immediately.",
        group: Group::Entities,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/entity-types/{entity_type}",
        query: &queries::NONE,
        headers: CHANGE,
        request: Some(Type::of::<EntityTypePatch>()),
        replies: &[ReplyForm { description: "The entity type after the change.", ..ENTITY_TYPE }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::EtagMismatch, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::DeleteEntityType,
        name: "delete_entity_type",
        summary: "Delete an entity type",
        description: "Its bags become unreachable and leave the store as they expire. The lists of its entities remain \
                      because they belong to features.",
        group: Group::Entities,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Delete,
        path: "/v1/entity-types/{entity_type}",
        query: &queries::NONE,
        headers: CHANGE,
        request: None,
        replies: &[json(200, "Deleted.", Type::of::<Deleted>())],
        errors: &[ANY, WRITE, &[ErrorCode::EntityTypeNotFound, ErrorCode::EtagMismatch]],
    },
    Descriptor {
        id: OperationId::GetEntityTypeHistory,
        name: "get_entity_type_history",
        summary: "Read the audit trail of an entity type",
        description: "Newest first. The audit trail remains after the entity type is deleted.",
        group: Group::Entities,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/entity-types/{entity_type}/history",
        query: &queries::PAGE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of changes.", Type::of::<HistoryPage>())],
        errors: &[ANY, &[ErrorCode::EntityTypeNotFound, ErrorCode::InvalidPageToken]],
    },
    Descriptor {
        id: OperationId::PurgeEntityType,
        name: "purge_entity_type",
        summary: "Purge the bags of an entity type",
        description: "Starts a background job that removes all bags of the entity type, including deleted generations. \
                      The job survives restarts. The entity type and the lists of its entities remain. Bags written \
                      during the purge may remain.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/entity-types/{entity_type}/purge",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<PurgeBagsInput>()),
        replies: &[json(202, "The job.", Type::of::<Job>())],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::TooManyJobs]],
    },
];
