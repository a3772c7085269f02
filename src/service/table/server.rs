//! What is about the server itself: the pool of list actors, backups, health, metrics, and the description of the API.

use super::parts::{ANY, BODY, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Content, Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::{Backup, BackupInput, ErrorCode, Health, Pool, PoolInput, Type};

pub const ROWS: [Descriptor; 7] = [
    Descriptor {
        id: OperationId::GetPool,
        name: "get_pool",
        summary: "Show the pool of list actors",
        description: "Its size, what its actors do, and how many operations have a permit. It is this server's own: \
                      every server has one.",
        group: Group::Operations,
        permission: Permission::ServerRead,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/pool",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "The pool.", Type::of::<Pool>())],
        errors: &[ANY],
    },
    Descriptor {
        id: OperationId::ResizePool,
        name: "resize_pool",
        summary: "Change the size of the pool of list actors",
        description: "While operations go on, and of this server alone. It is answered when the pool has its new size: \
                      new actors open their sessions first, and those that leave end what they have begun. About \
                      1/(n + 1) of the lists move to one more actor. Once begun it goes on if its caller leaves. A \
                      restart begins with the settings again.",
        group: Group::Operations,
        permission: Permission::PoolsWrite,
        effect: Effect::RepeatableWrite,
        method: Method::Put,
        path: "/v1/pool",
        query: &queries::NONE,
        headers: REQUEST,
        request: Some(Type::of::<PoolInput>()),
        replies: &[json(200, "The pool as it is now.", Type::of::<Pool>())],
        errors: &[ANY, WRITE, BODY, &[ErrorCode::PoolResizing, ErrorCode::StoreUnavailable, ErrorCode::Draining]],
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
                ErrorCode::IssuerUnavailable,
                ErrorCode::UnknownHost,
                ErrorCode::RateLimited,
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
            ErrorCode::IssuerUnavailable,
            ErrorCode::UnknownHost,
            ErrorCode::RateLimited,
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
