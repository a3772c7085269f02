//! The table of all operations. The router, the metrics' labels, the OpenAPI document, the command
//! line's client and the tests of `docs/api.md` are made from it.

use super::OperationId;
use super::descriptor::{Content, Descriptor, Effect, Group, Method, ReplyForm};
use crate::access::Permission;
use crate::wire::parameters::{
    AUDIT_ACTION, AUDIT_BY, AUDIT_TARGET, ENTITY_TYPE, IF_MATCH, LIMIT, MAX_TIMESTAMP, MIN_TIMESTAMP, PAGE_SIZE,
    PAGE_TOKEN, Parameter, REQUEST_ID, SINCE, TEXT, TIMEOUT, UNTIL, USER, VERSION,
};
use crate::wire::{
    AddItemsInput, Added, AuditPage, Backup, BackupInput, Deleted, ErrorCode, Feature, FeatureInput, FeaturePage,
    FeaturePatch, FeatureVersion, Health, HistoryPage, ItemPage, Key, KeyInput, KeyMade, KeyPage, KeyRotation,
    RemoveItemsInput, Removed, Type, VersionInput, VersionPatch,
};

/// What operations take in their queries, in the order in which their functions get it.
pub mod queries {
    use super::*;

    pub const NONE: [Parameter; 0] = [];
    pub const VERSION_ONLY: [Parameter; 1] = [VERSION];
    pub const GET_ITEMS: [Parameter; 5] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, LIMIT, PAGE_TOKEN];
    pub const LIST_FEATURES: [Parameter; 4] = [ENTITY_TYPE, TEXT, PAGE_SIZE, PAGE_TOKEN];
    pub const PAGE: [Parameter; 2] = [PAGE_SIZE, PAGE_TOKEN];
    pub const LIST_AUDIT: [Parameter; 7] = [AUDIT_BY, AUDIT_TARGET, AUDIT_ACTION, SINCE, UNTIL, PAGE_SIZE, PAGE_TOKEN];
}

const REQUEST: &[Parameter] = &[REQUEST_ID, TIMEOUT];
const CREATION: &[Parameter] = &[USER, REQUEST_ID, TIMEOUT];
const CHANGE: &[Parameter] = &[IF_MATCH, USER, REQUEST_ID, TIMEOUT];

const ANY: &[ErrorCode] = &[
    ErrorCode::InvalidArgument,
    ErrorCode::Unauthenticated,
    ErrorCode::PermissionDenied,
    ErrorCode::Internal,
    ErrorCode::Overloaded,
    ErrorCode::MetadataUnavailable,
    ErrorCode::DeadlineExceeded,
];
/// A browser must not be made to write by a page of another site.
const WRITE: &[ErrorCode] = &[ErrorCode::CrossSite];
const LIST: &[ErrorCode] =
    &[ErrorCode::FeatureNotFound, ErrorCode::VersionNotFound, ErrorCode::StoreUnavailable, ErrorCode::Draining];
const BODY: &[ErrorCode] = &[ErrorCode::InvalidJson, ErrorCode::PayloadTooLarge, ErrorCode::UnsupportedMediaType];

const ETAG_OF_FEATURE: (&str, &str) = ("ETag", "The feature's entity tag.");
const ETAG_OF_VERSION: (&str, &str) = ("ETag", "The version's entity tag.");

const fn json(status: u16, description: &'static str, body: Type) -> ReplyForm {
    ReplyForm { status, description, content: Some(Content::Json(body)), headers: &[] }
}

const FEATURE: ReplyForm =
    ReplyForm { headers: &[ETAG_OF_FEATURE], ..json(200, "The feature.", Type::of::<Feature>()) };
const KEY: ReplyForm = json(200, "The key.", Type::of::<Key>());
const FEATURE_VERSION: ReplyForm =
    ReplyForm { headers: &[ETAG_OF_VERSION], ..json(200, "The version.", Type::of::<FeatureVersion>()) };

