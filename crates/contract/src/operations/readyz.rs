//! Readiness.

use super::parts::json;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, Health, Type};

pub static ROW: Row = Row {
    name: "readyz",
    summary: "Check readiness",
    description: "`fail`: no live list actor, an actor that is still starting, no catalog yet, or the server is \
                  stopping. `warn`: the server works, but some list actors, the metadata store or writes are \
                  unavailable.",
    group: Group::Health,
    permission: Permission::Open,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/readyz",
    headers: &[],
    replies: &[
        json(200, "Ready, possibly with warnings.", Type::of::<Health>()),
        ReplyForm {
            headers: &[("Retry-After", "Seconds to wait before the request is sent again.")],
            ..json(503, "Not ready: at least one check fails.", Type::of::<Health>())
        },
    ],
    errors: &[&[ErrorCode::InvalidArgument]],
    ..Row::DEFAULT
};
