//! Calls of a metadata store that others share, on a busy machine.

use std::time::{Duration, Instant};

use liststore::metadata::MetadataError;

/// Repeats a call that was certainly not carried out, with a bound: a store waits for a connection, or for others who
/// change the same, for at most a second or two.
pub async fn insist<T>(call: impl AsyncFn() -> Result<T, MetadataError>) -> Result<T, MetadataError> {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        match call().await {
            Err(error) if error.is_retryable() && !error.outcome_unknown() && Instant::now() < patience => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            told => return told,
        }
    }
}
