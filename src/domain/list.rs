//! Lists: all items of one (entity type, feature name, feature version, entity ID).

use super::{EntityId, FeatureKey, Token};

/// The partition key of a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListKey {
    pub feature_key: FeatureKey,
    pub entity_id: EntityId,
}

impl ListKey {
    pub fn new(feature_key: FeatureKey, entity_id: EntityId) -> Self {
        Self { feature_key, entity_id }
    }

    /// The token of this partition: what a Cassandra cluster places it by, and our actors too.
    pub fn token(&self) -> Token {
        Token::of_partition_key(&[self.feature_key.as_str().as_bytes(), self.entity_id.as_str().as_bytes()])
    }
}