/// All operations, in the order of [`OperationId`].
pub const OPERATIONS: [Descriptor; OperationId::COUNT] = [
    Descriptor {
        id: OperationId::GetItems,
        name: "get_items",
        summary: "Get List Items",
        description: "Newest first; equal timestamps by item key, descending. A list that nobody wrote is empty. A \
                      page may end before `limit` items: trust the token, not the count.",
        group: Group::Lists,
        permission: Permission::ListsRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
        query: &queries::GET_ITEMS,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of items.", Type::of::<ItemPage>())],
        errors: &[ANY, LIST, &[ErrorCode::InvalidPageToken, ErrorCode::InvalidTimestamp]],
    },
    Descriptor {
        id: OperationId::AddItems,
        name: "add_items",
        summary: "Add List Items",
        description: "All of them or none. The same (timestamp, value) added twice is one item, so that adding again \
                      is safe whenever an outcome is unknown. An item that has expired already is counted, not \
                      stored.",
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
            &[ErrorCode::ValueTypeMismatch, ErrorCode::InvalidTimestamp, ErrorCode::TtlTooLong],
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
        id: OperationId::RemoveItemsWithValue,
        name: "remove_items_with_value",
        summary: "Remove List Items with Value",
        description: "Removes every item of the list that has this value, at whatever time.",
        group: Group::Lists,
        permission: Permission::ListsWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items:remove",
        query: &queries::VERSION_ONLY,
        headers: REQUEST,
        request: Some(Type::of::<RemoveItemsInput<'static>>()),
        replies: &[json(200, "Removed.", Type::of::<Removed>())],
        errors: &[ANY, WRITE, LIST, BODY, &[ErrorCode::ValueTypeMismatch]],
    },
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
        description: "Creates the feature with its default version. One that was deleted before starts empty.",
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
        description: "Absent fields stay as they are; `labels` is replaced whole. `ttl` is that of the default \
                      version, and the default of versions that are created later; a shorter one hides items at once.",
        group: Group::Features,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/features/{entity_type}/{name}",
        query: &queries::NONE,
        headers: CHANGE,
        request: Some(Type::of::<FeaturePatch>()),
        replies: &[ReplyForm { description: "The feature as it is now.", ..FEATURE }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureNotFound, ErrorCode::EtagMismatch, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::DeleteFeature,
        name: "delete_feature",
        summary: "Delete List Feature",
        description: "Deletes the feature with all its versions. Its items are no longer reachable, and leave the \
                      store as they expire.",
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
        description: "Newest first; still there after the feature's deletion.",
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
        description: "A version has lists of its own. Without a `ttl` it copies the feature's present one.",
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
        description: "Absent fields stay as they are. The default version changes with its feature only.",
        group: Group::Versions,
        permission: Permission::FeaturesWrite,
        effect: Effect::Write,
        method: Method::Patch,
        path: "/v1/features/{entity_type}/{name}/versions/{version}",
        query: &queries::NONE,
        headers: CHANGE,
        request: Some(Type::of::<VersionPatch>()),
        replies: &[ReplyForm { description: "The version as it is now.", ..FEATURE_VERSION }],
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
        description: "Its items are no longer reachable, and leave the store as they expire. The default version is \
                      deleted with its feature only.",
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
    Descriptor {
        id: OperationId::CreateKey,
        name: "create_key",
        summary: "Create an API key",
        description: "The answer has the key's token, which nobody can show again. From the first key on, servers whose \
                      `access.mode` is `auto` ask for one.",
        group: Group::Access,
        permission: Permission::KeysWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/keys",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<KeyInput>()),
        replies: &[ReplyForm {
            headers: &[("Location", "The key's path.")],
            ..json(201, "Created.", Type::of::<KeyMade>())
        }],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::KeyExists, ErrorCode::TooManyKeys, ErrorCode::TtlTooLong]],
    },
    Descriptor {
        id: OperationId::ListKeys,
        name: "list_keys",
        summary: "List API keys",
        description: "Ordered by name, revoked ones too. No token is shown.",
        group: Group::Access,
        permission: Permission::KeysWrite,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/keys",
        query: &queries::PAGE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of keys.", Type::of::<KeyPage>())],
        errors: &[ANY, &[ErrorCode::InvalidPageToken]],
    },
    Descriptor {
        id: OperationId::GetKey,
        name: "get_key",
        summary: "Get an API key",
        description: "Without its token.",
        group: Group::Access,
        permission: Permission::KeysWrite,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/keys/{key_id}",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[KEY],
        errors: &[ANY, &[ErrorCode::KeyNotFound]],
    },
    Descriptor {
        id: OperationId::RotateKey,
        name: "rotate_key",
        summary: "Give an API key another token",
        description: "The present token holds for the `overlap` yet, so that services can change over. One before that \
                      ends at once.",
        group: Group::Access,
        permission: Permission::KeysWrite,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/keys/{key_id}/rotate",
        query: &queries::NONE,
        headers: CREATION,
        request: Some(Type::of::<KeyRotation>()),
        replies: &[json(200, "The key with its new token.", Type::of::<KeyMade>())],
        errors: &[
            ANY,
            WRITE,
            BODY,
            &[ErrorCode::KeyNotFound, ErrorCode::KeyRevoked, ErrorCode::KeyExpired, ErrorCode::TtlTooLong],
        ],
    },
    Descriptor {
        id: OperationId::RevokeKey,
        name: "revoke_key",
        summary: "Revoke an API key",
        description: "It holds no more, on this server when this is answered and on all others as soon as they hear of \
                      it. It stays in the list, and its name is free again.",
        group: Group::Access,
        permission: Permission::KeysWrite,
        effect: Effect::RepeatableWrite,
        method: Method::Delete,
        path: "/v1/keys/{key_id}",
        query: &queries::NONE,
        headers: CREATION,
        request: None,
        replies: &[KEY],
        errors: &[ANY, WRITE, &[ErrorCode::KeyNotFound]],
    },
    Descriptor {
        id: OperationId::ListAudit,
        name: "list_audit",
        summary: "Read the audit trail of everything",
        description: "Changes of definitions and of API keys, newest first.",
        group: Group::Access,
        permission: Permission::KeysWrite,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/audit",
        query: &queries::LIST_AUDIT,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "A page of changes.", Type::of::<AuditPage>())],
        errors: &[ANY, &[ErrorCode::InvalidPageToken, ErrorCode::InvalidTimestamp]],
    },
    Descriptor {
        id: OperationId::CreateBackup,
        name: "create_backup",
        summary: "Make a backup of the embedded stores",
        description: "Only over the socket in the server's data directory (`admin.sock`), since it writes on the \
                      server's machine: on the data port it is refused. It has everything that was acknowledged \
                      before the call. The answer comes when it is complete, which takes as long as the disk needs; \
                      nothing that is half made ever stands under the directory's name. One backup at a time; it \
                      goes on if the caller leaves.",
        group: Group::Operations,
        permission: Permission::LocalAdministration,
        effect: Effect::Write,
        method: Method::Post,
        path: "/v1/backups",
        query: &queries::NONE,
        headers: REQUEST,
        request: Some(Type::of::<BackupInput>()),
        replies: &[json(201, "The backup is there.", Type::of::<Backup>())],
        errors: &[
            WRITE,
            BODY,
            &[
                ErrorCode::InvalidArgument,
                ErrorCode::Unauthenticated,
                ErrorCode::LocalOnly,
                ErrorCode::MetadataUnavailable,
                ErrorCode::BackupDirNotEmpty,
                ErrorCode::BackupRunning,
                ErrorCode::BackupFailed,
                ErrorCode::BackupUnsupported,
                ErrorCode::Overloaded,
                ErrorCode::Draining,
                ErrorCode::DeadlineExceeded,
            ],
        ],
    },
    Descriptor {
        id: OperationId::Livez,
        name: "livez",
        summary: "The process runs",
        description: "Never asks a database: a server whose databases are away is not mended by a restart.",
        group: Group::Health,
        permission: Permission::Open,
        effect: Effect::Read,
        method: Method::Get,
        path: "/livez",
        query: &queries::NONE,
        headers: &[],
        request: None,
        replies: &[json(200, "The process runs.", Type::of::<Health>())],
        errors: &[&[ErrorCode::InvalidArgument]],
    },
    Descriptor {
        id: OperationId::Readyz,
        name: "readyz",
        summary: "The server can do its work",
        description: "`fail`: no live list actor, or one that is still starting; no catalog yet; or the server is \
                      stopping. `warn`: it does its work with something missing: some list actors, the metadata \
                      store, or writing.",
        group: Group::Health,
        permission: Permission::Open,
        effect: Effect::Read,
        method: Method::Get,
        path: "/readyz",
        query: &queries::NONE,
        headers: &[],
        request: None,
        replies: &[
            json(200, "Ready, perhaps with warnings.", Type::of::<Health>()),
            ReplyForm {
                headers: &[("Retry-After", "Seconds to wait before the request is sent again.")],
                ..json(503, "Not ready: at least one check fails.", Type::of::<Health>())
            },
        ],
        errors: &[&[ErrorCode::InvalidArgument]],
    },
    Descriptor {
        id: OperationId::Metrics,
        name: "metrics",
        summary: "Metrics in Prometheus' text format",
        description: "",
        group: Group::Health,
        permission: Permission::ServerRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/metrics",
        query: &queries::NONE,
        headers: &[],
        request: None,
        replies: &[ReplyForm {
            status: 200,
            description: "All metrics.",
            content: Some(Content::Text("text/plain; version=0.0.4")),
            headers: &[],
        }],
        errors: &[&[
            ErrorCode::InvalidArgument,
            ErrorCode::Unauthenticated,
            ErrorCode::PermissionDenied,
            ErrorCode::Internal,
            ErrorCode::Overloaded,
            ErrorCode::MetadataUnavailable,
        ]],
    },
    Descriptor {
        id: OperationId::OpenApi,
        name: "openapi",
        summary: "The OpenAPI document",
        description: "",
        group: Group::Health,
        permission: Permission::Open,
        effect: Effect::Read,
        method: Method::Get,
        path: "/openapi.json",
        query: &queries::NONE,
        headers: &[],
        request: None,
        replies: &[json(200, "This document.", Type::of::<serde_json::Value>())],
        errors: &[&[ErrorCode::InvalidArgument, ErrorCode::Overloaded]],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_ids_and_names_each_once() {
        for (row, descriptor) in OPERATIONS.iter().enumerate() {
            assert_eq!(descriptor.id as usize, row, "{}", descriptor.name);
        }
        let names: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
        let routes: BTreeSet<_> = OPERATIONS.iter().map(|o| (o.method.as_str(), o.path)).collect();
        assert_eq!((names.len(), routes.len()), (OPERATIONS.len(), OPERATIONS.len()));
    }

    #[test]
    fn a_path_is_written_with_its_segments_encoded() {
        let path = |id: OperationId, variables: &[&str]| id.descriptor().path_of(variables);
        assert_eq!(
            path(OperationId::GetVersion, &["user", "a.b-c", "2024/08:rc"]),
            "/v1/features/user/a.b-c/versions/2024%2F08:rc"
        );
        assert_eq!(path(OperationId::GetVersion, &["user", "a", ""]), "/v1/features/user/a/versions/");
        assert_eq!(
            path(OperationId::GetItems, &["user", "a", "a/b?c#d%2F é"]),
            "/v1/lists/user/a/a%2Fb%3Fc%23d%252F%20%C3%A9/items"
        );
    }

    /// `L` and `F` stand in the guide for the paths of a list and of a feature.
    #[test]
    fn the_guide_tells_of_every_operation_and_of_no_other() {
        let guide = include_str!("../../docs/api.md");
        let told: BTreeSet<_> = guide.split('`').skip(1).step_by(2).collect();
        let abbreviated = |operation: &Descriptor| {
            let path = operation.path.replace("/v1/lists/{entity_type}/{feature}/{entity_id}", "L");
            format!("{} {}", operation.method, path.replace("/v1/features/{entity_type}/{name}", "F"))
        };
        let known: BTreeSet<_> = OPERATIONS.iter().map(abbreviated).collect();
        for call in &known {
            assert!(told.contains(call.as_str()), "docs/api.md does not tell of `{call}`");
        }
        for span in told {
            let is_call = ["GET ", "POST ", "PATCH ", "DELETE "].iter().any(|method| span.starts_with(method));
            assert!(!is_call || known.contains(span), "docs/api.md tells of `{span}`, which is no operation");
        }
    }

    #[test]
    fn what_writes_says_so_by_its_permission() {
        for operation in &OPERATIONS {
            let reads = [Permission::Open, Permission::ListsRead, Permission::FeaturesRead, Permission::ServerRead];
            let writes = !reads.contains(&operation.permission);
            // To know of keys, and of who did what, is as good as to make them.
            let is_known_to_writers = operation.permission == Permission::KeysWrite && !operation.effect.writes();
            assert_eq!(operation.effect.writes() || is_known_to_writers, writes, "{}", operation.name);
            let given_twice: BTreeSet<_> = operation.errors().map(|code| code as usize).collect();
            assert_eq!(given_twice.len(), operation.errors().count(), "{} has a code twice", operation.name);
        }
    }
}
