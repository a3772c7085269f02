//! Get an index and its build progress.

use liststore_contract::operations::get_index::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::{EntityType, VersionLabel};
use crate::metadata::MetadataError;
use crate::service::{Caller, IndexView, Service, ServiceError};

/// Get an index and its build progress.
pub struct GetIndex {
    entity_type: EntityType,
    name: VersionLabel,
}

impl Operation for GetIndex {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = IndexView;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self { entity_type: call.entity_type()?, name: call.index_name()? })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<IndexView, ServiceError> {
        let Self { entity_type, name } = request;
        let found = service.indexes(caller, entity_type.clone()).await?;
        let found = found.into_iter().find(|index| index.name == name);
        let missing = || MetadataError::IndexNotFound(entity_type, name);
        Ok(found.ok_or_else(missing)?)
    }

    fn reply(call: &Call<'_>, index: IndexView) -> HandlerResult {
        reply::index(call.response(), &index)
    }
}
