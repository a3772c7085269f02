//! Get a job.

use super::parts::{ANY, JOB};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "get_job",
    summary: "Get a job",
    group: Group::Lists,
    permission: Permission::FeaturesRead,
    subject: Subject::Visible,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/jobs/{job_id}",
    replies: &[JOB],
    errors: &[ANY, &[ErrorCode::JobNotFound]],
    ..Row::DEFAULT
};
