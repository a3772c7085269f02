//! Delete an index.

use super::parts::{ANY, CHANGE, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "delete_index",
    summary: "Delete an index",
    description: "Writes and queries stop using the index immediately. A background job clears its entries. Bags \
                  remain unchanged.",
    group: Group::Entities,
    permission: Permission::FeaturesWrite,
    subject: Subject::EntityType,
    effect: Effect::Write,
    method: Method::Delete,
    path: "/v1/entity-types/{entity_type}/indexes/{index}",
    headers: CHANGE,
    replies: &[ReplyForm { status: 204, description: "Deleted.", content: None, headers: &[] }],
    errors: &[
        ANY,
        WRITE,
        &[ErrorCode::EntityTypeNotFound, ErrorCode::IndexNotFound, ErrorCode::EtagMismatch, ErrorCode::TooManyJobs],
    ],
    ..Row::DEFAULT
};
