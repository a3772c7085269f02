//! The bodies of operations on many lists in one call.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Aggregated, ItemPage, Problem, ProblemBody};

/// The most lists of one call.
pub const BATCH_LISTS_MAX: usize = 1_000;
/// The most items of all adds of one call.
pub const BATCH_ITEMS_MAX: usize = 10_000;

/// The requests of one call, in order. An invalid name, ID or timestamp is a problem of its request only.
pub type Requests<T> = Vec<Result<T, Problem>>;

/// A page of items, or the problem.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum PageResult {
    Page(ItemPage),
    Failed(RequestFailed),
}

/// The aggregates of a list, or the problem.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum AggregatedResult {
    Aggregates(Aggregated),
    Failed(RequestFailed),
}

/// The problem of one request of several.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RequestFailed {
    pub problem: ProblemBody,
}
