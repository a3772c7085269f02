//! The control plane's contract: definitions of list features, their versions and their history.
//!
//! One metadata actor calls a [`MetadataStore`]. List operations read the [`catalog`] instead. [`change`] decides the
//! effect of a change, the same for every store. One conformance suite (`tests/conformance`) tests this contract with
//! every store.

use std::path::Path;

use async_trait::async_trait;
use serde::Serialize;

use crate::definition::Feature;
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{
    Author, Description, EntityType, FeatureId, Generation, IndexSpec, JobId, Labels, Limit, Owner, Revision,
    Timestamp, Ttl, ValueType, VersionLabel,
};
pub use liststore_contract::operations::update_feature::FeaturePatch;
pub use liststore_contract::operations::update_version::VersionPatch;

mod applied;
mod audit;
mod calls;
pub mod catalog;
pub mod change;
pub mod embedded;
pub mod error;
mod job_state;
pub mod jobs;
pub mod keys;
pub mod local;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod postgres_url;
pub mod snapshot_file;
mod table;

pub use applied::{Applied, Deleted, VersionChanged};
pub use calls::Calls;
pub use catalog::Catalog;
pub use error::MetadataError;
pub use jobs::JobStore;
use jobs::{Job, Target};
pub use keys::AccessStore;

/// The properties of a new feature, or of a new entity type with bags, which this module treats as [a
/// feature](FeatureId::of_bags).
#[derive(Debug, Clone)]
pub struct NewFeature {
    pub id: FeatureId,
    pub value_type: ValueType,
    pub properties: VersionProperties,
    pub description: Description,
    pub owner: Owner,
    pub labels: Labels,
}

impl NewFeature {
    /// The bags of an entity type. Without a `ttl` they have the longest lifetime.
    pub fn of_bags(entity_type: EntityType, ttl: Option<Ttl>) -> Self {
        Self {
            id: FeatureId::of_bags(entity_type),
            value_type: ValueType::Json,
            properties: VersionProperties { ttl: ttl.unwrap_or_default(), ..VersionProperties::default() },
            description: Description::default(),
            owner: Owner::default(),
            labels: Labels::default(),
        }
    }
}

/// The properties of a new version. It inherits missing properties from the feature.
#[derive(Debug, Clone)]
pub struct NewVersion {
    pub version: VersionLabel,
    pub properties: GivenProperties,
    /// The index of a version of bags.
    pub index: Option<IndexSpec>,
    pub description: Description,
}

impl NewVersion {
    /// An index of bags.
    pub fn index(name: VersionLabel, spec: IndexSpec) -> Self {
        Self {
            version: name,
            properties: GivenProperties::default(),
            index: Some(spec),
            description: Description::default(),
        }
    }
}

/// The entity tag condition of a change (`If-Match`, RFC 9110, section 13.1.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition, or `*`: any current state.
    #[default]
    None,
    /// Only if the current revision is one of these.
    OneOf(Vec<Revision>),
}

impl Precondition {
    pub fn admits(&self, present: Revision) -> bool {
        match self {
            Self::None => true,
            Self::OneOf(revisions) => revisions.contains(&present),
        }
    }
}

/// A change of a definition. [`change::decide`] defines its effect.
#[derive(Debug, Clone)]
pub enum Change {
    /// Creates a feature and its default version, each with the next generation of its name.
    CreateFeature(NewFeature),
    UpdateFeature {
        id: FeatureId,
        patch: FeaturePatch,
        condition: Precondition,
    },
    /// Deletes a feature with all its versions. Its history and the generations of its versions remain.
    DeleteFeature {
        id: FeatureId,
        condition: Precondition,
    },
    CreateVersion {
        id: FeatureId,
        new: NewVersion,
    },
    UpdateVersion {
        id: FeatureId,
        version: VersionLabel,
        patch: VersionPatch,
        condition: Precondition,
    },
    DeleteVersion {
        id: FeatureId,
        version: VersionLabel,
        condition: Precondition,
    },
    /// Deletes an index of bags, and begins the job with this ID, which clears its entries: both or neither.
    DeleteIndex {
        id: FeatureId,
        name: VersionLabel,
        condition: Precondition,
        job: JobId,
    },
    /// Marks an index as ready, and stores this state of the job that entered its bags: both or neither. The change is
    /// refused with [`MetadataError::EtagMismatch`] if another state of the job came first.
    FinishIndex {
        id: FeatureId,
        index: Target,
        job: Box<Job>,
    },
}

impl Change {
    /// The feature that it concerns.
    pub fn feature(&self) -> &FeatureId {
        match self {
            Self::CreateFeature(new) => &new.id,
            Self::UpdateFeature { id, .. }
            | Self::DeleteFeature { id, .. }
            | Self::CreateVersion { id, .. }
            | Self::UpdateVersion { id, .. }
            | Self::DeleteVersion { id, .. }
            | Self::DeleteIndex { id, .. }
            | Self::FinishIndex { id, .. } => id,
        }
    }

