//! Remove All List Items.

use super::parts::{ANY, LIST, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::parameters::{Parameter, VERSION};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [VERSION];

pub static ROW: Row = Row {
    name: "remove_all_items",
    summary: "Remove all list items",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Feature,
    effect: Effect::RepeatableWrite,
    method: Method::Delete,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
    query: &QUERY,
    replies: &[ReplyForm { status: 204, description: "The list is empty.", content: None, headers: &[] }],
    errors: &[ANY, WRITE, LIST],
    counts_items: true,
    ..Row::DEFAULT
};
