//! An index and its state, as the API shows them.

use std::time::Duration;

use crate::definition::FeatureVersion;
use crate::domain::{Timestamp, VersionLabel};
use crate::metadata::jobs::{Job, JobState};
use crate::wire::IndexState;

/// An index and the progress of its job.
#[derive(Debug)]
pub struct IndexView {
    pub name: VersionLabel,
    /// `None` if it is dropped.
    pub definition: Option<FeatureVersion>,
    pub state: IndexState,
    pub job: Option<Job>,
    /// The number of its entries at the last count, and the time of the count.
    pub counted: Option<(u64, Timestamp)>,
    /// The age of the oldest waiting repair of this server. `None` for an index that is new or dropped.
    pub lag: Option<Duration>,
}

impl IndexView {
    /// A present index, and the job that builds it.
    pub(crate) fn of(
        version: FeatureVersion,
        job: Option<&Job>,
        counted: Option<(u64, Timestamp)>,
        lag: Option<Duration>,
    ) -> Self {
        let is_ready = version.index.as_ref().is_some_and(|index| index.is_ready);
        let is_cancelled = job.is_some_and(|job| job.state == JobState::Cancelled);
        let state = match (is_ready, is_cancelled) {
            (true, _) => IndexState::Ready,
            (false, true) => IndexState::Cancelled,
            (false, false) => IndexState::Building,
        };
        let (name, job) = (version.version.clone(), job.cloned());
        Self { name, definition: Some(version), state, job, counted, lag }
    }
}
