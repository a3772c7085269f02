//! The bodies of requests and replies about API keys, and of the audit trail.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::members::{set, whole};
use super::{Problem, body, texts};
use crate::domain::{self, KeyName, Rate, RateLimits, Role, Scope, Timestamp, Ttl};

/// The definition of a new API key.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "feed", "roles": ["writer"], "scopes": ["user.*"], "expires": "90d"}))]
#[serde(deny_unknown_fields)]
pub struct KeyInput {
    #[schema(value_type = texts::KeyName, inline)]
    pub name: KeyName,
    #[serde(deserialize_with = "set")]
    #[schema(value_type = Vec<texts::Role>, min_items = 1, max_items = 100)]
    pub roles: Vec<Role>,
    /// If absent, the key applies to all features and to operations that concern all of them.
    #[serde(default = "all_features", deserialize_with = "set", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<texts::Scope>, min_items = 1, max_items = 100, required = false)]
    pub scopes: Vec<Scope>,
    // How long the key is valid; permanently if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub expires: Option<Ttl>,
    /// If absent, the limit of the settings applies.
    #[serde(default, deserialize_with = "whole::<RATE_MAX, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000_000, value_type = u32, required = false)]
    pub requests_per_second: Option<u32>,
    /// Burst after an idle time; default: the rate of one second.
    #[serde(default, deserialize_with = "whole::<RATE_MAX, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000_000, value_type = u32, required = false)]
    pub requests_burst: Option<u32>,
    /// Items read and added. A list operation counts as at least one item.
    #[serde(default, deserialize_with = "whole::<RATE_MAX, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000_000, value_type = u32, required = false)]
    pub items_per_second: Option<u32>,
    #[serde(default, deserialize_with = "whole::<RATE_MAX, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000_000, value_type = u32, required = false)]
    pub items_burst: Option<u32>,
}

/// How to rotate a key.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"overlap": "12h"}))]
#[serde(deny_unknown_fields)]
pub struct KeyRotation {
    // How long the present secret holds yet; 1d if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub overlap: Option<Ttl>,
    // How long the key holds from now on; as before if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub expires: Option<Ttl>,
}

const RATE_MAX: u64 = Rate::MAX as u64;

fn all_features() -> Vec<Scope> {
    vec![Scope::all()]
}

impl KeyInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }

    /// The limits that its fields make up.
    pub fn limits(&self) -> Result<RateLimits, Problem> {
        let requests = rate(["requests_per_second", "requests_burst"], self.requests_per_second, self.requests_burst)?;
        let items = rate(["items_per_second", "items_burst"], self.items_per_second, self.items_burst)?;
        Ok(RateLimits { requests, items })
    }
}

fn rate(fields: [&'static str; 2], per_second: Option<u32>, burst: Option<u32>) -> Result<Option<Rate>, Problem> {
    match (per_second, burst) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Problem::argument(fields[1], format!("{} is for {}", fields[1], fields[0]))),
        (Some(per_second), burst) => {
            let rate = Rate::new(per_second, burst);
            let blamed = if Rate::new(per_second, None).is_err() { fields[0] } else { fields[1] };
            rate.map(Some).map_err(|invalid| Problem::from(invalid).at(blamed))
        }
    }
}

impl KeyRotation {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

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

/// The caller's identity and permissions.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "key:feed", "kind": "known", "permissions": {"lists:read": ["user.*"]}}))]
pub struct Me {
    /// The name in the audit trail: `key:` and the name of an API key, `local`, or `anonymous`.
    pub name: String,
    pub kind: PrincipalKind,
    /// The permissions, such as `lists:read`, with the features they apply to; `*` means all.
    pub permissions: BTreeMap<String, Vec<String>>,
}

/// Ways to sign in to the console other than with an API key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct SignIn {
    pub providers: Vec<IdentityProvider>,
}

/// An identity provider with a public client for the console (OpenID Connect, authorization code with PKCE).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct IdentityProvider {
    /// The issuer URL. Its metadata is at `/.well-known/openid-configuration` below it.
    pub issuer: String,
    /// The display name, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub label: Option<String>,
    pub client_id: String,
    /// Scopes, separated by spaces.
    pub scope: String,
    /// Which of its tokens this server accepts: access_token or id_token.
    pub token: String,
}

/// How a caller was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// Not identified: the server is open.
    Anonymous,
    /// By the socket in the server's data directory.
    Local,
    /// By credentials such as an API key.
    Known,
}

/// A key with its secret, which is shown only once.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct KeyMade {
    /// The token to send as `Authorization: Bearer ls_…`. It is not shown again.
    #[schema(pattern = "^ls_[0-9a-z]{12}_[0-9A-Za-z]{49}$")]
    pub token: String,
    pub key: Key,
}

/// A page of keys, by name.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyPage {
    pub keys: Vec<Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub next_page_token: Option<String>,
}

/// A change of a definition, a key or a server, an erasure, or a refusal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Audited {
    #[schema(value_type = texts::Timestamp, inline)]
    pub at: String,
    /// `key:` and a key's name, or `local`. On an open server, the name that the caller sent, or `anonymous`.
    pub by: String,
    /// The user that the caller named, which is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub on_behalf_of: Option<String>,
    pub action: String,
    /// `user.story_presented`, `key:feed`, `entity:user/u-123`, or a part of a server such as `pool`. For refusals
    /// (`refuse`), the name of the operation.
    pub target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Label, inline, required = false)]
    pub version: Option<String>,
    /// The index of a change of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub index: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub before: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub after: Option<serde_json::Value>,
}

/// A page of the audit trail, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    pub changes: Vec<Audited>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub next_page_token: Option<String>,
}
