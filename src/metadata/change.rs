//! The effect of each change on a definition: pure, and the same for every metadata store.
//!
//! A store reads the current state, calls [`decide`] for the [`Transition`], and writes it in one transaction.

use std::sync::Arc;

use serde_json::Value as Json;

use super::jobs::{Job, Target, Task, TaskKind};
use super::{
    Action, Change, ChangeContext, FeaturePatch, HistoryEntry, MetadataError, NewFeature, NewVersion, Precondition,
    VersionPatch, audit,
};
use crate::definition::{Feature, FeatureVersion};
use crate::domain::index::INDEXES_MAX;
use crate::domain::{FeatureId, Generation, Index, JobId, Revision, VersionLabel};
use crate::wire::Annotations;

/// The writes of one change.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    pub id: FeatureId,
    /// The feature after the change; `None` deletes it.
    pub after: Option<Feature>,
    /// The generation that the change began. It must survive every deletion.
    pub began: Option<(VersionLabel, Generation)>,
    /// The state of a job that is stored with the change. If another state of that job came first, nothing is written.
    pub job: Option<Job>,
    pub entry: HistoryEntry,
}

/// The effect of a change on the feature `present`; `None` if it has none. `last_generation` is the last generation of
/// the version that the change creates ([`Change::created`]), if its name was ever used.
pub fn decide(
    change: Change,
    present: Option<&Feature>,
    last_generation: Option<Generation>,
    revision: Revision,
    context: ChangeContext,
) -> Result<Option<Transition>, MetadataError> {
    match change {
        Change::CreateFeature(new) => create_feature(present, last_generation, new, revision, context).map(Some),
        Change::UpdateFeature { id, patch, condition } => {
            update_feature(present, &id, patch, &condition, revision, context)
        }
        Change::DeleteFeature { id, condition } => {
            delete_feature(present, &id, &condition, revision, context).map(Some)
        }
        Change::CreateVersion { id, new } => {
            create_version(present, last_generation, &id, new, revision, context).map(Some)
        }
        Change::UpdateVersion { id, version, patch, condition } => {
            update_version(present, &id, &version, patch, &condition, revision, context)
        }
        Change::DeleteVersion { id, version, condition } => {
            delete_version(present, &id, &version, &condition, revision, context).map(Some)
        }
        Change::DeleteIndex { id, name, condition, job } => {
            delete_index(present, &id, &name, &condition, job, revision, context).map(Some)
        }
        Change::FinishIndex { id, index, job } => finish_index(present, &id, &index, *job, revision, context),
    }
}

/// The generation that follows the last one of a name, if the name was ever used.
fn following(last: Option<Generation>) -> Generation {
    last.map_or(Generation::FIRST, Generation::next)
}

fn entry(
    revision: Revision,
    context: ChangeContext,
    action: Action,
    version: Option<VersionLabel>,
    before: Option<Json>,
    after: Option<Json>,
) -> HistoryEntry {
    HistoryEntry { revision, at: context.at, by: context.by, action, version, before, after }
}

/// `last_generation` is the default version's under this identity, if it ever existed.
fn create_feature(
    present: Option<&Feature>,
    last_generation: Option<Generation>,
    new: NewFeature,
    revision: Revision,
    context: ChangeContext,
) -> Result<Transition, MetadataError> {
    if present.is_some() {
        return Err(MetadataError::exists(new.id));
    }
    let NewFeature { id, value_type, properties, description, owner, labels } = new;
    let properties = properties.checked().and_then(|properties| properties.of_values(value_type));
    let properties = properties.map_err(MetadataError::Property)?;
    let (generation, ttl) = (following(last_generation), properties.ttl);
    let default_version = FeatureVersion {
        version: VersionLabel::default_version(),
        properties,
        index: None,
        description: Default::default(),
        created_at: context.at,
        generation,
        ttl_max: ttl,
        revision,
    };
    let feature = Feature {
        id: id.clone(),
        value_type,
        description,
        owner,
        labels,
        versions: vec![default_version],
        created_at: context.at,
        updated_at: context.at,
        ttl_max: ttl,
        revision,
    };
    let entry = entry(revision, context, Action::CreateFeature.of(&id), None, None, Some(audit::feature(&feature)));
    Ok(Transition {
        id,
        after: Some(feature),
        began: Some((VersionLabel::default_version(), generation)),
        job: None,
        entry,
    })
}