    /// The version that it concerns, unless it concerns the whole feature.
    pub fn version(&self) -> Option<&VersionLabel> {
        match self {
            Self::CreateFeature(_) | Self::UpdateFeature { .. } | Self::DeleteFeature { .. } => None,
            Self::CreateVersion { new, .. } => Some(&new.version),
            Self::UpdateVersion { version, .. }
            | Self::DeleteVersion { version, .. }
            | Self::DeleteIndex { name: version, .. }
            | Self::FinishIndex { index: Target { version, .. }, .. } => Some(version),
        }
    }

    /// The version, with a generation, that it creates.
    pub fn created(&self) -> Option<VersionLabel> {
        match self {
            Self::CreateFeature(_) => Some(VersionLabel::default_version()),
            Self::CreateVersion { new, .. } => Some(new.version.clone()),
            _ => None,
        }
    }
}

/// The author and the time of a change, for the audit trail.
#[derive(Debug, Clone)]
pub struct ChangeContext {
    pub by: Author,
    pub at: Timestamp,
}

/// A selection of features or entity types for a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureFilter {
    /// Whether it selects entity types with bags instead of features.
    pub of_bags: bool,
    pub entity_type: Option<EntityType>,
    /// A part of the name (of an entity type: of the type), description or owner. ASCII case is ignored; no wildcards.
    pub text: Option<String>,
}

impl FeatureFilter {
    /// Whether it selects a feature with these texts. The name of bags is empty.
    pub fn matches_texts(&self, entity_type: &str, name: &str, description: &str, owner: &str) -> bool {
        let contains = |text: &str, part: &str| text.to_ascii_lowercase().contains(part);
        let is_of_bags = name.is_empty();
        let name = if is_of_bags { entity_type } else { name };
        is_of_bags == self.of_bags
            && self.entity_type.as_ref().is_none_or(|wanted| entity_type == wanted.as_str())
            && self.text.as_ref().is_none_or(|part| {
                let part = part.to_ascii_lowercase();
                contains(name, &part) || contains(description, &part) || contains(owner, &part)
            })
    }
}

/// The kind of change in a history entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    CreateFeature,
    UpdateFeature,
    DeleteFeature,
    CreateVersion,
    UpdateVersion,
    DeleteVersion,
    CreateEntityType,
    UpdateEntityType,
    DeleteEntityType,
    CreateIndex,
    UpdateIndex,
    DeleteIndex,
}

impl Action {
    pub const ALL: [Self; 12] = [
        Self::CreateFeature,
        Self::UpdateFeature,
        Self::DeleteFeature,
        Self::CreateVersion,
        Self::UpdateVersion,
        Self::DeleteVersion,
        Self::CreateEntityType,
        Self::UpdateEntityType,
        Self::DeleteEntityType,
        Self::CreateIndex,
        Self::UpdateIndex,
        Self::DeleteIndex,
    ];

    /// The name of a change by its object. A change of bags concerns their entity type, and a version of bags is an
    /// index.
    fn of(self, id: &FeatureId) -> Self {
        match self {
            Self::CreateFeature if id.is_of_bags() => Self::CreateEntityType,
            Self::UpdateFeature if id.is_of_bags() => Self::UpdateEntityType,
            Self::DeleteFeature if id.is_of_bags() => Self::DeleteEntityType,
            Self::CreateVersion if id.is_of_bags() => Self::CreateIndex,
            Self::UpdateVersion if id.is_of_bags() => Self::UpdateIndex,
            Self::DeleteVersion if id.is_of_bags() => Self::DeleteIndex,
            other => other,
        }
    }

    /// Whether the version of a change is the name of an index.
    pub fn is_of_index(self) -> bool {
        matches!(self, Self::CreateIndex | Self::UpdateIndex | Self::DeleteIndex)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateFeature => "create_feature",
            Self::UpdateFeature => "update_feature",
            Self::DeleteFeature => "delete_feature",
            Self::CreateVersion => "create_version",
            Self::UpdateVersion => "update_version",
            Self::DeleteVersion => "delete_version",
            Self::CreateEntityType => "create_entity_type",
            Self::UpdateEntityType => "update_entity_type",
            Self::DeleteEntityType => "delete_entity_type",
            Self::CreateIndex => "create_index",
            Self::UpdateIndex => "update_index",
            Self::DeleteIndex => "delete_index",
        }
    }
}

/// One entry of the audit trail.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// The number of the change, which is the key of pages.
    pub revision: Revision,
    pub at: Timestamp,
    pub by: Author,
    pub action: Action,
    /// The version that was created, changed or deleted; `None` for changes of the feature.
    pub version: Option<VersionLabel>,
    /// The feature, version or entity type before the change, as the API shows it.
    pub before: Option<serde_json::Value>,
    /// Its state after the change, as the API shows it.
    pub after: Option<serde_json::Value>,
}

