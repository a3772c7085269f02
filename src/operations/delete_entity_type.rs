//! Delete an entity type.

use liststore_contract::operations::delete_entity_type::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::if_match;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::{EntityType, FeatureId, Timestamp};
use crate::metadata::{Change, Precondition};
use crate::service::{Caller, Service, ServiceError};
use crate::wire::Deleted;

/// Delete an entity type.
pub struct DeleteEntityType {
    entity_type: EntityType,
    condition: Precondition,
}

impl Operation for DeleteEntityType {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    /// When the last bags are gone, about.
    type Reply = Timestamp;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let condition = if_match(call.headers)?;
        Ok(Self { entity_type: call.entity_type()?, condition })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Timestamp, ServiceError> {
        let Self { entity_type, condition } = request;
        service.delete(caller, Change::DeleteFeature { id: FeatureId::of_bags(entity_type), condition }).await
    }

    fn reply(call: &Call<'_>, items_expire_by: Timestamp) -> HandlerResult {
        call.json(&Deleted { items_expire_by: items_expire_by.to_string() })
    }
}