fn update_feature(
    present: Option<&Feature>,
    id: &FeatureId,
    patch: FeaturePatch,
    condition: &Precondition,
    revision: Revision,
    context: ChangeContext,
) -> Result<Option<Transition>, MetadataError> {
    let before = admitted(present, id, condition)?;
    let mut after = before.clone();
    let FeaturePatch { properties, annotations } = patch;
    if let Some(default_version) = after.versions.iter_mut().find(|v| v.version.is_default()) {
        let properties = default_version.properties.changed_by(properties);
        let properties = properties.of_values(before.value_type).map_err(MetadataError::Property)?;
        if properties != default_version.properties {
            default_version.ttl_max = default_version.ttl_max.max(properties.ttl);
            after.ttl_max = after.ttl_max.max(properties.ttl);
            default_version.properties = properties;
            default_version.revision = revision;
        }
    }
    let Annotations { description, owner, labels } = annotations;
    after.description = description.unwrap_or(after.description);
    after.owner = owner.unwrap_or(after.owner);
    after.labels = labels.unwrap_or(after.labels);
    if after == *before {
        return Ok(None);
    }
    after.updated_at = context.at;
    after.revision = revision;
    let entry = entry(
        revision,
        context,
        Action::UpdateFeature.of(id),
        None,
        Some(audit::feature(before)),
        Some(audit::feature(&after)),
    );
    Ok(Some(Transition { id: id.clone(), after: Some(after), began: None, job: None, entry }))
}

fn delete_feature(
    present: Option<&Feature>,
    id: &FeatureId,
    condition: &Precondition,
    revision: Revision,
    context: ChangeContext,
) -> Result<Transition, MetadataError> {
    let before = admitted(present, id, condition)?;
    let entry = entry(revision, context, Action::DeleteFeature.of(id), None, Some(audit::feature(before)), None);
    Ok(Transition { id: id.clone(), after: None, began: None, job: None, entry })
}

/// `last_generation` is the version label's under this identity, if it ever existed.
fn create_version(
    present: Option<&Feature>,
    last_generation: Option<Generation>,
    id: &FeatureId,
    new: NewVersion,
    revision: Revision,
    context: ChangeContext,
) -> Result<Transition, MetadataError> {
    let before = present.ok_or_else(|| MetadataError::not_found(id.clone()))?;
    if before.version(&new.version).is_some() {
        return Err(MetadataError::version_exists(id.clone(), new.version));
    }
    if new.index.is_some() && before.versions.iter().filter(|version| version.index.is_some()).count() >= INDEXES_MAX {
        return Err(MetadataError::TooManyIndexes(id.entity_type.clone()));
    }
    let generation = following(last_generation);
    let properties = new.properties.inheriting(&before.properties());
    let properties = properties.and_then(|properties| properties.of_values(before.value_type));
    let properties = properties.map_err(MetadataError::Property)?;
    let ttl = properties.ttl;
    let version = FeatureVersion {
        version: new.version.clone(),
        properties,
        index: new.index.map(|spec| Index { spec: Arc::new(spec), is_ready: false }),
        description: new.description,
        created_at: context.at,
        generation,
        ttl_max: ttl,
        revision,
    };
    let mut after = touched(before, revision, &context);
    after.ttl_max = after.ttl_max.max(ttl);
    let entry = entry(
        revision,
        context,
        Action::CreateVersion.of(id),
        Some(new.version.clone()),
        None,
        Some(audit::version(&version)),
    );
    let place = after.versions.partition_point(|v| v.version < version.version);
    after.versions.insert(place, version);
    Ok(Transition { id: id.clone(), after: Some(after), began: Some((new.version, generation)), job: None, entry })
}

fn update_version(
    present: Option<&Feature>,
    id: &FeatureId,
    label: &VersionLabel,
    patch: VersionPatch,
    condition: &Precondition,
    revision: Revision,
    context: ChangeContext,
) -> Result<Option<Transition>, MetadataError> {
    let (feature, place) = admitted_version(present, id, label, condition)?;
    let before = &feature.versions[place];
    let mut version = before.clone();
    let properties = version.properties.changed_by(patch.properties).of_values(feature.value_type);
    version.properties = properties.map_err(MetadataError::Property)?;
    version.ttl_max = version.ttl_max.max(version.properties.ttl);
    version.description = patch.description.unwrap_or(version.description);
    Ok((version != *before).then(|| with_version(feature, place, version, revision, context)))
}

