//! Marks an index as ready, in one change with the state of the job that entered its bags.

use std::time::Duration;

use tokio::time::sleep;

use super::hold::{Held, Lost};
use super::jobs::Jobs;
use crate::definition::{Feature, FeatureVersion};
use crate::metadata::jobs::{JobState, Target};
use crate::metadata::{Change, MetadataError};

/// How long a job waits before it reads definitions again.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The outcome of finishing an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finished {
    Ready,
    /// It was deleted while its bags were entered.
    Gone,
}

/// Puts a job into a state, and marks its index as ready: this index, and no later one with its name. After a pause or
/// a cancellation the index stays unchanged.
pub(super) async fn finish_index(
    held: &mut Held<'_>,
    jobs: &Jobs,
    target: &Target,
    state: JobState,
) -> Result<Finished, Lost> {
    loop {
        let bags = stored_bags(held, jobs).await?;
        let Some(index) = bags.as_ref().and_then(|bags| index_of(bags, target)) else { return Ok(Finished::Gone) };
        let is_ready = index.index.as_ref().is_some_and(|index| index.is_ready);
        let before = held.job.clone();
        held.job.state = state;
        if state.is_over() {
            (held.job.holder, held.job.problem) = (None, None);
        }
        let mut why = "cannot make items durable".to_owned();
        if is_ready {
            held.save().await?;
        } else {
            let (id, by) = (before.task.feature.clone(), before.created_by.clone());
            let finish = async |next| {
                let change = Change::FinishIndex { id, index: target.clone(), job: Box::new(next) };
                match jobs.metadata.apply(change, by).await {
                    // Without a change another state came first. The job is taken again, and finds the index ready.
                    Ok(applied) => Ok(applied.is_change),
                    Err(MetadataError::EtagMismatch) => Ok(false),
                    Err(error) => {
                        why = error.to_string();
                        Err(error)
                    }
                }
            };
            held.keep_by(finish).await?;
        }
        if held.job.number > before.number {
            return Ok(Finished::Ready);
        }
        held.job = before;
        tracing::debug!(job = %held.job.id, why, "cannot mark the index ready");
        held.problem(Some(why)).await?;
        sleep(CHECK_INTERVAL).await;
    }
}

/// The index that a job is about, unless it is gone or another index has its name.
pub(super) fn index_of<'b>(bags: &'b Feature, target: &Target) -> Option<&'b FeatureVersion> {
    let found = bags.version(&target.version)?;
    (found.generation == target.generation && found.index.is_some()).then_some(found)
}

/// The bags that the job is about, as the metadata store has them; none if their type was deleted.
pub(super) async fn stored_bags(held: &mut Held<'_>, jobs: &Jobs) -> Result<Option<Feature>, Lost> {
    loop {
        match jobs.metadata.feature(held.job.task.feature.clone()).await {
            Ok(found) => return Ok(found),
            Err(error) => {
                tracing::debug!(job = %held.job.id, %error, "cannot read the definitions");
                held.save_if_due().await?;
                sleep(CHECK_INTERVAL).await;
            }
        }
    }
}
