//! Put the bag of an entity.

use super::parts::{ANY, BAG_CHANGE, BAGS, BODY, STORED, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{ErrorCode, Properties, Type};

pub static ROW: Row = Row {
    name: "put_bag",
    summary: "Put the bag of an entity",
    description: "Stores a JSON object of at most 256 KiB as the whole bag. `If-Match` replaces only a bag with \
                  one of these tags. `If-None-Match: *` stores only if there is no bag.",
    group: Group::Entities,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Put,
    path: "/v1/entities/{entity_type}/{entity_id}",
    headers: BAG_CHANGE,
    request: Some(Type::of::<Properties>()),
    replies: &[STORED, ReplyForm { status: 201, description: "Stored; there was no bag before.", ..STORED }],
    errors: &[ANY, WRITE, BODY, BAGS, &[ErrorCode::EtagMismatch, ErrorCode::BagTooLarge, ErrorCode::TooManyEntries]],
    counts_items: true,
    ..Row::DEFAULT
};
