//! Create an API key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, WRITE, json};
use crate::domain::{KeyName, Rate, RateLimits, Role, Scope, Ttl};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::members::{set, whole};
use crate::wire::{ErrorCode, KeyMade, Problem, Type, body, texts};

pub static ROW: Row = Row {
    name: "create_key",
    summary: "Create an API key",
    description: "The response has the key's token, which is not shown again. After the first key is created, \
                  servers with the `access.mode` `auto` require one. If the caller's key, token or certificate \
                  expires, the new key must expire within `access.keys.lifetime_max_secs`. A longer `expires` is \
                  refused. The default is this maximum.",
    group: Group::Access,
    permission: Permission::KeysWrite,
    subject: Subject::Server,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/keys",
    headers: CREATION,
    request: Some(Type::of::<KeyInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The key's path.")],
        ..json(201, "Created.", Type::of::<KeyMade>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::KeyExists, ErrorCode::TooManyKeys, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};

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
