//! Change an entity type.

use liststore_contract::operations::update_entity_type::{EntityTypePatch, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::if_match;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::Feature;
use crate::definition::GivenProperties;
use crate::domain::{EntityType, FeatureId};
use crate::metadata::{Change, FeaturePatch, Precondition};
use crate::service::{Caller, Service, ServiceError};

/// Change an entity type.
pub struct UpdateEntityType {
    entity_type: EntityType,
    patch: FeaturePatch,
    condition: Precondition,
}

impl Operation for UpdateEntityType {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Feature;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let condition = if_match(call.headers)?;
        let entity_type = call.entity_type()?;
        let EntityTypePatch { ttl, annotations } = EntityTypePatch::read(&call.body)?;
        let properties = GivenProperties { ttl, ..GivenProperties::default() };
        let patch = FeaturePatch { properties, annotations };
        Ok(Self { entity_type, patch, condition })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Feature, ServiceError> {
        let Self { entity_type, patch, condition } = request;
        let id = FeatureId::of_bags(entity_type);
        Ok(service.change(caller, Change::UpdateFeature { id, patch, condition }).await?.into_feature()?)
    }

    fn reply(call: &Call<'_>, changed: Feature) -> HandlerResult {
        reply::entity_type(call.response(), &changed)
    }
}
