//! How jobs do their work on lists: at a pace, and again until it is done.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::hold::{Held, Lost, SAVE_INTERVAL};
use crate::actors::ListError;
use crate::items::StoreError;

/// The first backoff after a failure. It doubles with each attempt.
pub(super) const RETRY_MIN: Duration = Duration::from_millis(500);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(2);

/// Tries until it succeeds, each time with a deadline. Between attempts, the job shows the reason of the wait. Work
/// that ends after the job was lost is returned, so that it counts: the next state of the job is refused.
pub(super) async fn insist<T>(
    held: &mut Held<'_>,
    work: impl AsyncFn(Instant) -> Result<T, ListError>,
) -> Result<T, Lost> {
    let (mut delay, mut failing_since) = (RETRY_MIN, None);
    loop {
        held.save_if_due().await?;
        let mut working = pin!(work(held.deadline()));
        let worked = loop {
            tokio::select! {
                worked = &mut working => break worked,
                () = sleep(SAVE_INTERVAL) => if held.save_if_due().await.is_err() {
                    // The operation ends by its deadline, and counts.
                    break working.await;
                },
            }
        };
        match worked {
            Ok(done) => {
                // If the job is lost here, the caller notices it when it counts the work.
                if !held.is_lost() {
                    let _noticed_later = held.problem(None).await;
                }
                return Ok(done);
            }
            Err(_) if held.is_lost() => return Err(Lost),
            Err(error) => {
                tracing::warn!(job = %held.job.id, %error, "job blocked: retrying");
                held.problem(Some(problem_of(&error))).await?;
                held.make_way(*failing_since.get_or_insert_with(Instant::now)).await?;
                sleep(delay).await;
                delay = (2 * delay).min(RETRY_MAX);
            }
        }
    }
}

/// Why a job does not progress, for every caller that may see it. The store's own text is for the log.
fn problem_of(error: &ListError) -> String {
    let why = match error {
        ListError::Store(StoreError::Unavailable { .. }) | ListError::NoSession { .. } => "unavailable",
        ListError::Store(StoreError::Timeout { .. }) | ListError::DeadlineExceeded { .. } => "timed out",
        ListError::Store(StoreError::Overloaded { .. }) | ListError::Overloaded | ListError::Limited(_) => "overloaded",
        _ => "it fails",
    };
    format!("the item store failed the next step ({why}; see the log): retrying, other jobs run first")
}

/// Waits until `count` steps, begun at a moment, have used their share of a second.
pub(super) async fn pause(count: usize, pace: Option<u32>, began: Instant) {
    if let Some(rate) = pace {
        sleep(Duration::from_secs_f64(count as f64 / f64::from(rate)).saturating_sub(began.elapsed())).await;
    }
}
