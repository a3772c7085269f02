//! Clean indexes of an entity type.

use std::num::NonZeroU32;

use liststore_contract::operations::clean_indexes::{CleanInput, ROW};
use liststore_contract::row::Row;
use serde_json::json;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::{Feature, FeatureVersion};
use crate::domain::{EntityType, FeatureId, VersionLabel};
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, Target, Task, TaskKind};
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::service::{Caller, Changes, Service, ServiceError, StepFailure, to_its_end, within};

/// Which indexes of an entity type to clean.
pub struct CleanIndexes {
    entity_type: EntityType,
    /// All of them if there is none.
    index: Option<VersionLabel>,
    lists_per_second: Option<NonZeroU32>,
}

impl Operation for CleanIndexes {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Job;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let entity_type = call.entity_type()?;
        let CleanInput { index, lists_per_second } = CleanInput::read(&call.body)?;
        Ok(Self { entity_type, index, lists_per_second })
    }

    /// Makes a job that checks all bags and entries, and repairs differences.
    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Job, ServiceError> {
        let Self { entity_type, index: name, lists_per_second } = request;
        let id = FeatureId::of_bags(entity_type);
        let found = within(caller, Changes::Nothing, service.metadata.feature(id.clone())).await?;
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
        let (jobs, metadata, by) = (service.jobs.clone(), service.metadata.clone(), caller.author());
        let asking = async move {
            let job = jobs.create(task, by.clone()).await.map_err(StepFailure::AtFirst)?;
            let after = json!({"job": job.id.to_string(), "indexes": indexes, "lists_per_second": lists_per_second});
            let action = ServerAction::of(&ROW);
            let change = ServerChange { action, target, before: None, after: Some(after) };
            metadata.note_server_change(change, by).await.map_err(StepFailure::Begun)?;
            Ok(job)
        };
        within(caller, Changes::Definitions, to_its_end(asking)).await
    }

    fn reply(call: &Call<'_>, job: Job) -> HandlerResult {
        call.json(&reply::job(job))
    }
}
