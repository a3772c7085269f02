//! The bodies of entity types, whose existence permits bags of their entities.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{self, Others};
use super::jobs::lists_per_second;
use super::{Problem, texts};
use crate::definition;
use crate::domain::{self, Description, Labels, Owner, Ttl};

/// The definition of a new entity type.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entity_type": "user", "ttl": "365d", "owner": "feed team"}))]
#[serde(deny_unknown_fields)]
pub struct EntityTypeInput {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: domain::EntityType,
    // How long a bag lives after it was changed last: 20 years if it is not given, the longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub ttl: Option<Ttl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 200, pattern = "^[^\\x00]*$", required = false)]
    pub owner: Option<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Labels, inline, required = false)]
    pub labels: Option<Labels>,
}

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ttl": "30d"}))]
#[serde(deny_unknown_fields)]
pub struct EntityTypePatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub ttl: Option<Ttl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 200, pattern = "^[^\\x00]*$", required = false)]
    pub owner: Option<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Labels, inline, required = false)]
    pub labels: Option<Labels>,
}

/// Which bags of an entity type to purge.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"deleted_only": true}))]
#[serde(deny_unknown_fields)]
pub struct PurgeBagsInput {
    /// Whether to purge only bags of deleted generations; default `false`.
    #[serde(default)]
    #[schema(required = false)]
    pub deleted_only: bool,
    /// Maximum number of bags to clear per second.
    #[serde(default, deserialize_with = "lists_per_second", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, minimum = 1, maximum = 1_000_000, required = false)]
    pub lists_per_second: Option<NonZeroU32>,
}

const FIXED: [(&str, &str); 1] = [("entity_type", "an entity type cannot be renamed: create another entity type")];

impl EntityTypeInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

impl EntityTypePatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read_among(body, Others { fixed: &FIXED, ..Others::default() })
    }

    pub fn is_empty(&self) -> bool {
        let Self { ttl, description, owner, labels } = self;
        ttl.is_none() && description.is_none() && owner.is_none() && labels.is_none()
    }
}

impl PurgeBagsInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

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

/// A page of entity types, ordered by their names.
#[derive(Debug, Serialize, ToSchema)]
pub struct EntityTypePage {
    pub entity_types: Vec<EntityType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_\\-]+$", required = false)]
    pub next_page_token: Option<String>,
}
