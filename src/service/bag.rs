//! Bags, and operations on them, as values.

use bytes::Bytes;

use super::error::ServiceError;
use super::page_cache::RenderedPage;
use crate::domain::{EntityId, EntityType, FeatureKey, FeatureName, Int64As, Limit, PageToken, Timestamp, ValueType};
use crate::metadata::catalog::CatalogVersion;
use crate::wire::AggregateInput;

/// An entity, as callers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityName {
    pub entity_type: EntityType,
    pub entity_id: EntityId,
}

/// The items that are read with a bag: the newest of a list of its entity, of the feature's default version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedList {
    pub feature: FeatureName,
    pub limit: Limit,
}

/// A list of an entity that has visible items.
#[derive(Debug)]
pub struct HeldList {
    pub feature: String,
    pub version: String,
    pub value_type: ValueType,
    /// When its newest item happened.
    pub newest: Timestamp,
}

impl HeldList {
    /// The list of a version. `None` if its key has another form.
    pub(super) fn of(version: &CatalogVersion, newest: Timestamp) -> Option<Self> {
        let (id, label, _) = FeatureKey::parse(version.feature_key.as_str())?;
        let value_type = version.value_type;
        Some(Self { feature: id.name.to_string(), version: label.to_string(), value_type, newest })
    }
}

/// The lists that are read with bags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JoinedLists {
    pub lists: Vec<JoinedList>,
    /// The lists, of default versions, whose aggregates are read.
    pub aggregates: Vec<(FeatureName, AggregateInput)>,
    /// The form of their values. `None` for the form of each feature.
    pub int64_as: Option<Int64As>,
}

impl JoinedLists {
    /// The reads for each bag.
    pub fn count(&self) -> usize {
        self.lists.len() + self.aggregates.len()
    }
}

/// What was read of lists of an entity, in the order of the request.
pub type ReadLists = Vec<(FeatureName, Result<RenderedPage, ServiceError>)>;

/// A bag that was read.
#[derive(Debug)]
pub struct Bag {
    pub entity: EntityName,
    /// Its stamp, which no other state of it has.
    pub updated_at: Timestamp,
    /// The JSON text of the document.
    pub document: Bytes,
    /// The pages of the requested lists.
    pub lists: ReadLists,
    pub aggregates: ReadLists,
}

/// A bag that was found by an index.
#[derive(Debug)]
pub struct FoundBag {
    /// The text of the entity's ID, as the entry has it.
    pub entity_id: Bytes,
    /// As of [`Bag`].
    pub updated_at: Timestamp,
    pub document: Bytes,
}

/// A page of bags that were found.
#[derive(Debug)]
pub struct BagsFound {
    pub entity_type: EntityType,
    pub bags: Vec<FoundBag>,
    pub next_page_token: Option<PageToken>,
}

/// A bag that was stored.
#[derive(Debug)]
pub struct StoredBag {
    pub entity: EntityName,
    pub updated_at: Timestamp,
    /// Whether there was none before.
    pub is_created: bool,
}
