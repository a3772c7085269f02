//! Cancel a job.

use super::parts::{ANY, CREATION, JOB, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::ErrorCode;

pub static ROW: Row = Row {
    name: "cancel_job",
    summary: "Cancel a job",
    description: "Work that is already done is not undone.",
    group: Group::Lists,
    permission: Permission::ListsWrite,
    subject: Subject::Visible,
    effect: Effect::RepeatableWrite,
    method: Method::Post,
    path: "/v1/jobs/{job_id}/cancel",
    headers: CREATION,
    replies: &[JOB],
    errors: &[ANY, WRITE, &[ErrorCode::JobNotFound, ErrorCode::JobIsOver]],
    ..Row::DEFAULT
};
