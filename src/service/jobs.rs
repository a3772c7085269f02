//! Purges, and the jobs that make them.

use serde_json::json;

use super::begun::{StepFailure, to_its_end};
use super::requests::Purge;
use super::{Caller, Changes, Service, ServiceError, within};
use crate::access::{Denied, Permission, Resource, decide};
use crate::background::Command;
use crate::domain::{FeatureId, Generation, JobId, VersionLabel};
use crate::metadata::jobs::{Job, Target, Task, TaskKind};
use crate::metadata::keys::erasures::{Erasure, ErasureAction};
use crate::metadata::{LastGeneration, MetadataError};

impl Service {
    pub(crate) async fn purge(&self, caller: &Caller, request: Purge) -> Result<Job, ServiceError> {
        let Purge { id, version, deleted_only, lists_per_second } = request;
        let found = self.metadata.generations(id.entity_type.clone());
        let mut found = within(caller, Changes::Nothing, found).await?;
        found.retain(|last| last.id == id);
        if found.is_empty() {
            return Err(MetadataError::not_found(id).into());
        }
        if let Some(version) = version {
            found.retain(|last| last.version == version);
            if found.is_empty() {
                return Err(MetadataError::VersionNotFound(id, version).into());
            }
        }
        let present = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        // In a present index, each entry is removed with its bag, so later bags are still found.
        let is_kept = |version: &VersionLabel, generation: Generation| {
            let present = present.as_ref().and_then(|feature| feature.version(version));
            present.is_some_and(|present| present.generation == generation && (deleted_only || present.index.is_some()))
        };
        let targets = found.iter().flat_map(|LastGeneration { version, generation, .. }| {
            let all = std::iter::successors(Generation::new(1).ok(), |before| Some(before.next()));
            let all = all.take_while(|number| number <= generation).filter(|number| !is_kept(version, *number));
            all.map(|generation| Target { version: version.clone(), generation })
        });
        let targets: Vec<_> = targets.collect();
        let task = Task { kind: TaskKind::Purge, feature: id.clone(), targets, lists_per_second };
        let lists: Vec<_> = task.targets.iter().map(|target| task.key(target).to_string()).collect();
        let (jobs, by) = (self.jobs.clone(), caller.author());
        let asking = async move {
            let note = |job: JobId| {
                let details = json!({"job": job.to_string(), "feature_keys": lists});
                Erasure { action: ErasureAction::Purge, target: id.to_string(), details }
            };
            jobs.create_noted(task, by, note).await.map_err(StepFailure::AtFirst)
        };
        within(caller, Changes::Definitions, to_its_end(asking)).await
    }

    /// The job of a feature that the caller may not see counts as missing, because its ID does not name the feature.
    pub(crate) async fn job_in_sight(&self, caller: &Caller, id: JobId) -> Result<Job, ServiceError> {
        let job = within(caller, Changes::Nothing, self.jobs.get(id)).await?;
        match may(caller, Permission::FeaturesRead, &job) {
            Ok(()) => Ok(job),
            Err(denied) => Err(ServiceError::JobOutOfSight { job: id, denied }),
        }
    }

    pub(crate) async fn command_job(&self, caller: &Caller, id: JobId, command: Command) -> Result<Job, ServiceError> {
        let job = self.job_in_sight(caller, id).await?;
        may(caller, Permission::ListsWrite, &job)?;
        tracing::info!(by = %caller.principal, job = %id, ?command, "job command received");
        let (jobs, by) = (self.jobs.clone(), caller.author());
        let commanding = async move { jobs.command(id, command, by).await.map_err(StepFailure::AtFirst) };
        within(caller, Changes::Definitions, to_its_end(commanding)).await
    }
}

/// Whether the caller has a permission for the feature of a job.
pub(crate) fn may(caller: &Caller, permission: Permission, job: &Job) -> Result<(), Denied> {
    let FeatureId { entity_type, name } = &job.task.feature;
    let resource = Resource::Feature { entity_type: entity_type.as_str(), feature: name.as_str() };
    decide(&caller.principal, permission, resource)
}
