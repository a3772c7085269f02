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
        summary: "Who am I, and what may I do",
        description: "Whoever shows an API key is told its name, roles and permissions. Where the server is open, \
                      everybody is `anonymous` and may do anything.",
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
        summary: "How people sign in to the console",
        description: "The identity providers that know the console as a client, if there are any.",
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
        description: "The answer has the key's token, which nobody can show again. From the first key on, servers whose \
                      `access.mode` is `auto` ask for one. A caller whose own key, token or certificate expires makes keys \
                      that expire within `access.keys.lifetime_max_secs`: a longer `expires` is refused, and \
                      without `expires` that is the lifetime.",
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
        description: "Without its token. `created_keys` names the keys that it created, directly or through another key, and \
                      that are not revoked.",
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
                      ends at once. A caller whose own key, token or certificate expires leaves the key a lifetime of \
                      `access.keys.lifetime_max_secs` at most: a longer `expires` is refused.",
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
                      it. It stays in the list, and its name is free again. The answer names the keys in \
                      `created_keys` that the key created, directly or through another key, and that are not revoked. \
                      With `created_keys=true` they are revoked too, and none is left to name.",
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
        summary: "Read the audit trail of everything",
        description: "Changes of definitions, API keys and servers (pool, log, jobs, backups), newest first. The action `refuse` asks for what this \
                      server has refused lately in their place: what is refused alike within a minute is one entry, with \
                      how often in `after.count`.",
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
