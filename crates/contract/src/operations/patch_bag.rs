//! Change the bag of an entity.

use super::parts::{ANY, BAG_CHANGE, BAGS, BODY, ETAG_OF_BAG, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::{Bag, ErrorCode, Properties, Type};

pub static ROW: Row = Row {
    name: "patch_bag",
    summary: "Change the bag of an entity",
    description: "Merges a JSON object into the bag (RFC 7396): `null` removes a member, objects are merged, and \
                  other values replace existing ones. Concurrent changes are not lost.",
    group: Group::Entities,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Patch,
    path: "/v1/entities/{entity_type}/{entity_id}",
    headers: BAG_CHANGE,
    request: Some(Type::of::<Properties>()),
    replies: &[ReplyForm { headers: &[ETAG_OF_BAG], ..json(200, "The bag after the change.", Type::of::<Bag>()) }],
    errors: &[
        ANY,
        WRITE,
        BODY,
        BAGS,
        &[ErrorCode::BagNotFound, ErrorCode::EtagMismatch, ErrorCode::BagTooLarge, ErrorCode::TooManyEntries],
    ],
    takes_merge_patch: true,
    counts_items: true,
    ..Row::DEFAULT
};
