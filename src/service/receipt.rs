//! A receipt: what became of each list of an entity that was erased.

use super::ServiceError;
use crate::domain::{Author, EntityId, EntityType, FeatureId, FeatureKey, Generation, Timestamp, VersionLabel};

/// What was erased of an entity, when and by whom.
#[derive(Debug)]
pub struct Receipt {
    pub entity_type: EntityType,
    pub entity_id: EntityId,
    pub at: Timestamp,
    pub by: Author,
    pub lists: Vec<ErasedList>,
    /// From when on no file of the item store holds the erased bytes, if the store sees to that.
    pub bytes_erased_by: Option<Timestamp>,
}

/// One list of the entity, and what became of it.
#[derive(Debug)]
pub struct ErasedList {
    pub id: FeatureId,
    pub version: VersionLabel,
    pub generation: Generation,
    /// Whether its definition was there. That of a deleted one leads to it no more.
    pub is_present: bool,
    pub outcome: Result<(), ServiceError>,
}

impl ErasedList {
    pub(super) fn key(&self) -> FeatureKey {
        FeatureKey::new(&self.id, &self.version, self.generation).of_any_identity()
    }
}
