//! The bodies of requests and replies about API keys, and of the audit trail.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::object::Object;
use super::{Problem, text, texts};
use crate::domain::{self, KeyName, Role, Scope, Timestamp, Ttl};

/// What an API key is created from.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"name": "feed", "roles": ["writer"], "scopes": ["user.*"], "expires": "90d"}))]
#[serde(deny_unknown_fields)]
pub struct KeyInput {
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::KeyName, inline)]
    pub name: KeyName,
    /// reader, writer, editor, operator or admin.
    #[serde(serialize_with = "text::serialize_all")]
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 100)]
    pub roles: Vec<Role>,
    /// Left out, it is for all features, and for what concerns all of them.
    #[serde(serialize_with = "text::serialize_all", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 100, required = false)]
    pub scopes: Vec<Scope>,
    // How long the key holds; for ever if it is left out.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub expires: Option<Ttl>,
}

/// How a key is to be rotated.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({"overlap": "12h"}))]
#[serde(deny_unknown_fields)]
pub struct KeyRotation {
    // How long the present secret holds yet; 1d if it is left out.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub overlap: Option<Ttl>,
    // How long the key holds from now on; as before if it is left out.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub expires: Option<Ttl>,
}

impl KeyInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["name", "roles", "scopes", "expires"], &[])?;
        let roles = object.optional_set("roles", Role::parse)?;
        Ok(Self {
            name: object.required("name", KeyName::new)?,
            roles: roles.ok_or_else(|| Problem::argument("roles", "roles is missing"))?,
            scopes: object.optional_set("scopes", Scope::parse)?.unwrap_or_else(|| vec![Scope::all()]),
            expires: object.optional("expires", Ttl::parse)?,
        })
    }
}

impl KeyRotation {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["overlap", "expires"], &[])?;
        Ok(Self { overlap: object.optional("overlap", Ttl::parse)?, expires: object.optional("expires", Ttl::parse)? })
    }
}

/// An API key, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Key {
    #[schema(value_type = texts::KeyIdText, inline)]
    pub id: String,
    #[schema(value_type = texts::KeyName, inline)]
    pub name: String,
    pub roles: Vec<String>,
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
    // To the hour, and some minutes late.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Timestamp, inline, required = false)]
    pub last_used_at: Option<String>,
}

impl Key {
    pub fn new(key: &domain::ApiKey, now: Timestamp) -> Self {
        let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
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
            last_used_at: moment(key.last_used_at),
        }
    }
}

/// Who asks, and what they may do.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "key:feed", "kind": "known", "permissions": {"lists:read": ["user.*"]}}))]
pub struct Me {
    /// As the audit trail has it: `key:` and the name of an API key, `local`, or `anonymous`.
    pub name: String,
    pub kind: PrincipalKind,
    /// What is allowed, such as `lists:read`, with the features that it is allowed for: `*` stands for all.
    pub permissions: BTreeMap<String, Vec<String>>,
}

/// What somebody is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// By nothing: the server is open.
    Anonymous,
    /// By the socket in the server's data directory.
    Local,
    /// By what they have shown, such as an API key.
    Known,
}

/// A key with its secret, which is shown this once.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct KeyMade {
    /// What the service is to send: `Authorization: Bearer ls_…`. Nobody can show it again.
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

/// A change of a definition or a key.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Audited {
    #[schema(value_type = texts::Timestamp, inline)]
    pub at: String,
    /// `key:` and a key's name, `local`, or, of an open server, whoever the caller said.
    pub by: String,
    /// For whom, as the caller said and nobody checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub on_behalf_of: Option<String>,
    pub action: String,
    /// `user.story_presented`, or `key:feed`.
    pub target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Label, inline, required = false)]
    pub version: Option<String>,
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
