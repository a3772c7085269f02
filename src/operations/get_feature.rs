//! Get a feature with its versions.

use liststore_contract::operations::get_feature::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::Feature;
use crate::domain::FeatureId;
use crate::service::{Caller, Service, ServiceError};

pub struct GetFeature;

impl Operation for GetFeature {
    const ROW: &'static Row = &ROW;
    type Request<'r> = FeatureId;
    type Reply = Feature;

    fn read(call: &Call<'_>) -> Result<FeatureId, Problem> {
        call.feature_id()
    }

    async fn run(service: &Service, caller: &Caller, id: FeatureId) -> Result<Feature, ServiceError> {
        service.feature(caller, id).await
    }

    fn reply(call: &Call<'_>, feature: Feature) -> HandlerResult {
        reply::feature(call.response(), &feature)
    }
}
