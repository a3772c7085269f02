//! Change the rate of a job.

use std::num::NonZeroU32;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, JOB, WRITE};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::members::{LISTS_PER_SECOND_MAX, whole_or_null};
use crate::wire::{ErrorCode, Problem, Type, body};

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

/// Changes of a job.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"lists_per_second": 500}))]
#[serde(deny_unknown_fields)]
pub struct JobPatch {
    /// Maximum number of lists to clear, or of bags and entries to check, per second; `null` for no limit.
    #[serde(deserialize_with = "lists_per_second_or_null")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000, required = true)]
    pub lists_per_second: Option<NonZeroU32>,
}

fn lists_per_second_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    let lists: Option<u32> = whole_or_null::<LISTS_PER_SECOND_MAX, _, _>(deserializer)?;
    Ok(lists.and_then(NonZeroU32::new))
}

impl JobPatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}
