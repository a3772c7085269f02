//! Cancel a job.

use liststore_contract::operations::cancel_job::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::background::Command;
use crate::domain::JobId;
use crate::metadata::jobs::Job;
use crate::service::{Caller, Service, ServiceError};

pub struct CancelJob;

impl Operation for CancelJob {
    const ROW: &'static Row = &ROW;
    type Request<'r> = JobId;
    type Reply = Job;

    fn read(call: &Call<'_>) -> Result<JobId, Problem> {
        call.job_id()
    }

    async fn run(service: &Service, caller: &Caller, id: JobId) -> Result<Job, ServiceError> {
        service.command_job(caller, id, Command::Cancel).await
    }

    fn reply(call: &Call<'_>, job: Job) -> HandlerResult {
        call.json(&reply::job(job))
    }
}
