//! Change the rate of a job.

use liststore_contract::operations::update_job::{JobPatch, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::background::Command;
use crate::domain::JobId;
use crate::metadata::jobs::Job;
use crate::service::{Caller, Service, ServiceError};

/// Change the rate of a job.
pub struct UpdateJob {
    id: JobId,
    command: Command,
}

impl Operation for UpdateJob {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Job;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let id = call.job_id()?;
        let JobPatch { lists_per_second } = JobPatch::read(&call.body)?;
        Ok(Self { id, command: Command::Rate(lists_per_second) })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Job, ServiceError> {
        service.command_job(caller, request.id, request.command).await
    }

    fn reply(call: &Call<'_>, job: Job) -> HandlerResult {
        call.json(&reply::job(job))
    }
}
