//! Get List Items.

use super::parts::{ANY, CONDITIONAL, LIST};
use crate::permission::Permission;
use crate::row::{Content, Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::parameters::{
    AS_OF, INT64_AS, LIMIT, MAX_TIMESTAMP, MIN_TIMESTAMP, ORDER, PAGE_TOKEN, Parameter, VERSION,
};
use crate::wire::{ErrorCode, ItemPage, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 8] = [VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, AS_OF, ORDER, LIMIT, PAGE_TOKEN, INT64_AS];

const ETAG: (&str, &str) = ("ETag", "The page's entity tag.");
const PAGE: ReplyForm = ReplyForm {
    status: 200,
    description: "A page of items.",
    content: Some(Content::JsonOrLines(Type::of::<ItemPage>())),
    headers: &[ETAG],
};
const UNCHANGED: ReplyForm =
    ReplyForm { status: 304, description: "Not modified: the caller has this page.", content: None, headers: &[ETAG] };

pub static ROW: Row = Row {
    name: "get_items",
    summary: "Get list items",
    description: "Newest first. Equal timestamps are ordered by item key, descending. `order=oldest` reverses this \
                  order. A list without writes is empty. A page may have fewer than `limit` items: rely on the \
                  token, not on the count. With `Accept: application/x-ndjson`, the response has one item per line \
                  and the token, if any, in the last line.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Feature,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
    query: &QUERY,
    headers: CONDITIONAL,
    replies: &[PAGE, UNCHANGED],
    errors: &[ANY, LIST, &[ErrorCode::InvalidPageToken, ErrorCode::InvalidTimestamp]],
    counts_items: true,
    ..Row::DEFAULT
};
