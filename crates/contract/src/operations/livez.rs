//! Liveness.

use super::parts::json;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Health, Type};

pub static ROW: Row = Row {
    name: "livez",
    summary: "Check liveness",
    description: "Fails if a thread that serves requests or carries out list operations has not run for 30 s. Does not check \
                  databases, because a restart does not fix an unavailable database.",
    group: Group::Health,
    permission: Permission::Open,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/livez",
    headers: &[],
    replies: &[
        json(200, "The process runs.", Type::of::<Health>()),
        json(503, "A thread hangs: restart the server.", Type::of::<Health>()),
    ],
    errors: &[&[ErrorCode::InvalidArgument]],
    ..Row::DEFAULT
};
