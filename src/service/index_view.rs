//! How an index is shown.

use crate::domain::{FeatureVersion, VersionLabel};
use crate::metadata::jobs::Job;
use crate::wire::IndexState;

/// An index, and how far it is.
#[derive(Debug)]
pub struct IndexView {
    pub name: VersionLabel,
    /// None of one that is dropped.
    pub definition: Option<FeatureVersion>,
    pub state: IndexState,
    pub job: Option<Job>,
}

impl IndexView {
    /// An index that is there, and the job that builds it.
    pub(super) fn of(version: FeatureVersion, job: Option<&Job>) -> Self {
        let is_ready = version.index.as_ref().is_some_and(|index| index.is_ready);
        let state = if is_ready { IndexState::Ready } else { IndexState::Building };
        Self { name: version.version.clone(), definition: Some(version), state, job: job.cloned() }
    }
}
