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
    /// Whether what was removed stays so after a loss of power.
    pub synced: Result<(), ServiceError>,
    /// From when on no file of the item store holds the erased bytes, if the store sees to that.
    pub bytes_erased_by: Option<Timestamp>,
}

impl Receipt {
    /// Whether all is removed for good.
    pub fn is_complete(&self) -> bool {
        self.synced.is_ok() && self.lists.iter().all(|list| list.outcome.is_ok())
    }

    /// Why it is not, for one of the reasons.
    pub(super) fn into_complete(self) -> Result<(), ServiceError> {
        self.lists.into_iter().try_for_each(|list| list.outcome).and(self.synced)
    }
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
