//! Indexes of bags: their definitions, and how far they are. [`find_bags`](super::find_bags) reads them.

use serde_json::json;

use super::index_view::IndexView;
use super::operation::{CleanIndexes, Reply};
use super::{Caller, Changes, PageRenderer, Service, ServiceError, to_its_end, within};
use crate::background::job_of;
use crate::domain::{EntityType, Feature, FeatureId, FeatureVersion, Generation, IndexSpec, Timestamp, VersionLabel};
use crate::metadata::jobs::{Job, JobState, Target, Task, TaskKind};
use crate::metadata::keys::erasures::{Erasure, ErasureAction};
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::metadata::{Change, MetadataError, NewVersion, Precondition, VersionChanged};
use crate::wire::IndexState;

impl<R: PageRenderer> Service<R> {
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
            jobs.check_room().await?;
            let generation = loop {
                let found = metadata.feature(id.clone()).await?;
                let found = found.ok_or_else(|| MetadataError::not_found(id.clone()))?;
                let index = found.version(&name).filter(|version| version.index.is_some());
                let missing = || MetadataError::IndexNotFound(id.entity_type.clone(), name.clone());
                let index = index.ok_or_else(missing)?;
                if !condition.admits(index.revision) {
                    return Err(MetadataError::EtagMismatch);
                }
                // This one, and none that is made under its name meanwhile: what is left of it is another's.
                let this_one = Precondition::OneOf(vec![index.revision]);
                let change = Change::DeleteVersion { id: id.clone(), version: name.clone(), condition: this_one };
                match metadata.apply(change, by.clone()).await {
                    Err(MetadataError::EtagMismatch) => {}
                    applied => break applied.map(|_| index.generation)?,
                }
            };
            // What is left of it has no other way to go.
            let job = jobs.create_in_any_case(clearing(id.clone(), name, generation), by.clone()).await?;
            let details = json!({"job": job.id.to_string()});
            let erasure = Erasure { action: ErasureAction::Purge, target: id.to_string(), details };
            metadata.note_erasure(erasure, by).await.map(|_| ())
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
            let job = jobs.create(task, by.clone()).await?;
            let after = json!({"job": job.id.to_string(), "indexes": indexes, "lists_per_second": lists_per_second});
            let action = ServerAction::CleanIndexes;
            metadata.note_server_change(ServerChange { action, target, before: None, after: Some(after) }, by).await?;
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

fn clearing(feature: FeatureId, version: VersionLabel, generation: Generation) -> Task {
    Task { kind: TaskKind::DropIndex, feature, targets: vec![Target { version, generation }], lists_per_second: None }
}
