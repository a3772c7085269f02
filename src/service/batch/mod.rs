//! Operations on many lists in one call: each list by the rules of the operation on one, all by one deadline.
//!
//! Whether the caller may at all is decided before anything else; whether they may for each feature, and
//! whether there is such a feature, is told for each request by itself. Everything is done in parts, between
//! which others on the thread have their turn.

mod add;
mod get;
mod versions;

pub(super) use get::{READS_AT_ONCE, Room};

use tokio::time::Instant;

use super::ServiceError;

/// Requests that are looked at before others on the thread have their turn: some tens of microseconds.
const TURN_REQUESTS: usize = 32;
/// Bytes of pages, or of values, after which the turn is over before.
const TURN_BYTES: usize = 128 << 10;

/// What is done before others on the thread have their turn.
#[derive(Default)]
struct Turn {
    requests: usize,
    bytes: usize,
}

impl Turn {
    /// Counts a request, and lets others have their turn if it is time.
    async fn count(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
        if self.requests >= TURN_REQUESTS || self.bytes >= TURN_BYTES {
            *self = Self::default();
            tokio::task::yield_now().await;
        }
    }
}

/// Refuses what is begun no more, since the call's deadline has passed.
pub(super) fn in_time(deadline: Instant) -> Result<(), ServiceError> {
    if Instant::now() < deadline { Ok(()) } else { Err(ServiceError::DeadlineExceeded { outcome_unknown: false }) }
}
