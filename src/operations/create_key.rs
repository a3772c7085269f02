//! Create an API key.

use actix_web::http::header::LOCATION;
use liststore_contract::operations::create_key::{KeyInput, ROW};
use liststore_contract::operations::get_key;
use liststore_contract::row::Row;

use crate::access::token::Secret;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::{ApiKey, KeyName, RateLimits, Role, Scope, Ttl};
use crate::metadata::keys::KeyChange;
use crate::service::{Caller, Changes, Service, ServiceError, within};

/// Create an API key.
pub struct CreateKey {
    name: KeyName,
    roles: Vec<Role>,
    scopes: Vec<Scope>,
    limits: RateLimits,
    /// How long it is valid. Permanently if `None`.
    lifetime: Option<Ttl>,
}

impl Operation for CreateKey {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = (ApiKey, Secret);

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let input = KeyInput::read(&call.body)?;
        let limits = input.limits()?;
        let KeyInput { name, roles, scopes, expires, .. } = input;
        Ok(Self { name, roles, scopes, limits, lifetime: expires })
    }

    async fn run(service: &Service, caller: &Caller, new: Self) -> Result<(ApiKey, Secret), ServiceError> {
        let secret = Secret::generate()?;
        let Self { name, roles, scopes, limits, lifetime } = new;
        let lifetime = match service.lifetime_max(caller, lifetime)? {
            Some(longest) => Some(lifetime.unwrap_or(longest)),
            None => lifetime,
        };
        let expires_at = lifetime.map(|lifetime| service.after(lifetime));
        let change = KeyChange::Create { id: secret.id, hash: secret.hash(), name, roles, scopes, limits, expires_at };
        let changed = service.metadata.change_key(change, caller.author());
        let key = within(caller, Changes::Definitions, changed).await?;
        Ok((key, secret))
    }

    fn reply(call: &Call<'_>, (key, secret): (ApiKey, Secret)) -> HandlerResult {
        let response = call.response().with_text(LOCATION, get_key::ROW.path_of(&[key.id.as_str()]))?;
        reply::key_made(call, response, &key, &secret)
    }
}
