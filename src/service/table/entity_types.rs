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
        description: "Those whose entities have bags, by name, in byte order.",
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
        description: "From then on its entities may have bags. One that was deleted before starts without any. A bag \
                      lives for the `ttl` after it was changed last, and for 20 years, the longest, where none is \
                      given.",
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
        description: "Absent fields stay as they are; `labels` is replaced whole. A shorter `ttl` hides bags at once.",
        group: Group::Entities,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/entity-types/{entity_type}",
        query: &queries::NONE,
        headers: CHANGE,
        request: Some(Type::of::<EntityTypePatch>()),
        replies: &[ReplyForm { description: "The entity type as it is now.", ..ENTITY_TYPE }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::EtagMismatch, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::DeleteEntityType,
        name: "delete_entity_type",
        summary: "Delete an entity type",
        description: "Its bags are no longer reachable, and leave the store as they expire. Lists of its entities \
                      stay: they are of features.",
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
        description: "Newest first; still there after the entity type's deletion.",
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
        description: "Removes all its bags, those of deleted generations too, by a job that goes on by itself and \
                      over restarts. The entity type stays, and so do lists of its entities. What is written \
                      meanwhile may stay.",
        group: Group::Entities,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/entity-types/{entity_type}/purge",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<PurgeBagsInput>()),
        replies: &[json(202, "The job that does it.", Type::of::<Job>())],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::TooManyJobs]],
    },
];
