//! How an index is shown.

use std::time::Duration;

use crate::definition::FeatureVersion;
use crate::domain::{Timestamp, VersionLabel};
use crate::metadata::jobs::{Job, JobState};
use crate::wire::IndexState;

/// An index, and how far it is.
#[derive(Debug)]
pub struct IndexView {
    pub name: VersionLabel,
    /// None of one that is dropped.
    pub definition: Option<FeatureVersion>,
    pub state: IndexState,
    pub job: Option<Job>,
    /// How many entries it had when they were last counted, and when that was.
    pub counted: Option<(u64, Timestamp)>,
    /// For how long this server has known of what it has not mended yet; none of an index that is new or dropped.
    pub lag: Option<Duration>,
}

impl IndexView {
    /// An index that is there, and the job that builds it.
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
