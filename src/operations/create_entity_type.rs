//! Create an entity type.

use actix_web::http::header::LOCATION;
use liststore_contract::operations::create_entity_type::{EntityTypeInput, ROW};
use liststore_contract::operations::get_entity_type;
use liststore_contract::row::Row;

use crate::access::{Resource, decide};
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::Feature;
use crate::metadata::{Change, NewFeature};
use crate::service::{Caller, Service, ServiceError};
use crate::wire::Annotations;

pub struct CreateEntityType;

impl Operation for CreateEntityType {
    const ROW: &'static Row = &ROW;
    type Request<'r> = NewFeature;
    type Reply = Feature;

    fn read(call: &Call<'_>) -> Result<NewFeature, Problem> {
        let EntityTypeInput { entity_type, ttl, annotations } = EntityTypeInput::read(&call.body)?;
        let Annotations { description, owner, labels } = annotations;
        let new = NewFeature {
            description: description.unwrap_or_default(),
            owner: owner.unwrap_or_default(),
            labels: labels.unwrap_or_default(),
            ..NewFeature::of_bags(entity_type, ttl)
        };
        Ok(new)
    }

    async fn run(service: &Service, caller: &Caller, new: NewFeature) -> Result<Feature, ServiceError> {
        decide(&caller.principal, ROW.permission, Resource::EntityType(new.id.entity_type.as_str()))?;
        Ok(service.change(caller, Change::CreateFeature(new)).await?.into_feature()?)
    }

    fn reply(call: &Call<'_>, created: Feature) -> HandlerResult {
        let path = get_entity_type::ROW.path_of(&[created.id.entity_type.as_str()]);
        reply::entity_type(call.response().with_text(LOCATION, path)?, &created)
    }
}
