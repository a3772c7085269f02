//! Put a bag under a new ID.

use super::parts::{ANY, BAGS, BODY, ETAG_OF_BAG, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{BagStored, ErrorCode, Properties, Type};

pub static ROW: Row = Row {
    name: "create_bag",
    summary: "Put a bag under a new ID",
    description: "The entity's ID is a new UUID (version 7).",
    group: Group::Entities,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/entities/{entity_type}",
    request: Some(Type::of::<Properties>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The bag's path."), ETAG_OF_BAG],
        ..json(201, "Stored.", Type::of::<BagStored>())
    }],
    errors: &[ANY, WRITE, BODY, BAGS, &[ErrorCode::BagTooLarge, ErrorCode::TooManyEntries]],
    counts_items: true,
    ..Row::DEFAULT
};
