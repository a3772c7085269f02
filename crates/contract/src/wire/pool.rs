//! The bodies of requests and replies about the pool of list actors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::members::whole;
use super::{Problem, body};

/// The new size of the pool. Absent fields remain unchanged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"actors": 4}))]
#[serde(deny_unknown_fields)]
pub struct PoolInput {
    /// List actors, each with one thread and one session with the item store.
    #[serde(default, deserialize_with = "whole::<1_024, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, minimum = 1, maximum = 1024, required = false)]
    pub actors: Option<usize>,
    /// Maximum number of operations in flight per actor; with a CQL cluster, of unfinished requests per session.
    #[serde(default, deserialize_with = "whole::<1_000_000, _, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, minimum = 1, maximum = 1_000_000, required = false)]
    pub permits_per_actor: Option<usize>,
}

impl PoolInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let input: Self = body::read(body)?;
        if input.actors.is_none() && input.permits_per_actor.is_none() {
            let detail = "send actors, permits_per_actor, or both";
            return Err(Problem::argument("actors", detail));
        }
        Ok(input)
    }
}

/// A server's pool of list actors.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    pub actors: usize,
    pub permits_per_actor: usize,
    pub permits: PoolPermits,
    /// The state of each actor: `starting`, `live`, `replacing`, `failed` or `stopped`.
    pub states: Vec<String>,
    /// During a resize: the target number of actors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    pub resizing_to: Option<usize>,
}

/// The permits of all actors together.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolPermits {
    /// The upper bound.
    pub bound: usize,
    /// The current limit. With a CQL cluster, it follows the cluster's latency.
    pub limit: usize,
    pub in_use: usize,
    /// Operations waiting for a permit.
    pub waiting: usize,
}
