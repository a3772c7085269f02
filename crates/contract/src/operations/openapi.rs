//! The OpenAPI document.

use super::parts::json;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, Type};

pub static ROW: Row = Row {
    name: "openapi",
    summary: "Get the OpenAPI document",
    group: Group::Health,
    permission: Permission::Open,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/openapi.json",
    headers: &[],
    replies: &[json(200, "This document.", Type::of::<serde_json::Value>())],
    errors: &[&[ErrorCode::InvalidArgument, ErrorCode::Overloaded]],
    ..Row::DEFAULT
};
