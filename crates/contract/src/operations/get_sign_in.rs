//! Get the console's sign-in options.

use super::parts::json;
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, SignIn, Type};

pub static ROW: Row = Row {
    name: "get_sign_in",
    summary: "Get the console's sign-in options",
    description: "The identity providers with a client for the console, if any.",
    group: Group::Access,
    permission: Permission::Open,
    subject: Subject::Server,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/sign-in",
    replies: &[json(200, "The providers.", Type::of::<SignIn>())],
    errors: &[&[ErrorCode::InvalidArgument, ErrorCode::Internal, ErrorCode::Overloaded]],
    ..Row::DEFAULT
};
