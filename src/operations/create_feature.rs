//! Create List Feature.

use actix_web::http::header::LOCATION;
use liststore_contract::operations::create_feature::{FeatureInput, ROW};
use liststore_contract::operations::get_feature;
use liststore_contract::row::Row;

use crate::access::{Resource, decide};
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::Feature;
use crate::definition::VersionProperties;
use crate::domain::FeatureId;
use crate::metadata::{Change, NewFeature};
use crate::service::{Caller, Service, ServiceError};
use crate::wire::Annotations;

pub struct CreateFeature;

impl Operation for CreateFeature {
    const ROW: &'static Row = &ROW;
    type Request<'r> = NewFeature;
    type Reply = Feature;

    fn read(call: &Call<'_>) -> Result<NewFeature, Problem> {
        let FeatureInput { entity_type, name, value_type, properties, annotations } = FeatureInput::read(&call.body)?;
        let Annotations { description, owner, labels } = annotations;
        let new = NewFeature {
            id: FeatureId { entity_type, name },
            value_type,
            properties: properties.inheriting(&VersionProperties::default()).map_err(Problem::from)?,
            description: description.unwrap_or_default(),
            owner: owner.unwrap_or_default(),
            labels: labels.unwrap_or_default(),
        };
        Ok(new)
    }

    async fn run(service: &Service, caller: &Caller, new: NewFeature) -> Result<Feature, ServiceError> {
        let FeatureId { entity_type, name } = &new.id;
        let resource = Resource::Feature { entity_type: entity_type.as_str(), feature: name.as_str() };
        decide(&caller.principal, ROW.permission, resource)?;
        Ok(service.change(caller, Change::CreateFeature(new)).await?.into_feature()?)
    }

    fn reply(call: &Call<'_>, feature: Feature) -> HandlerResult {
        let FeatureId { entity_type, name } = &feature.id;
        let path = get_feature::ROW.path_of(&[entity_type.as_str(), name.as_str()]);
        reply::feature(call.response().with_text(LOCATION, path)?, &feature)
    }
}
