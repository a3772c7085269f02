//! The bodies of what erases items of several lists at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ProblemBody, texts};

/// A receipt: what was erased of an entity, when and by whom.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EntityErased {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    #[schema(value_type = texts::EntityId, inline)]
    pub entity_id: String,
    // When it was noted in the audit trail, after the last list.
    #[schema(value_type = texts::Timestamp, inline)]
    pub erased_at: String,
    /// As the audit trail has it.
    pub erased_by: String,
    /// For whom, as the caller said and nobody checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub on_behalf_of: Option<String>,
    /// Whether all lists and bags were cleared. Where they were not, the call can be sent again.
    pub complete: bool,
    // From when on no file of the data directory holds an erased byte, with the embedded store. Absent where
    // the client has to send the call again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub bytes_erased_by: Option<String>,
    /// Every list that there may be, by feature, version and generation.
    pub lists: Vec<ErasedList>,
    /// Every bag that there may be, by generation of the entity type; absent where there never was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub bags: Vec<ErasedBag>,
}

/// A bag of the entity, and what became of it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErasedBag {
    /// Which creation of the entity type it belongs to, from 1.
    #[schema(minimum = 1)]
    pub generation: u64,
    /// Whether that creation was deleted, so that the bag was out of reach already.
    pub deleted: bool,
    pub cleared: bool,
    /// Why it was not cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ProblemBody, required = false)]
    pub problem: Option<ProblemBody>,
}

/// A list of the entity, and what became of it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ErasedList {
    #[schema(value_type = texts::Name, inline)]
    pub feature: String,
    #[schema(value_type = texts::Label, inline)]
    pub version: String,
    /// Which creation of the version it belongs to, from 1.
    #[schema(minimum = 1)]
    pub generation: u64,
    /// Whether that creation was deleted, so that its items were out of reach already.
    pub deleted: bool,
    pub cleared: bool,
    /// Why it was not cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ProblemBody, required = false)]
    pub problem: Option<ProblemBody>,
}
