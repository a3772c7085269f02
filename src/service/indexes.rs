//! Indexes of bags: their definitions, and how far they are. [`find_bags`](super::find_bags) reads them.

use serde_json::json;

use super::begun::{Broken, to_its_end};
use super::index_view::IndexView;
use super::operation::{CleanIndexes, Reply};
use super::{Caller, Changes, Service, ServiceError, within};
use crate::background::job_of;
use crate::domain::{EntityType, Feature, FeatureId, FeatureVersion, IndexSpec, Timestamp, VersionLabel};
use crate::metadata::jobs::{Job, JobState, Target, Task, TaskKind};
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::metadata::{Change, MetadataError, NewVersion, Precondition, VersionChanged};
use crate::wire::IndexState;

impl Service {
    pub(super) async fn create_index(
        &self,
        caller: &Caller,
        entity_type: EntityType,
        name: VersionLabel,
        spec: IndexSpec,
    ) -> Result<Reply, ServiceError> {
        let id = FeatureId::of_bags(entity_type);
        let change = Change::CreateVersion { id, new: NewVersion::index(name, spec) };
        let applied = within(caller, Changes::Definitions, self.metadata.apply(change, caller.author())).await?;
        let VersionChanged { version, .. } = applied.into_version()?;
        self.jobs.wake();
        Ok(Reply::Index(Box::new(IndexView::of(version, None, None, None))))
    }

    pub(super) async fn list_indexes(&self, caller: &Caller, entity_type: EntityType) -> Result<Reply, ServiceError> {
        Ok(Reply::Indexes(self.indexes(caller, entity_type).await?))
    }

    pub(super) async fn get_index(
        &self,
        caller: &Caller,
        entity_type: EntityType,
        name: VersionLabel,
    ) -> Result<Reply, ServiceError> {
        let found = self.indexes(caller, entity_type.clone()).await?;
        let found = found.into_iter().find(|index| index.name == name);
        let missing = || MetadataError::IndexNotFound(entity_type, name);
        Ok(Reply::Index(Box::new(found.ok_or_else(missing)?)))
    }

    /// From then on nothing is entered into it, and nothing is found by it. What is left of it is cleared by a job.
    pub(super) async fn delete_index(
        &self,
        caller: &Caller,
        entity_type: EntityType,
        name: VersionLabel,
        condition: Precondition,
    ) -> Result<Reply, ServiceError> {
        let id = FeatureId::of_bags(entity_type);
        let (jobs, metadata, by) = (self.jobs.clone(), self.metadata.clone(), caller.author());
        let deleting = async move {
            // Only the job clears its entries: so the job begins in the same change.
            let job = jobs.id_for(TaskKind::DropIndex).await.map_err(Broken::AtFirst)?;
            let change = Change::DeleteIndex { id, name, condition, job };
            metadata.apply(change, by).await.map_err(Broken::AtFirst)?;
            jobs.wake();
            Ok(())
        };
        within(caller, Changes::Definitions, to_its_end(deleting)).await?;
        Ok(Reply::IndexDeleted)
    }

    /// Makes a job that looks at all bags and entries, and mends what does not agree.
    pub(super) async fn clean_indexes(&self, caller: &Caller, request: CleanIndexes) -> Result<Reply, ServiceError> {
        let CleanIndexes { entity_type, index: name, lists_per_second } = request;
        let id = FeatureId::of_bags(entity_type);
        let found = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        let Feature { versions, .. } = found.ok_or_else(|| MetadataError::not_found(id.clone()))?;
        let indexes = versions.into_iter().filter(|version| version.index.is_some());
        let wanted = indexes.filter(|version| name.as_ref().is_none_or(|name| version.version == *name));
        let target = |index: FeatureVersion| Target { version: index.version, generation: index.generation };
        let targets: Vec<_> = wanted.map(target).collect();
        if let Some(name) = name.filter(|_| targets.is_empty()) {
            return Err(MetadataError::IndexNotFound(id.entity_type, name).into());
        }
        let target = id.to_string();
        let indexes: Vec<_> = targets.iter().map(|target| target.version.to_string()).collect();
        let task = Task { kind: TaskKind::Clean, feature: id, targets, lists_per_second };
        let (jobs, metadata, by) = (self.jobs.clone(), self.metadata.clone(), caller.author());
        let asking = async move {
            let job = jobs.create(task, by.clone()).await.map_err(Broken::AtFirst)?;
            let after = json!({"job": job.id.to_string(), "indexes": indexes, "lists_per_second": lists_per_second});
            let action = ServerAction::CleanIndexes;
            let change = ServerChange { action, target, before: None, after: Some(after) };
            metadata.note_server_change(change, by).await.map_err(Broken::Begun)?;
            Ok(job)
        };
        let job = within(caller, Changes::Definitions, to_its_end(asking)).await?;
        Ok(Reply::Job(Box::new(job)))
    }

    /// All indexes of a type by name, those that are dropped after those that are there.
    async fn indexes(&self, caller: &Caller, entity_type: EntityType) -> Result<Vec<IndexView>, ServiceError> {
        let id = FeatureId::of_bags(entity_type);
        let found = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        let Feature { versions, .. } = found.ok_or_else(|| MetadataError::not_found(id.clone()))?;
        let jobs = within(caller, Changes::Nothing, self.jobs.all()).await?;
        let is_there = |target: &Target| {
            let there = versions.iter().find(|version| version.version == target.version);
            there.is_some_and(|there| there.generation == target.generation)
        };
        let dropping: Vec<_> = jobs
            .iter()
            .filter(|job| job.task.kind == TaskKind::DropIndex && job.task.feature == id && !job.state.is_over())
            .flat_map(|job| job.task.targets.iter().map(move |target| (job, target)))
            .filter(|(_, target)| !target.version.is_default() && !is_there(target))
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

/// How many entries the last job that went through an index has found or made there, and when it was done.
fn last_count(jobs: &[Job], id: &FeatureId, index: &FeatureVersion) -> Option<(u64, Timestamp)> {
    let done = jobs.iter().filter(|job| job.task.feature == *id && job.state == JobState::Done);
    let counts = done.filter_map(|job| {
        let is_it = |target: &Target| target.version == index.version && target.generation == index.generation;
        let at = job.task.targets.iter().position(is_it)?;
        Some((*job.progress.entries.get(at)?, job.updated_at))
    });
    counts.max_by_key(|(_, counted_at)| *counted_at)
}
