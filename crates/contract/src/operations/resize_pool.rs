//! Change the size of the pool of list actors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::members::whole;
use crate::wire::{ErrorCode, Pool, Problem, Type, body};

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

/// The new size of the pool. Absent fields remain unchanged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"actors": 4}))]
#[serde(deny_unknown_fields)]
pub struct PoolInput {
    /// List actors, each with one thread and one session with the item store.
    #[serde(default, deserialize_with = "whole::<1_024, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, minimum = 1, maximum = 1024, required = false)]
    pub actors: Option<usize>,
    /// Maximum number of operations in flight per actor; with a CQL cluster, of unfinished requests per session.
    #[serde(default, deserialize_with = "whole::<1_000_000, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, minimum = 1, maximum = 1_000_000, required = false)]
    pub permits_per_actor: Option<usize>,
}

impl PoolInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let input: Self = body::read(body)?;
        if input.actors.is_none() && input.permits_per_actor.is_none() {
            let detail = "send actors, permits_per_actor, or both";
            return Err(Problem::argument("actors", detail));
        }
        Ok(input)
    }
}
