//! Get an entity type.

use liststore_contract::operations::get_entity_type::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::Feature;
use crate::domain::{EntityType, FeatureId};
use crate::service::{Caller, Service, ServiceError};

pub struct GetEntityType;

impl Operation for GetEntityType {
    const ROW: &'static Row = &ROW;
    type Request<'r> = EntityType;
    type Reply = Feature;

    fn read(call: &Call<'_>) -> Result<EntityType, Problem> {
        call.entity_type()
    }

    async fn run(service: &Service, caller: &Caller, entity_type: EntityType) -> Result<Feature, ServiceError> {
        service.feature(caller, FeatureId::of_bags(entity_type)).await
    }

    fn reply(call: &Call<'_>, found: Feature) -> HandlerResult {
        reply::entity_type(call.response(), &found)
    }
}
