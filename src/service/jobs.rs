//! Purges, and the jobs that carry them out.

use std::cmp::Reverse;

use serde_json::json;

use super::begun::{Broken, to_its_end};
use super::operation::{PurgeFeature, Reply};
use super::page_end::{end_early, json_bytes};
use super::{Caller, Changes, Service, ServiceError, within};
use crate::access::{Denied, Permission, Resource, decide};
use crate::background::Command;
use crate::domain::page::JobWalk;
use crate::domain::{FeatureId, Generation, JobId, Limit, VersionLabel};
use crate::metadata::jobs::{Job, Target, Task, TaskKind};
use crate::metadata::keys::erasures::{Erasure, ErasureAction};
use crate::metadata::{LastGeneration, MetadataError};

impl Service {
    pub(super) async fn purge_feature(&self, caller: &Caller, request: PurgeFeature) -> Result<Reply, ServiceError> {
        let PurgeFeature { id, version, deleted_only, lists_per_second } = request;
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
        // Of an index that is there, each entry goes with its bag: what is written meanwhile is found.
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
            jobs.create_noted(task, by, note).await.map_err(Broken::AtFirst)
        };
        let job = within(caller, Changes::Definitions, to_its_end(asking)).await?;
        Ok(Reply::Job(Box::new(job)))
    }

    /// Those of features that the caller may see, the newest first.
    pub(super) async fn list_jobs(
        &self,
        caller: &Caller,
        page_size: Limit,
        page_token: Option<String>,
    ) -> Result<Reply, ServiceError> {
        let after = page_token.map(|token| JobWalk.resume(&token)).transpose();
        let after = after.map_err(ServiceError::invalid("page_token"))?;
        let mut jobs = within(caller, Changes::Nothing, self.jobs.all()).await?;
        jobs.retain(|job| after.is_none_or(|after| job.id < after));
        jobs.retain(|job| may(caller, Permission::FeaturesRead, job).is_ok());
        jobs.sort_by_key(|job| Reverse(job.id));
        let mut more = jobs.len() > page_size.get();
        jobs.truncate(page_size.get());
        more |= end_early(&mut jobs, self.options.page_bytes_max, bytes_of);
        let next_page_token = jobs.last().filter(|_| more).map(|job| JobWalk.token_after(job.id));
        Ok(Reply::Jobs { jobs, next_page_token })
    }

    pub(super) async fn get_job(&self, caller: &Caller, id: JobId) -> Result<Reply, ServiceError> {
        Ok(Reply::Job(Box::new(self.job_in_sight(caller, id).await?)))
    }

    /// One of a feature that the caller may not see is told of as one that is not there: its id says nothing of the
    /// feature, so that they could not have known better.
    async fn job_in_sight(&self, caller: &Caller, id: JobId) -> Result<Job, ServiceError> {
        let job = within(caller, Changes::Nothing, self.jobs.get(id)).await?;
        match may(caller, Permission::FeaturesRead, &job) {
            Ok(()) => Ok(job),
            Err(denied) => Err(ServiceError::JobOutOfSight { job: id, denied }),
        }
    }

    pub(super) async fn command_job(
        &self,
        caller: &Caller,
        id: JobId,
        command: Command,
    ) -> Result<Reply, ServiceError> {
        let job = self.job_in_sight(caller, id).await?;
        may(caller, Permission::ListsWrite, &job)?;
        tracing::info!(by = %caller.principal, job = %id, ?command, "job command received");
        let (jobs, by) = (self.jobs.clone(), caller.author());
        let commanding = async move { jobs.command(id, command, by).await.map_err(Broken::AtFirst) };
        let job = within(caller, Changes::Definitions, to_its_end(commanding)).await?;
        Ok(Reply::Job(Box::new(job)))
    }
}

/// The length of a job as JSON, about, and rather more than less.
fn bytes_of(job: &Job) -> usize {
    /// Of all that has a bound: names of members, numbers, and names of the entity type and the feature.
    const BOUNDED_BYTES: usize = 1 << 10;
    let indexes = match job.task.kind {
        TaskKind::Purge => 0,
        _ => job.task.targets.iter().map(|target| json_bytes(&target.version.as_str()) + 1).sum(),
    };
    BOUNDED_BYTES + indexes + json_bytes(&job.problem) + json_bytes(&job.created_by.as_str())
}

/// Whether the caller may do this to the feature that a job is about.
fn may(caller: &Caller, permission: Permission, job: &Job) -> Result<(), Denied> {
    let FeatureId { entity_type, name } = &job.task.feature;
    let resource = Resource::Feature { entity_type: entity_type.as_str(), feature: name.as_str() };
    decide(&caller.principal, permission, resource)
}
