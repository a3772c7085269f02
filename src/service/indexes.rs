//! Indexes of bags: their definitions, and how far they are. [`find_bags`](super::find_bags) reads them.

use serde_json::json;

use super::index_view::IndexView;
use super::operation::Reply;
use super::{Caller, Changes, PageRenderer, Service, ServiceError, to_its_end, within};
use crate::background::job_of;
use crate::domain::{EntityType, Feature, FeatureId, Generation, IndexSpec, VersionLabel};
use crate::metadata::jobs::{JobState, Target, Task, TaskKind};
use crate::metadata::keys::erasures::{Erasure, ErasureAction};
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
        Ok(Reply::Index(Box::new(IndexView::of(version, None))))
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
        let found = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        let found = found.ok_or_else(|| MetadataError::not_found(id.clone()))?;
        let index = found.version(&name).filter(|version| version.index.is_some());
        let missing = || MetadataError::IndexNotFound(id.entity_type.clone(), name.clone());
        let generation = index.ok_or_else(missing)?.generation;
        let (jobs, metadata, by) = (self.jobs.clone(), self.metadata.clone(), caller.author());
        let deleting = async move {
            let change = Change::DeleteVersion { id: id.clone(), version: name.clone(), condition };
            metadata.apply(change, by.clone()).await?;
            let job = jobs.create(clearing(id.clone(), name, generation), by.clone()).await?;
            let details = json!({"job": job.id.to_string()});
            let erasure = Erasure { action: ErasureAction::Purge, target: id.to_string(), details };
            metadata.note_erasure(erasure, by).await.map(|_| ())
        };
        within(caller, Changes::Definitions, to_its_end(deleting)).await?;
        Ok(Reply::IndexDeleted)
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
            })
            .collect();
        let there = versions.into_iter().filter(|version| version.index.is_some());
        let there = there.map(|version| {
            let job = job_of(&id, &version);
            IndexView::of(version, jobs.iter().find(|known| known.id == job && known.state != JobState::Done))
        });
        Ok(there.chain(dropping).collect())
    }
}

fn clearing(feature: FeatureId, version: VersionLabel, generation: Generation) -> Task {
    Task { kind: TaskKind::DropIndex, feature, targets: vec![Target { version, generation }], lists_per_second: None }
}
