//! Reads requests about purges and jobs.

use liststore_contract::operations::list_jobs;

use super::call::{Call, HandlerResult};
use super::features::limit;
use super::problem::Problem;
use crate::background::Command;
use crate::domain::JobId;
use crate::service::{Operation, PurgeFeature};
use crate::wire::{JobPatch, PurgeInput};

pub(crate) async fn purge_feature(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let id = call.feature_id()?;
    let PurgeInput { version, deleted_only, lists_per_second } = PurgeInput::read(&call.body().await?)?;
    let request = PurgeFeature { id, version, deleted_only, lists_per_second };
    call.execute(&caller, Operation::PurgeFeature(request)).await
}

pub(crate) async fn list_jobs(call: Call<'_>) -> HandlerResult {
    let [page_size, page_token] = call.query(&list_jobs::QUERY)?;
    let caller = call.caller()?;
    let (page_size, page_token) = (limit(page_size.as_deref())?, page_token.map(Into::into));
    call.execute(&caller, Operation::ListJobs { page_size, page_token }).await
}

pub(crate) async fn get_job(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetJob(job_id(&call)?)).await
}

pub(crate) async fn update_job(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let id = job_id(&call)?;
    let JobPatch { lists_per_second } = JobPatch::read(&call.body().await?)?;
    call.execute(&caller, Operation::CommandJob { id, command: Command::Rate(lists_per_second) }).await
}

pub(crate) async fn command_job(call: Call<'_>, command: Command) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::CommandJob { id: job_id(&call)?, command }).await
}

fn job_id(call: &Call<'_>) -> Result<JobId, Problem> {
    JobId::parse(&call.segments[0]).map_err(|invalid| Problem::from(invalid).at("job_id"))
}
