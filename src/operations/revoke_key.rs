//! Revoke an API key.

use liststore_contract::operations::revoke_key::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::flag;
use crate::domain::{ApiKey, KeyId};
use crate::service::{Caller, Service, ServiceError};
use crate::wire::Key;
use crate::wire::parameters::CREATED_KEYS;

/// Revoke an API key.
pub struct RevokeKey {
    id: KeyId,
    /// Whether the keys that it created are revoked, too.
    created_keys: bool,
}

impl Operation for RevokeKey {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    /// With the keys that it created, directly or through another key, without revoked ones.
    type Reply = (ApiKey, Vec<ApiKey>);

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let [created_keys] = call.query(&QUERY)?;
        Ok(Self { created_keys: flag(&CREATED_KEYS, created_keys.as_deref())?, id: call.key_id()? })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Self::Reply, ServiceError> {
        service.revoke_key(caller, request.id, request.created_keys).await
    }

    fn reply(call: &Call<'_>, (key, created): Self::Reply) -> HandlerResult {
        call.json(&Key::with_created(&key, &created, call.state.clock.now()))
    }
}