/// A feature with another state of one of its versions.
fn with_version(
    feature: &Feature,
    place: usize,
    version: FeatureVersion,
    revision: Revision,
    context: ChangeContext,
) -> Transition {
    let version = FeatureVersion { revision, ..version };
    let mut after = touched(feature, revision, &context);
    after.ttl_max = after.ttl_max.max(version.properties.ttl);
    let entry = entry(
        revision,
        context,
        Action::UpdateVersion.of(&feature.id),
        Some(version.version.clone()),
        Some(audit::version(&feature.versions[place])),
        Some(audit::version(&version)),
    );
    after.versions[place] = version;
    Transition { id: feature.id.clone(), after: Some(after), began: None, job: None, entry }
}

/// Has no effect on a ready index.
fn finish_index(
    present: Option<&Feature>,
    id: &FeatureId,
    target: &Target,
    job: Job,
    revision: Revision,
    context: ChangeContext,
) -> Result<Option<Transition>, MetadataError> {
    let feature = present.ok_or_else(|| MetadataError::not_found(id.clone()))?;
    let is_target = |v: &FeatureVersion| v.version == target.version && v.generation == target.generation;
    let missing = || MetadataError::version_not_found(id.clone(), target.version.clone());
    let place = feature.versions.iter().position(is_target).ok_or_else(missing)?;
    let before = &feature.versions[place];
    let index = before.index.clone().ok_or_else(missing)?;
    if index.is_ready {
        return Ok(None);
    }
    let version = FeatureVersion { index: Some(Index { is_ready: true, ..index }), ..before.clone() };
    let transition = with_version(feature, place, version, revision, context);
    Ok(Some(Transition { job: Some(job), ..transition }))
}

fn delete_version(
    present: Option<&Feature>,
    id: &FeatureId,
    label: &VersionLabel,
    condition: &Precondition,
    revision: Revision,
    context: ChangeContext,
) -> Result<Transition, MetadataError> {
    let (feature, place) = admitted_version(present, id, label, condition)?;
    let mut after = touched(feature, revision, &context);
    let before = after.versions.remove(place);
    let entry = entry(
        revision,
        context,
        Action::DeleteVersion.of(id),
        Some(label.clone()),
        Some(audit::version(&before)),
        None,
    );
    Ok(Transition { id: id.clone(), after: Some(after), began: None, job: None, entry })
}

fn delete_index(
    present: Option<&Feature>,
    id: &FeatureId,
    name: &VersionLabel,
    condition: &Precondition,
    job: JobId,
    revision: Revision,
    context: ChangeContext,
) -> Result<Transition, MetadataError> {
    let index = present.and_then(|feature| feature.version(name)).filter(|version| version.index.is_some());
    let missing = || match present {
        Some(_) => MetadataError::version_not_found(id.clone(), name.clone()),
        None => MetadataError::not_found(id.clone()),
    };
    let target = Target { version: name.clone(), generation: index.ok_or_else(missing)?.generation };
    let task = Task { kind: TaskKind::DropIndex, feature: id.clone(), targets: vec![target], lists_per_second: None };
    let job = Job::new(job, task, context.clone());
    let transition = delete_version(present, id, name, condition, revision, context)?;
    Ok(Transition { job: Some(job), ..transition })
}

fn touched(feature: &Feature, revision: Revision, context: &ChangeContext) -> Feature {
    Feature { revision, updated_at: context.at, ..feature.clone() }
}

fn admitted<'a>(
    present: Option<&'a Feature>,
    id: &FeatureId,
    condition: &Precondition,
) -> Result<&'a Feature, MetadataError> {
    let feature = present.ok_or_else(|| MetadataError::not_found(id.clone()))?;
    if condition.admits(feature.revision) { Ok(feature) } else { Err(MetadataError::EtagMismatch) }
}

/// The feature and the place of the version in it. Refuses the default version, which is changed and deleted with its
/// feature.
fn admitted_version<'a>(
    present: Option<&'a Feature>,
    id: &FeatureId,
    label: &VersionLabel,
    condition: &Precondition,
) -> Result<(&'a Feature, usize), MetadataError> {
    let feature = present.ok_or_else(|| MetadataError::not_found(id.clone()))?;
    let place = feature
        .versions
        .iter()
        .position(|v| v.version == *label)
        .ok_or_else(|| MetadataError::version_not_found(id.clone(), label.clone()))?;
    if label.is_default() {
        return Err(MetadataError::DefaultVersion);
    }
    if condition.admits(feature.versions[place].revision) {
        Ok((feature, place))
    } else {
        Err(MetadataError::EtagMismatch)
    }
}
