//! Indexes of bags: their definitions and their progress. [`find_bags`](super::find_bags) reads them.

use super::index_view::IndexView;
use super::{Caller, Changes, Service, ServiceError, within};
use crate::background::job_of;
use crate::definition::{Feature, FeatureVersion};
use crate::domain::{EntityType, FeatureId, Timestamp};
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, JobState, Target, TaskKind};
use crate::wire::IndexState;

impl Service {
    /// All indexes of a type by name: first the present ones, then the dropped ones.
    pub(crate) async fn indexes(
        &self,
        caller: &Caller,
        entity_type: EntityType,
    ) -> Result<Vec<IndexView>, ServiceError> {
        let id = FeatureId::of_bags(entity_type);
        let found = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        let Feature { versions, .. } = found.ok_or_else(|| MetadataError::not_found(id.clone()))?;
        let jobs = within(caller, Changes::Nothing, self.jobs.all()).await?;
        let exists = |target: &Target| {
            let there = versions.iter().find(|version| version.version == target.version);
            there.is_some_and(|there| there.generation == target.generation)
        };
        let dropping: Vec<_> = jobs
            .iter()
            .filter(|job| job.task.kind == TaskKind::DropIndex && job.task.feature == id && !job.state.is_over())
            .flat_map(|job| job.task.targets.iter().map(move |target| (job, target)))
            .filter(|(_, target)| !target.version.is_default() && !exists(target))
            .map(|(job, target)| IndexView {
                name: target.version.clone(),
                definition: None,
                state: IndexState::Dropping,
                job: Some(job.clone()),
                counted: None,
                lag: None,
            })
            .collect();
        let there = versions.into_iter().filter(|version| version.index.is_some());
        let there = there.map(|version| {
            let job = job_of(&id, &version);
            let counted = last_count(&jobs, &id, &version);
            let job = jobs.iter().find(|known| known.id == job && known.state != JobState::Done);
            IndexView::of(version, job, counted, Some(self.cleaner.lag()))
        });
        Ok(there.chain(dropping).collect())
    }
}

/// The number of entries that the last job of an index found or made, and the time when it was done.
fn last_count(jobs: &[Job], id: &FeatureId, index: &FeatureVersion) -> Option<(u64, Timestamp)> {
    let done = jobs.iter().filter(|job| job.task.feature == *id && job.state == JobState::Done);
    let counts = done.filter_map(|job| {
        let is_it = |target: &Target| target.version == index.version && target.generation == index.generation;
        let at = job.task.targets.iter().position(is_it)?;
        Some((*job.progress.entries.get(at)?, job.updated_at))
    });
    counts.max_by_key(|(_, counted_at)| *counted_at)
}
