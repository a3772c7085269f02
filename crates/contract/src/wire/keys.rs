//! The bodies of requests and replies about API keys, and of the audit trail.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::texts;
use crate::domain::{self, Rate, Timestamp};

/// An API key, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Key {
    #[schema(value_type = texts::KeyIdText, inline)]
    pub id: String,
    #[schema(value_type = texts::KeyName, inline)]
    pub name: String,
    #[schema(value_type = Vec<texts::Role>)]
    pub roles: Vec<String>,
    #[schema(value_type = Vec<texts::Scope>)]
    pub scopes: Vec<String>,
    /// active, expired or revoked.
    pub state: String,
    #[schema(value_type = texts::Timestamp, inline)]
    pub created_at: String,
    pub created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub rotated_at: Option<String>,
    // Until when the secret before the last rotation holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub previous_secret_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub revoked_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    pub requests_per_second: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    pub requests_burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    pub items_per_second: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false)]
    pub items_burst: Option<u32>,
    /// For a single key: the active keys that it created, directly or through another key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<CreatedKey>, required = false)]
    pub created_keys: Vec<CreatedKey>,
    // To the hour, and some minutes late.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub last_used_at: Option<String>,
}

/// A key that another key created.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    #[schema(value_type = texts::KeyIdText, inline)]
    pub id: String,
    #[schema(value_type = texts::KeyName, inline)]
    pub name: String,
}

impl Key {
    /// A single key, with the keys that it created.
    pub fn with_created(key: &domain::ApiKey, created: &[domain::ApiKey], now: Timestamp) -> Self {
        let named = |key: &domain::ApiKey| CreatedKey { id: key.id.to_string(), name: key.name.to_string() };
        Self { created_keys: created.iter().map(named).collect(), ..Self::new(key, now) }
    }

    pub fn new(key: &domain::ApiKey, now: Timestamp) -> Self {
        let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let numbers = |rate: Option<Rate>| rate.map(|rate| (rate.per_second().get(), rate.burst().get())).unzip();
        let (requests_per_second, requests_burst) = numbers(key.limits.requests);
        let (items_per_second, items_burst) = numbers(key.limits.items);
        Self {
            id: key.id.to_string(),
            name: key.name.to_string(),
            roles: key.roles.iter().map(ToString::to_string).collect(),
            scopes: key.scopes.iter().map(ToString::to_string).collect(),
            state: key.state(now).as_str().to_owned(),
            created_at: key.created_at.to_string(),
            created_by: key.created_by.as_str().to_owned(),
            expires_at: moment(key.expires_at),
            rotated_at: moment(key.rotated_at),
            previous_secret_until: moment(key.previous.as_ref().map(|previous| previous.until)),
            revoked_at: moment(key.revoked_at),
            requests_per_second,
            requests_burst,
            items_per_second,
            items_burst,
            created_keys: Vec::new(),
            last_used_at: moment(key.last_used_at),
        }
    }
}

/// A key with its secret, which is shown only once.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct KeyMade {
    /// The token to send as `Authorization: Bearer ls_…`. It is not shown again.
    #[schema(pattern = "^ls_[0-9a-z]{12}_[0-9A-Za-z]{49}$")]
    pub token: String,
    pub key: Key,
}
