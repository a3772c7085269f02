//! Operations of several steps, and the outcome of one that fails between two of them.

use crate::metadata::MetadataError;

/// How an operation of several steps failed.
///
/// There is no conversion from [`MetadataError`], so that the code of each step states whether it is the first one.
#[derive(Debug)]
pub(crate) enum StepFailure {
    /// At its first step. The error states the outcome.
    AtFirst(MetadataError),
    /// At a later step. The outcome is unknown, because an earlier step was taken.
    Begun(MetadataError),
}

impl From<StepFailure> for MetadataError {
    fn from(broken: StepFailure) -> Self {
        match broken {
            StepFailure::AtFirst(error) => error,
            StepFailure::Begun(error) => error.with_outcome_unknown(),
        }
    }
}

/// Completes an operation even if its caller leaves.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, StepFailure>> + Send + 'static,
) -> Result<T, MetadataError> {
    let reason = || "the operation was interrupted".to_owned();
    match tokio::spawn(work).await {
        Ok(done) => done.map_err(MetadataError::from),
        Err(_) => Err(MetadataError::Internal { reason: reason(), outcome_unknown: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> MetadataError {
        MetadataError::TooManyJobs
    }

    #[tokio::test]
    async fn a_failure_after_the_first_step_leaves_the_outcome_unknown() {
        let first = to_its_end(async { Err::<(), _>(StepFailure::AtFirst(refused())) }).await.unwrap_err();
        assert!(matches!(first, MetadataError::TooManyJobs) && !first.outcome_unknown(), "{first:?}");
        let later = to_its_end(async { Err::<(), _>(StepFailure::Begun(refused())) }).await.unwrap_err();
        assert!(later.outcome_unknown() && later.reason() == refused().to_string(), "{later:?}");
        let broken_off = to_its_end::<()>(async { panic!("injected") }).await.unwrap_err();
        assert!(broken_off.outcome_unknown(), "{broken_off:?}");
    }
}
