//! Erase an entity.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, WRITE, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{BAG_IF_NONE_MATCH, IF_MATCH, REQUEST_ID, TIMEOUT, USER};
use crate::wire::{ErrorCode, ProblemBody, Type, texts};

pub static ROW: Row = Row {
    name: "erase_entity",
    summary: "Erase an entity",
    description: "Removes the bag and all lists of an entity, of every feature and version of its type, including \
                  deleted ones with unexpired items. Returns a receipt that names each list. If `complete` is false, \
                  some lists could not be cleared: send the request again. The audit trail records the caller and the \
                  entity's ID. Items added during the erasure may remain. Requires `lists:write` for the whole entity \
                  type. A condition refers to the bag; if it does not match, nothing is erased. From `bytes_erased_by` \
                  on, no file of the data directory contains the erased bytes.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::EntityType,
    effect: Effect::RepeatableWrite,
    method: Method::Delete,
    path: "/v1/entities/{entity_type}/{entity_id}",
    headers: &[IF_MATCH, BAG_IF_NONE_MATCH, USER, REQUEST_ID, TIMEOUT],
    replies: &[json(200, "The result for each list.", Type::of::<EntityErased>())],
    errors: &[
        ANY,
        WRITE,
        &[ErrorCode::Draining, ErrorCode::StoreUnavailable, ErrorCode::TooManyTombstones, ErrorCode::EtagMismatch],
    ],
    counts_items: true,
    ..Row::DEFAULT
};

/// A receipt of an erasure: the lists and bags, the time and the caller.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EntityErased {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    #[schema(value_type = texts::EntityIdShown, inline)]
    pub entity_id: String,
    // When it was noted in the audit trail, after the last list.
    #[schema(value_type = texts::Timestamp, inline)]
    pub erased_at: String,
    /// The caller's name in the audit trail.
    pub erased_by: String,
    /// The user that the caller named, which is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub on_behalf_of: Option<String>,
    /// Whether all lists and bags were cleared, durably. If not, send the request again.
    pub complete: bool,
    // From when on no file of the data directory holds an erased byte, with the embedded store. Absent where
    // the client has to send the call again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub bytes_erased_by: Option<String>,
    /// The lists, by feature, version and generation: with the embedded store, lists with items; otherwise all.
    pub lists: Vec<ErasedList>,
    /// The bags, by generation of the entity type: with the embedded store, existing bags; otherwise all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub bags: Vec<ErasedBag>,
}

/// A bag of the entity and its result.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErasedBag {
    /// The generation of the entity type, counted from 1.
    #[schema(minimum = 1)]
    pub generation: u64,
    /// Whether that generation was deleted, so that the bag was already unreachable.
    pub deleted: bool,
    pub cleared: bool,
    /// Why it was not cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ProblemBody, required = false)]
    pub problem: Option<ProblemBody>,
}

/// A list of the entity and its result.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErasedList {
    #[schema(value_type = texts::Name, inline)]
    pub feature: String,
    #[schema(value_type = texts::Label, inline)]
    pub version: String,
    /// The generation of the version, counted from 1.
    #[schema(minimum = 1)]
    pub generation: u64,
    /// Whether that generation was deleted, so that its items were already unreachable.
    pub deleted: bool,
    pub cleared: bool,
    /// Why it was not cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ProblemBody, required = false)]
    pub problem: Option<ProblemBody>,
}
