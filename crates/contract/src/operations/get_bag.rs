//! Get the bag of an entity.

use super::parts::{ANY, BAGS, ETAG_OF_BAG, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::parameters::{BAG_IF_NONE_MATCH, INT64_AS, JOINED_LISTS, Parameter, REQUEST_ID, TIMEOUT};
use crate::wire::{Bag, ErrorCode, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [JOINED_LISTS, INT64_AS];

pub static ROW: Row = Row {
    name: "get_bag",
    summary: "Get the bag of an entity",
    description: "With `lists`, the response includes items of the entity's lists. Its entity tag is then weak and \
                  cannot be used in a write condition.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::EntityType,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/entities/{entity_type}/{entity_id}",
    query: &QUERY,
    headers: &[BAG_IF_NONE_MATCH, REQUEST_ID, TIMEOUT],
    replies: &[
        ReplyForm { headers: &[ETAG_OF_BAG], ..json(200, "The bag.", Type::of::<Bag>()) },
        ReplyForm {
            status: 304,
            description: "Not modified: `If-None-Match` has the bag's current tag.",
            content: None,
            headers: &[ETAG_OF_BAG],
        },
    ],
    errors: &[ANY, BAGS, &[ErrorCode::BagNotFound]],
    counts_items: true,
    ..Row::DEFAULT
};
