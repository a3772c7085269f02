//! Get an API key.

use liststore_contract::operations::get_key::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::{ApiKey, KeyId};
use crate::metadata::MetadataError;
use crate::metadata::keys::lineage::created_by;
use crate::service::{Caller, Changes, Service, ServiceError, within};
use crate::wire::Key;

pub struct GetKey;

impl Operation for GetKey {
    const ROW: &'static Row = &ROW;
    type Request<'r> = KeyId;
    /// With the keys that it created, directly or through another key, without revoked ones.
    type Reply = (ApiKey, Vec<ApiKey>);

    fn read(call: &Call<'_>) -> Result<KeyId, Problem> {
        call.key_id()
    }

    async fn run(service: &Service, caller: &Caller, id: KeyId) -> Result<Self::Reply, ServiceError> {
        let keys = within(caller, Changes::Nothing, service.metadata.keys()).await?;
        let created = created_by(id, &keys);
        let key = keys.into_iter().find(|key| key.id == id).ok_or(MetadataError::KeyNotFound(id))?;
        Ok((key, created))
    }

    fn reply(call: &Call<'_>, (key, created): Self::Reply) -> HandlerResult {
        call.json(&Key::with_created(&key, &created, call.state.clock.now()))
    }
}
