//! List jobs.

use std::borrow::Cow;
use std::cmp::Reverse;

use liststore_contract::operations::list_jobs::{JobPage, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::domain::Limit;
use crate::domain::page::JobWalk;
use crate::metadata::jobs::{Job, TaskKind};
use crate::service::{Caller, Changes, Listed, Service, ServiceError, end_early, json_bytes, may, within};

/// The jobs of features that the caller may see, the newest first.
pub struct ListJobs<'r> {
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListJobs<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListJobs<'r>;
    type Reply = Listed<Job>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListJobs<'r>, Problem> {
        let [size, page_token] = call.query(&QUERY)?;
        Ok(ListJobs { page_size: page_size(size.as_deref())?, page_token })
    }

    async fn run(service: &Service, caller: &Caller, request: ListJobs<'_>) -> Result<Listed<Job>, ServiceError> {
        let ListJobs { page_size, page_token } = request;
        let after = page_token.map(|token| JobWalk.resume(&token)).transpose();
        let after = after.map_err(ServiceError::invalid("page_token"))?;
        let mut jobs = within(caller, Changes::Nothing, service.jobs.all()).await?;
        jobs.retain(|job| after.is_none_or(|after| job.id < after));
        jobs.retain(|job| may(caller, ROW.permission, job).is_ok());
        jobs.sort_by_key(|job| Reverse(job.id));
        let mut more = jobs.len() > page_size.get();
        jobs.truncate(page_size.get());
        more |= end_early(&mut jobs, service.options.page_bytes_max, bytes_of);
        let next_page_token = jobs.last().filter(|_| more).map(|job| JobWalk.token_after(job.id));
        Ok((jobs, next_page_token))
    }

    fn reply(call: &Call<'_>, (jobs, next_page_token): Listed<Job>) -> HandlerResult {
        let jobs = jobs.into_iter().map(reply::job).collect();
        call.json(&JobPage { jobs, next_page_token: reply::text(next_page_token) })
    }
}

/// The length of a job as JSON, about, and rather more than less.
fn bytes_of(job: &Job) -> usize {
    /// Of all that has a bound: names of members, numbers, and names of the entity type and the feature.
    const BOUNDED_BYTES: usize = 1 << 10;
    let indexes = match job.task.kind {
        TaskKind::Purge => 0,
        _ => job.task.targets.iter().map(|target| json_bytes(&target.version.as_str()) + 1).sum(),
    };
    BOUNDED_BYTES + indexes + json_bytes(&job.problem) + json_bytes(&job.created_by.as_str())
}
