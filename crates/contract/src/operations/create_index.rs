//! Create an index of bags.

use super::parts::{ANY, BODY, CREATION, ETAG_OF_INDEX, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, Index, IndexInput, Type};

pub static ROW: Row = Row {
    name: "create_index",
    summary: "Create an index of bags",
    description: "Later writes update the index immediately; a background job adds existing bags. An index that is \
                  created again after a deletion starts empty.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/entity-types/{entity_type}/indexes",
    headers: CREATION,
    request: Some(Type::of::<IndexInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The index's path."), ETAG_OF_INDEX],
        ..json(201, "Created; the index is being built.", Type::of::<Index>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexExists, ErrorCode::TooManyIndexes]],
    ..Row::DEFAULT
};
