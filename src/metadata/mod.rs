//! The control plane's contract: definitions of list features, their versions and their history.
//!
//! One metadata actor calls a [`MetadataStore`]; list operations never do: they read the
//! [`catalog`]. What a change does to a definition is decided in [`change`], the same for every
//! store. One conformance suite (`tests/conformance`) holds every store to what is written here.

use std::path::Path;

use async_trait::async_trait;
use serde::Serialize;

use crate::definition::Feature;
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{
    Author, Description, EntityType, FeatureId, Generation, IndexSpec, JobId, Labels, Limit, Owner, Revision,
    Timestamp, Ttl, ValueType, VersionLabel,
};
pub use crate::wire::{FeaturePatch, VersionPatch};

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

/// What a feature is created from, or an entity type with bags, which is [a feature](FeatureId::of_bags) to all here.
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
    /// The bags of an entity type. Without a `ttl` they live as long as anything may.
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

/// What a version is created from. It inherits the properties that are not given from the feature.
#[derive(Debug, Clone)]
pub struct NewVersion {
    pub version: VersionLabel,
    pub properties: GivenProperties,
    /// Of a version of bags.
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

/// The entity tag that a change is made on condition of (`If-Match`, RFC 9110, section 13.1.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition, or `*`: whatever is there now.
    #[default]
    None,
    /// Only if the present revision is one of these.
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

/// A change of a definition. [`change::decide`] says what each of them does.
#[derive(Debug, Clone)]
pub enum Change {
    /// Creates a feature and its default version, each with the next generation of its name.
    CreateFeature(NewFeature),
    UpdateFeature {
        id: FeatureId,
        patch: FeaturePatch,
        condition: Precondition,
    },
    /// Deletes a feature with all its versions. Its history, and the generations of its versions, stay.
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
    /// Deletes an index of bags, and begins the job of this ID, which clears its entries: both or neither.
    DeleteIndex {
        id: FeatureId,
        name: VersionLabel,
        condition: Precondition,
        job: JobId,
    },
    /// Marks an index as ready, and stores this state of the job that entered its bags: both or neither. The change is
    /// refused with [`MetadataError::EtagMismatch`] where another state of the job came first.
    FinishIndex {
        id: FeatureId,
        index: Target,
        job: Box<Job>,
    },
}

impl Change {
    /// The feature that it is about.
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

    /// The version that it is about, if it is not about the whole feature.
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

    /// The version that it creates, and with it a generation.
    pub fn created(&self) -> Option<VersionLabel> {
        match self {
            Self::CreateFeature(_) => Some(VersionLabel::default_version()),
            Self::CreateVersion { new, .. } => Some(new.version.clone()),
            _ => None,
        }
    }
}

/// By whom and when a change is made: what the audit trail keeps of it.
#[derive(Debug, Clone)]
pub struct ChangeContext {
    pub by: Author,
    pub at: Timestamp,
}

/// Which features a listing is about, or which entity types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureFilter {
    /// Whether entity types with bags are wanted, and no features.
    pub of_bags: bool,
    pub entity_type: Option<EntityType>,
    /// Part of the name (of an entity type, of that), description or owner; ASCII case ignored; no wildcards.
    pub text: Option<String>,
}

impl FeatureFilter {
    /// Whether it chooses a feature with these texts. The name of bags is empty.
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

/// What kind of change a history entry tells of.
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
    /// The name of a change by its object: a change of bags is one of their entity type, and a version of bags is an
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
    /// The number of the change: what pages of a history are keyed by.
    pub revision: Revision,
    pub at: Timestamp,
    pub by: Author,
    pub action: Action,
    /// The version that was created, changed or deleted; none for changes of the feature.
    pub version: Option<VersionLabel>,
    /// What the feature (or version, or entity type) looked like before, as the API shows it.
    pub before: Option<serde_json::Value>,
    /// What it looks like since, as the API shows it.
    pub after: Option<serde_json::Value>,
}

/// A page of a keyset listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub entries: Vec<T>,
    /// Whether at least one more entry followed at that moment.
    pub more: bool,
}

/// All definitions, as of one revision.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    pub revision: Revision,
    pub features: Vec<Feature>,
}

/// What was changed after some revision.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The revision that the changes lead to.
    pub revision: Revision,
    /// Each feature that was created, changed or deleted, as it is at that revision; none where it
    /// is gone.
    pub features: Vec<(FeatureId, Option<Feature>)>,
}

