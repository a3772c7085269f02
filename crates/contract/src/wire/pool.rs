//! The bodies of requests and replies about the pool of list actors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
