//! Get a job.

use liststore_contract::operations::get_job::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::JobId;
use crate::metadata::jobs::Job;
use crate::service::{Caller, Service, ServiceError};

pub struct GetJob;

impl Operation for GetJob {
    const ROW: &'static Row = &ROW;
    type Request<'r> = JobId;
    type Reply = Job;

    fn read(call: &Call<'_>) -> Result<JobId, Problem> {
        call.job_id()
    }

    async fn run(service: &Service, caller: &Caller, id: JobId) -> Result<Job, ServiceError> {
        service.job_in_sight(caller, id).await
    }

    fn reply(call: &Call<'_>, job: Job) -> HandlerResult {
        call.json(&reply::job(job))
    }
}