/// A page of a keyset listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub entries: Vec<T>,
    /// Whether more entries followed at that moment.
    pub more: bool,
}

/// All definitions, as of one revision.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    pub revision: Revision,
    pub features: Vec<Feature>,
}

/// The changes after a revision.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The revision after the changes.
    pub revision: Revision,
    /// Each feature that was created, changed or deleted, in its state at that revision; `None` if deleted.
    pub features: Vec<(FeatureId, Option<Feature>)>,
}

/// How often a version of a feature has been created so far.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastGeneration {
    pub id: FeatureId,
    pub version: VersionLabel,
    pub generation: Generation,
}

/// A report of a shared store about changes by other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// A change is possible.
    Changed,
    /// Notifications were lost, so the caller must read all definitions again.
    Missed,
}

/// Called with a feature, and with the number of features.
pub type EachDefinition<'e> = dyn FnMut(&Feature, usize) + Send + 'e;

/// The content of a store at one moment, which can be written elsewhere while changes continue.
pub trait Snapshot {
    /// Writes a store with the same content into a directory, durably. Blocks.
    fn write(&self, dir: &Path) -> Result<(), MetadataError>;
}

/// Blocks the changes of a store during its lifetime.
pub trait HeldUp {}

/// A store at one moment, whose changes wait.
pub struct Frozen<'s> {
    pub snapshot: Box<dyn Snapshot>,
    pub changes: Box<dyn HeldUp + 's>,
}

/// Storage of definitions.
///
/// Every change is one transaction with its audit entry, and takes the next [`Revision`] of the store. A change without
/// effect takes no revision and leaves no entry. Among racing changes one wins, and the others see its result.
#[async_trait]
pub trait MetadataStore: AccessStore + JobStore {
    /// Makes a change, or returns why it is refused.
    async fn apply(&self, change: Change, context: ChangeContext) -> Result<Applied, MetadataError>;

    /// Makes changes in their order, each as [`Self::apply`] does, and returns the outcome of each. A refused change
    /// has no effect on the others. They become durable together, before this returns.
    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>>;

    /// The best number of changes for one call: 1 if each is a separate transaction.
    fn together_max(&self) -> usize;

    /// Called when no change has arrived for a moment. A store with delayed work for the last changes does it now. All
    /// changes are durable without it.
    async fn settle(&self) -> Result<(), MetadataError>;

    async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError>;

    /// The matching features, ordered by entity type then name in byte order, strictly after `after`.
    async fn features(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError>;

    /// The history of all features that ever had this identity, newest first, strictly before the revision `before`.
    /// `None` if no such feature ever existed.
    async fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError>;

    /// All definitions for the catalog. They include every change with an unknown outcome that was made. While that is
    /// unclear, this is an error.
    async fn definitions(&self) -> Result<Definitions, MetadataError> {
        let mut features = Vec::new();
        let revision = self.each_definition(&mut |feature: &Feature, _: usize| features.push(feature.clone())).await?;
        Ok(Definitions { revision, features })
    }

    /// Passes on all definitions in the order of their identities, as of one revision, which it returns. The callee
    /// must not wait.
    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError>;

    /// Whether other processes change definitions too. Then the absence of a feature from a catalog proves nothing.
    fn is_shared(&self) -> bool {
        false
    }

    /// Waits for a report about changes by other servers. Never returns in a store that is not shared. For one caller
    /// at a time, which may make other calls during the wait.
    async fn news(&self) -> News {
        std::future::pending().await
    }

    /// The changes after the revision `since`. `None` if they are unavailable: then the caller must read all
    /// definitions again.
    async fn changes(&self, _since: Revision) -> Result<Option<Changes>, MetadataError> {
        Ok(None)
    }

    /// Whether this generation of a version certainly existed and was deleted, and so can never return. An uncertain
    /// store returns false. Waits for nothing outside this machine.
    fn is_past(&self, _id: &FeatureId, _version: &VersionLabel, _generation: Generation) -> bool {
        false
    }

    /// Every version that a feature of an entity type has or ever had, with its last generation. The lists of all
    /// generations up to it may still hold items. In the order of features, then of labels.
    async fn generations(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError>;

    /// Blocks all changes, and takes a snapshot of the store. It has exactly the changes that were acknowledged before
    /// the call. Waits for a running change.
    fn freeze(&self) -> Result<Frozen<'_>, MetadataError> {
        let reason = "this metadata store does not support backups".to_owned();
        Err(MetadataError::Unavailable { reason, outcome_unknown: false })
    }

    /// Persists all acknowledged changes and releases the store's resources.
    async fn close(&self);
}
