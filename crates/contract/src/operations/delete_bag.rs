//! Delete the bag of an entity.

use super::parts::{ANY, BAG_CHANGE, BAGS, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "delete_bag",
    summary: "Delete the bag of an entity",
    description: "Deletes only the bag. The entity's lists remain.",
    group: Group::Entities,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Delete,
    path: "/v1/entities/{entity_type}/{entity_id}/bag",
    headers: BAG_CHANGE,
    replies: &[ReplyForm { status: 204, description: "Deleted.", content: None, headers: &[] }],
    errors: &[ANY, WRITE, BAGS, &[ErrorCode::BagNotFound, ErrorCode::EtagMismatch]],
    counts_items: true,
    ..Row::DEFAULT
};
