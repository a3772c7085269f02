//! Delete List Feature.

use liststore_contract::operations::delete_feature::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::if_match;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::{FeatureId, Timestamp};
use crate::metadata::{Change, Precondition};
use crate::service::{Caller, Service, ServiceError};
use crate::wire::Deleted;

/// Delete a feature.
pub struct DeleteFeature {
    id: FeatureId,
    condition: Precondition,
}

impl Operation for DeleteFeature {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    /// When the last items are gone, about.
    type Reply = Timestamp;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let condition = if_match(call.headers)?;
        Ok(Self { id: call.feature_id()?, condition })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Timestamp, ServiceError> {
        let Self { id, condition } = request;
        service.delete(caller, Change::DeleteFeature { id, condition }).await
    }

    fn reply(call: &Call<'_>, items_expire_by: Timestamp) -> HandlerResult {
        call.json(&Deleted { items_expire_by: items_expire_by.to_string() })
    }
}
