//! Change the size of the pool of list actors.

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Pool, PoolInput, Type};

pub static ROW: Row = Row {
    name: "resize_pool",
    summary: "Change the size of the pool of list actors",
    description: "Resizes the pool of this server without interrupting operations. The response is sent when the \
                  pool has its new size: new actors open their sessions first, and removed actors finish their \
                  operations. Adding one actor to n moves about 1/(n + 1) of the lists. The resize continues if \
                  the caller disconnects. A restart uses the settings again. The change is written to the audit \
                  trail first.",
    group: Group::Operations,
    permission: Permission::PoolsWrite,
    subject: Subject::Server,
    effect: Effect::RepeatableWrite,
    method: Method::Put,
    path: "/v1/pool",
    headers: CREATION,
    request: Some(Type::of::<PoolInput>()),
    replies: &[json(200, "The pool after the change.", Type::of::<Pool>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::PoolResizing, ErrorCode::StoreUnavailable, ErrorCode::Draining]],
    ..Row::DEFAULT
};
