//! Purge a feature.

use liststore_contract::operations::purge_feature::{PurgeInput, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::metadata::jobs::Job;
use crate::service::{Caller, Purge, Service, ServiceError};

pub struct PurgeFeature;

impl Operation for PurgeFeature {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Purge;
    type Reply = Job;

    fn read(call: &Call<'_>) -> Result<Purge, Problem> {
        let id = call.feature_id()?;
        let PurgeInput { version, deleted_only, lists_per_second } = PurgeInput::read(&call.body)?;
        Ok(Purge { id, version, deleted_only, lists_per_second })
    }

    async fn run(service: &Service, caller: &Caller, purge: Purge) -> Result<Job, ServiceError> {
        service.purge(caller, purge).await
    }

    fn reply(call: &Call<'_>, job: Job) -> HandlerResult {
        call.json(&reply::job(job))
    }
}
