//! Change a feature.

use liststore_contract::operations::update_feature::{FeaturePatch, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::if_match;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::Feature;
use crate::domain::FeatureId;
use crate::metadata::{self, Change, Precondition};
use crate::service::{Caller, Service, ServiceError};

/// Change a feature.
pub struct UpdateFeature {
    id: FeatureId,
    patch: metadata::FeaturePatch,
    condition: Precondition,
}

impl Operation for UpdateFeature {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Feature;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let condition = if_match(call.headers)?;
        let id = call.feature_id()?;
        let patch = FeaturePatch::read(&call.body)?;
        Ok(Self { id, patch, condition })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Feature, ServiceError> {
        let Self { id, patch, condition } = request;
        Ok(service.change(caller, Change::UpdateFeature { id, patch, condition }).await?.into_feature()?)
    }

    fn reply(call: &Call<'_>, feature: Feature) -> HandlerResult {
        reply::feature(call.response(), &feature)
    }
}
