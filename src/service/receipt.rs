//! A receipt: the outcome for each list of an erased entity.

use super::ServiceError;
use crate::domain::{Author, EntityId, EntityType, FeatureId, FeatureKey, Generation, Timestamp, VersionLabel};

/// The erased lists of an entity, with the time and the author.
#[derive(Debug)]
pub struct Receipt {
    pub entity_type: EntityType,
    pub entity_id: EntityId,
    pub at: Timestamp,
    pub by: Author,
    pub lists: Vec<ErasedList>,
    /// Whether the removals survive a loss of power.
    pub synced: Result<(), ServiceError>,
    /// The date from which no file of the item store holds the erased bytes, if the store promises one.
    pub bytes_erased_by: Option<Timestamp>,
}

impl Receipt {
    /// Whether everything is removed permanently.
    pub fn is_complete(&self) -> bool {
        self.synced.is_ok() && self.lists.iter().all(|list| list.outcome.is_ok())
    }

    /// A reason why it is not.
    pub(super) fn into_complete(self) -> Result<(), ServiceError> {
        self.lists.into_iter().try_for_each(|list| list.outcome).and(self.synced)
    }
}

/// One list of the entity, and its outcome.
#[derive(Debug)]
pub struct ErasedList {
    pub id: FeatureId,
    pub version: VersionLabel,
    pub generation: Generation,
    /// Whether its definition exists. A deleted definition no longer leads to the list.
    pub is_present: bool,
    pub outcome: Result<(), ServiceError>,
}

impl ErasedList {
    pub(super) fn key(&self) -> FeatureKey {
        FeatureKey::new(&self.id, &self.version, self.generation).of_any_identity()
    }
}
