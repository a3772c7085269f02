//! List jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, json};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, Parameter};
use crate::wire::{ErrorCode, Job, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [PAGE_SIZE, PAGE_TOKEN];

pub static ROW: Row = Row {
    name: "list_jobs",
    summary: "List jobs",
    description: "Newest first. Of finished jobs, the last 1,000 are listed.",
    group: Group::Lists,
    permission: Permission::FeaturesRead,
    subject: Subject::Visible,
    effect: Effect::Read,
    method: Method::Get,
    path: "/v1/jobs",
    query: &QUERY,
    replies: &[json(200, "A page of jobs.", Type::of::<JobPage>())],
    errors: &[ANY, &[ErrorCode::InvalidPageToken]],
    ..Row::DEFAULT
};

/// A page of jobs, the newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    pub jobs: Vec<Job>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub next_page_token: Option<String>,
}
