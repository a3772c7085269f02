//! Bags, and operations on them, as values.

use bytes::Bytes;

use super::bag_conditions::BagConditions;
use super::error::ServiceError;
use super::page_cache::RenderedPage;
use crate::domain::{Document, EntityId, EntityType, FeatureName, Limit, Timestamp};

/// An entity, as callers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityName {
    pub entity_type: EntityType,
    pub entity_id: EntityId,
}

/// Which items come along with a bag: the newest of a list of its entity, of the feature's default version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedList {
    pub feature: FeatureName,
    pub limit: Limit,
}

/// A bag that was found.
#[derive(Debug)]
pub struct Bag {
    pub entity: EntityName,
    /// Its stamp, which no other state of it has.
    pub updated_at: Timestamp,
    /// The JSON text of the document.
    pub document: Bytes,
    /// The pages of the lists that were asked for, in their order.
    pub lists: Vec<(FeatureName, Result<RenderedPage, ServiceError>)>,
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

/// The operations on bags.
#[derive(Debug)]
pub enum BagOperation {
    Get {
        entity: EntityName,
        lists: Vec<JoinedList>,
    },
    Put {
        entity: EntityName,
        document: Document,
        conditions: BagConditions,
    },
    Patch {
        entity: EntityName,
        patch: Document,
        conditions: BagConditions,
    },
    Delete {
        entity: EntityName,
        conditions: BagConditions,
    },
    /// Under an ID that no entity has.
    Create {
        entity_type: EntityType,
        document: Document,
    },
    List {
        entity_type: EntityType,
        page_size: Limit,
        page_token: Option<String>,
    },
    BatchGet {
        entities: Vec<Result<EntityName, ServiceError>>,
        lists: Vec<JoinedList>,
    },
}
