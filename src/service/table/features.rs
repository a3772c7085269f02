//! The control plane: list features and their versions.

use super::parts::{ANY, BODY, CHANGE, CREATION, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::{
    Deleted, ErrorCode, Feature, FeatureInput, FeaturePage, FeaturePatch, FeatureVersion, HistoryPage, Type,
    VersionInput, VersionPatch,
};

const ETAG_OF_FEATURE: (&str, &str) = ("ETag", "The feature's entity tag.");
const ETAG_OF_VERSION: (&str, &str) = ("ETag", "The version's entity tag.");

const FEATURE: ReplyForm =
    ReplyForm { headers: &[ETAG_OF_FEATURE], ..json(200, "The feature.", Type::of::<Feature>()) };
const FEATURE_VERSION: ReplyForm =
    ReplyForm { headers: &[ETAG_OF_VERSION], ..json(200, "The version.", Type::of::<FeatureVersion>()) };

pub const ROWS: [Descriptor; 10] = [
    Descriptor {
        id: OperationId::ListFeatures,
        name: "list_features",
        summary: "List features",
        description: "Ordered by entity type, then by name, in byte order.",
        group: Group::Features,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/features",
        query: &queries::LIST_FEATURES,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of features.", Type::of::<FeaturePage>())],
        errors: &[ANY, &[ErrorCode::InvalidPageToken]],
    },
    Descriptor {
        id: OperationId::CreateFeature,
        name: "create_feature",
        summary: "Create List Feature",
        description: "Creates the feature with its default version. A feature that is created again after a deletion \
                      starts empty.",
        group: Group::Features,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/features",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<FeatureInput>()),
        replies: &[ReplyForm {
            headers: &[("Location", "The feature's path."), ETAG_OF_FEATURE],
            ..json(201, "Created.", Type::of::<Feature>())
        }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureExists, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::GetFeature,
        name: "get_feature",
        summary: "Get a feature with its versions",
        description: "",
        group: Group::Features,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/features/{entity_type}/{name}",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[FEATURE],
        errors: &[ANY, &[ErrorCode::FeatureNotFound]],
    },
    Descriptor {
        id: OperationId::UpdateFeature,
        name: "update_feature",
        summary: "Change a feature",
        description: "Absent fields remain unchanged; `labels` is replaced as a whole. `ttl`, `max_items` and \
                      `timestamp_ahead_max` apply to the default version and are the defaults of later versions. A \
                      shorter `ttl` or smaller `max_items` hides items immediately. `null` removes `max_items`, and \
                      makes `timestamp_ahead_max` follow the server's setting.",
        group: Group::Features,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/features/{entity_type}/{name}",
        query: &queries::NONE,
        headers: CHANGE,
        request: Some(Type::of::<FeaturePatch>()),
        replies: &[ReplyForm { description: "The feature after the change.", ..FEATURE }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureNotFound, ErrorCode::EtagMismatch, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::DeleteFeature,
        name: "delete_feature",
        summary: "Delete List Feature",
        description: "Deletes the feature with all its versions. Its items become unreachable and leave the store as \
                      they expire.",
        group: Group::Features,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Delete,
        path: "/v1/features/{entity_type}/{name}",
        query: &queries::NONE,
        headers: CHANGE,
        request: None,
        replies: &[json(200, "Deleted.", Type::of::<Deleted>())],
        errors: &[ANY, WRITE, &[ErrorCode::FeatureNotFound, ErrorCode::EtagMismatch]],
    },
    Descriptor {
        id: OperationId::GetHistory,
        name: "get_history",
        summary: "Read the audit trail of a feature",
        description: "Newest first. The audit trail remains after the feature is deleted.",
        group: Group::Features,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/features/{entity_type}/{name}/history",
        query: &queries::PAGE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of changes.", Type::of::<HistoryPage>())],
        errors: &[ANY, &[ErrorCode::FeatureNotFound, ErrorCode::InvalidPageToken]],
    },
    Descriptor {
        id: OperationId::CreateVersion,
        name: "create_version",
        summary: "Create List Feature Version",
        description: "A version has separate lists. Without `ttl`, `max_items` or `timestamp_ahead_max`, it copies the \
                      feature's current values.",
        group: Group::Versions,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/features/{entity_type}/{name}/versions",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<VersionInput>()),
        replies: &[ReplyForm {
            headers: &[("Location", "The version's path."), ETAG_OF_VERSION],
            ..json(201, "Created.", Type::of::<FeatureVersion>())
        }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureNotFound, ErrorCode::VersionExists, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::GetVersion,
        name: "get_version",
        summary: "Get a version",
        description: "",
        group: Group::Versions,
        permission: Permission::FeaturesRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/features/{entity_type}/{name}/versions/{version}",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[FEATURE_VERSION],
        errors: &[ANY, &[ErrorCode::FeatureNotFound, ErrorCode::VersionNotFound]],
    },
    Descriptor {
        id: OperationId::UpdateVersion,
        name: "update_version",
        summary: "Change a version",
        description: "Absent fields remain unchanged. Change the default version through its feature.",
        group: Group::Versions,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/features/{entity_type}/{name}/versions/{version}",
        query: &queries::NONE,
        headers: CHANGE,
        request: Some(Type::of::<VersionPatch>()),
        replies: &[ReplyForm { description: "The version after the change.", ..FEATURE_VERSION }],
        errors: &[
            ANY,
            WRITE,
            BODY,
            &[
                ErrorCode::FeatureNotFound,
                ErrorCode::VersionNotFound,
                ErrorCode::DefaultVersion,
                ErrorCode::EtagMismatch,
                ErrorCode::TtlTooLong,
            ],
        ],
    },
    Descriptor {
        id: OperationId::DeleteVersion,
        name: "delete_version",
        summary: "Delete a version",
        description: "Its items become unreachable and leave the store as they expire. The default version can only be \
                      deleted with its feature.",
        group: Group::Versions,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Delete,
        path: "/v1/features/{entity_type}/{name}/versions/{version}",
        query: &queries::NONE,
        headers: CHANGE,
        request: None,
        replies: &[json(200, "Deleted.", Type::of::<Deleted>())],
        errors: &[
            ANY,
            WRITE,
            &[
                ErrorCode::FeatureNotFound,
                ErrorCode::VersionNotFound,
                ErrorCode::DefaultVersion,
                ErrorCode::EtagMismatch,
            ],
        ],
    },
];
