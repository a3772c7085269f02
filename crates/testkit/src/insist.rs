//! Calls of a metadata store that others share, on a busy machine.

use std::time::{Duration, Instant};

use liststore::metadata::MetadataError;

/// Repeats a call that certainly had no effect, with a bound: a store waits at most a second or two for a connection,
/// or for other changes of the same object.
pub async fn insist<T>(call: impl AsyncFn() -> Result<T, MetadataError>) -> Result<T, MetadataError> {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        match call().await {
            Err(error) if error.is_retryable() && !error.outcome_unknown() && Instant::now() < patience => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            reported => return reported,
        }
    }
}
