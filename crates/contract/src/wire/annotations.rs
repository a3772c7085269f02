//! What people note about a definition, without effect on its lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Problem, body, texts};
use crate::domain::{Description, Labels, Owner};

/// The annotations that a request names. A change leaves the others as they are.
// They stand next to other members, which are ignored here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Annotations {
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

impl Annotations {
    pub(crate) const NAMES: &[&str] = &["description", "owner", "labels"];

    /// All annotations of a definition.
    pub fn all(description: Description, owner: Owner, labels: Labels) -> Self {
        Self { description: Some(description), owner: Some(owner), labels: Some(labels) }
    }

    /// Reads them from a body whose other members are read apart.
    pub(crate) fn of(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
