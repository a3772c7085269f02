//! Rotate an API key.

use liststore_contract::operations::rotate_key::{KeyRotation, ROW};
use liststore_contract::row::Row;

use crate::access::token::Secret;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::{ApiKey, KeyId, Ttl};
use crate::metadata::keys::KeyChange;
use crate::service::{Caller, Changes, Service, ServiceError, within};

/// Give an API key another secret.
pub struct RotateKey {
    id: KeyId,
    /// How long the present secret stays valid.
    overlap: Ttl,
    /// How long the key is valid from now on. As before if there is none.
    lifetime: Option<Ttl>,
}

impl Operation for RotateKey {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = (ApiKey, Secret);

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let id = call.key_id()?;
        let KeyRotation { overlap, expires } = KeyRotation::read(&call.body)?;
        Ok(Self { id, overlap: overlap.unwrap_or(Ttl::DAY), lifetime: expires })
    }

    async fn run(service: &Service, caller: &Caller, rotation: Self) -> Result<(ApiKey, Secret), ServiceError> {
        let Self { id, overlap, lifetime } = rotation;
        let secret = Secret::generate_for(id)?;
        let expires_by = service.lifetime_max(caller, lifetime)?.map(|longest| service.after(longest));
        let expires_at = lifetime.map(|lifetime| service.after(lifetime));
        let (hash, previous_until) = (secret.hash(), service.after(overlap));
        let change = KeyChange::Rotate { id, hash, previous_until, expires_at, expires_by };
        let changed = service.metadata.change_key(change, caller.author());
        let key = within(caller, Changes::Definitions, changed).await?;
        Ok((key, secret))
    }

    fn reply(call: &Call<'_>, (key, secret): (ApiKey, Secret)) -> HandlerResult {
        reply::key_made(call, call.response(), &key, &secret)
    }
}