/// How often a version of a feature has been created so far.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastGeneration {
    pub id: FeatureId,
    pub version: VersionLabel,
    pub generation: Generation,
}

/// What a shared store knows of changes that were made elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Something may have been changed.
    Changed,
    /// News were missed: all definitions are to be read again.
    Missed,
}

/// Called with a feature, and with how many there are.
pub type EachDefinition<'e> = dyn FnMut(&Feature, usize) + Send + 'e;

/// What a store held at one moment, to be written elsewhere while changes go on.
pub trait Snapshot {
    /// Writes a store that holds the same into a directory, durably. Blocks.
    fn write(&self, dir: &Path) -> Result<(), MetadataError>;
}

/// Holds up the changes of a store for as long as it lives.
pub trait HeldUp {}

/// A store at one moment, whose changes wait.
pub struct Frozen<'s> {
    pub snapshot: Box<dyn Snapshot>,
    pub changes: Box<dyn HeldUp + 's>,
}

/// A place where definitions are kept.
///
/// Every change is one transaction with its audit entry, and takes the next [`Revision`] of the
/// store. A change that would change nothing takes none and leaves no entry. Of racing changes,
/// one wins, and the others see what it did.
#[async_trait]
pub trait MetadataStore: AccessStore + JobStore {
    /// Makes a change, or tells why it is refused.
    async fn apply(&self, change: Change, context: ChangeContext) -> Result<Applied, MetadataError>;

    /// Makes changes in their order, each as [`Self::apply`] does, and returns what came of each. A change that is
    /// refused has no effect on the others. They become durable together, before this returns.
    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>>;

    /// How many changes are best made together: 1 where each of them is a transaction of its own.
    fn together_max(&self) -> usize;

    /// Called when no change has come for a moment. A store that leaves some care for the last changes to later takes
    /// it now. All changes are durable without it.
    async fn settle(&self) -> Result<(), MetadataError>;

    async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError>;

    /// The features that match, ordered by entity type then name in byte order, strictly after
    /// `after`.
    async fn features(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError>;

    /// The history of all features that ever had this identity, newest first, strictly before the
    /// revision `before`. `None` where there never was such a feature.
    async fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError>;

    /// All definitions, for the catalog: with every change whose outcome was unknown and that was
    /// made, or an error for as long as that cannot be told.
    async fn definitions(&self) -> Result<Definitions, MetadataError> {
        let mut features = Vec::new();
        let revision = self.each_definition(&mut |feature: &Feature, _: usize| features.push(feature.clone())).await?;
        Ok(Definitions { revision, features })
    }

    /// Hands on all definitions in the order of their identities, as of one revision, which it returns. The callee must
    /// not wait.
    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError>;

    /// Whether other processes change definitions too. Then a catalog that does not know a feature
    /// is no proof that there is none.
    fn is_shared(&self) -> bool {
        false
    }

    /// Waits until there is news of changes made elsewhere. Never returns in a store that is not
    /// shared. For one caller at a time, which may go on with its calls meanwhile.
    async fn news(&self) -> News {
        std::future::pending().await
    }

    /// What was changed after the revision `since`. `None` where that cannot be told: then all
    /// definitions are to be read again.
    async fn changes(&self, _since: Revision) -> Result<Option<Changes>, MetadataError> {
        Ok(None)
    }

    /// Whether it is certain that this generation of a version was there and was deleted, and so will
    /// never be there again. A store that cannot be certain, or does not know, says no. Does not wait for
    /// anything but this machine.
    fn is_past(&self, _id: &FeatureId, _version: &VersionLabel, _generation: Generation) -> bool {
        false
    }

    /// Every version that a feature of an entity type has or ever had, with its last generation: the lists of
    /// all generations up to it may still hold items. In the order of features, then of labels.
    async fn generations(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError>;

    /// Holds up all changes, and takes a snapshot of the store. It has all changes that were acknowledged before the
    /// call, and no others. Blocks while a change is under way.
    fn freeze(&self) -> Result<Frozen<'_>, MetadataError> {
        let reason = "this metadata store does not support backups".to_owned();
        Err(MetadataError::Unavailable { reason, outcome_unknown: false })
    }

    /// Persists all that was acknowledged and releases what the store holds.
    async fn close(&self);
}
