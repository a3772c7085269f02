//! Purge the bags of an entity type.

use liststore_contract::operations::purge_entity_type::{PurgeBagsInput, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::FeatureId;
use crate::metadata::jobs::Job;
use crate::service::{Caller, Purge, Service, ServiceError};

pub struct PurgeEntityType;

impl Operation for PurgeEntityType {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Purge;
    type Reply = Job;

    fn read(call: &Call<'_>) -> Result<Purge, Problem> {
        let id = FeatureId::of_bags(call.entity_type()?);
        let PurgeBagsInput { deleted_only, lists_per_second } = PurgeBagsInput::read(&call.body)?;
        Ok(Purge { id, version: None, deleted_only, lists_per_second })
    }

    async fn run(service: &Service, caller: &Caller, purge: Purge) -> Result<Job, ServiceError> {
        service.purge(caller, purge).await
    }

    fn reply(call: &Call<'_>, job: Job) -> HandlerResult {
        call.json(&reply::job(job))
    }
}
