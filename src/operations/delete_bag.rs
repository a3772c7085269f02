//! Delete the bag of an entity.

use liststore_contract::operations::delete_bag::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::bag_conditions;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::service::{BagConditions, Caller, EntityName, Service, ServiceError};

/// Delete the bag of an entity.
pub struct DeleteBag {
    entity: EntityName,
    conditions: BagConditions,
}

impl Operation for DeleteBag {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = ();

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self { entity: call.entity()?, conditions: bag_conditions(call.headers)? })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<(), ServiceError> {
        service.delete_bag(caller, request.entity, request.conditions).await
    }

    fn reply(call: &Call<'_>, _deleted: ()) -> HandlerResult {
        Ok(call.response())
    }
}
