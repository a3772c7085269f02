//! The bodies of entity types, whose existence permits bags of their entities.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::texts;
use crate::definition;

/// An entity type whose entities have bags.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EntityType {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: String,
    #[schema(value_type = texts::Ttl, inline)]
    pub ttl: String,
    pub description: String,
    pub owner: String,
    #[schema(value_type = texts::Labels, inline)]
    pub labels: BTreeMap<String, String>,
    #[schema(value_type = texts::Timestamp, inline)]
    pub created_at: String,
    #[schema(value_type = texts::Timestamp, inline)]
    pub updated_at: String,
}

impl From<&definition::Feature> for EntityType {
    fn from(bags: &definition::Feature) -> Self {
        Self {
            entity_type: bags.id.entity_type.to_string(),
            ttl: bags.properties().ttl.to_string(),
            description: bags.description.as_str().to_owned(),
            owner: bags.owner.as_str().to_owned(),
            labels: bags.labels.as_map().clone(),
            created_at: bags.created_at.to_string(),
            updated_at: bags.updated_at.to_string(),
        }
    }
}
