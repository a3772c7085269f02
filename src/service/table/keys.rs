//! API keys, and the audit trail of everything.

use super::parts::{ANY, BODY, CREATION, REQUEST, WRITE, json};
use super::queries;
use crate::access::Permission;
use crate::service::OperationId;
use crate::service::descriptor::{Descriptor, Effect, Group, Method, ReplyForm};
use crate::wire::{AuditPage, ErrorCode, Key, KeyInput, KeyMade, KeyPage, KeyRotation, Me, SignIn, Type};

const KEY: ReplyForm = json(200, "The key.", Type::of::<Key>());

pub const ROWS: [Descriptor; 8] = [
    Descriptor {
        id: OperationId::GetMe,
        name: "get_me",
        summary: "Get the caller's identity and permissions",
        description: "Returns the name, roles and permissions of the API key or token. On an open server, every caller \
                      is `anonymous` with full access.",
        group: Group::Access,
        permission: Permission::Known,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/me",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "Who asked.", Type::of::<Me>())],
        errors: &[&[
            ErrorCode::InvalidArgument,
            ErrorCode::Unauthenticated,
            ErrorCode::UnknownHost,
            ErrorCode::RateLimited,
            ErrorCode::Internal,
            ErrorCode::Overloaded,
            ErrorCode::MetadataUnavailable,
            ErrorCode::IssuerUnavailable,
        ]],
    },
    Descriptor {
        id: OperationId::GetSignIn,
        name: "get_sign_in",
        summary: "Get the console's sign-in options",
        description: "The identity providers with a client for the console, if any.",
        group: Group::Access,
        permission: Permission::Open,
        effect: Effect::Read,
        method: Method::Get,
        path: "/v1/sign-in",
        query: &queries::NONE,
        headers: REQUEST,
        request: None,
        replies: &[json(200, "The providers.", Type::of::<SignIn>())],
        errors: &[&[ErrorCode::InvalidArgument, ErrorCode::Internal, ErrorCode::Overloaded]],
    },
    Descriptor {
        id: OperationId::CreateKey,
        name: "create_key",
        summary: "Create an API key",
        description: "The response has the key's token, which is not shown again. After the first key is created, \
                      servers with the `access.mode` `auto` require one. If the caller's key, token or certificate \
                      expires, the new key must expire within `access.keys.lifetime_max_secs`. A longer `expires` is \
                      refused. The default is this maximum.",
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
        description: "Ordered by name, including revoked keys. Tokens are not shown.",
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
        description: "The response does not include the token. `created_keys` names the active keys that this key \
                      created, directly or through another key.",
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
        summary: "Rotate an API key",
        description: "Creates a new token. The current token stays valid for the `overlap`, so that services can \
                      switch. Older tokens end immediately. If the caller's key, token or certificate expires, the key \
                      must expire within `access.keys.lifetime_max_secs`. A longer `expires` is refused.",
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
        description: "The key becomes invalid on this server before the response, and on other servers as soon as they \
                      are notified. It remains in the list, and its name can be used again. `created_keys` names the \
                      active keys that this key created, directly or through another key. With `created_keys=true` \
                      they are revoked too.",
        group: Group::Access,
        permission: Permission::KeysWrite,
        effect: Effect::RepeatableWrite,
        method: Method::Delete,
        path: "/v1/keys/{key_id}",
        query: &queries::REVOKE_KEY,
        headers: CREATION,
        request: None,
        replies: &[KEY],
        errors: &[ANY, WRITE, &[ErrorCode::KeyNotFound]],
    },
    Descriptor {
        id: OperationId::ListAudit,
        name: "list_audit",
        summary: "Read the audit trail",
        description: "Changes of definitions, API keys and servers (pool, log, jobs, backups), newest first. The \
                      action `refuse` lists this server's recent refusals instead. Equal refusals within a minute are \
                      one entry, with their number in `after.count`.",
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
];
