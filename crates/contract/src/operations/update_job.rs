//! Change the rate of a job.

use super::parts::{ANY, BODY, CREATION, JOB, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::{ErrorCode, JobPatch, Type};

pub static ROW: Row = Row {
    name: "update_job",
    summary: "Change the rate of a job",
    description: "The job continues at the new rate within seconds.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Visible,
    effect: Effect::RepeatableWrite,
    method: Method::Patch,
    path: "/v1/jobs/{job_id}",
    headers: CREATION,
    request: Some(Type::of::<JobPatch>()),
    replies: &[JOB],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::JobNotFound, ErrorCode::JobIsOver]],
    ..Row::DEFAULT
};
