//! The bodies of requests and replies about a server's log.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The configuration of a server's log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LogState {
    pub filter: String,
    /// Which requests are logged: `off`, `errors` or `all`.
    pub access: String,
}
