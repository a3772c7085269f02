//! Refusals and failures of a metadata store, independent of the store.

use super::job_state::JobState;
use crate::definition::InvalidProperty;
use crate::domain::{EntityType, FeatureId, JobId, KeyId, KeyName, VersionLabel};

#[derive(Debug, Clone, thiserror::Error)]
pub enum MetadataError {
    #[error("the feature {0} already exists")]
    FeatureExists(FeatureId),
    #[error("the version \"{1}\" of the feature {0} already exists")]
    VersionExists(FeatureId, VersionLabel),
    #[error("the feature {0} does not exist")]
    FeatureNotFound(FeatureId),
    #[error("the feature {0} has no version \"{1}\"")]
    VersionNotFound(FeatureId, VersionLabel),
    #[error("the default version cannot be created, changed or deleted on its own: change its feature")]
    DefaultVersion,
    /// The properties of a new version do not fit the inherited ones.
    #[error("{0}")]
    Property(InvalidProperty),
    #[error("the entity type {0} already exists")]
    EntityTypeExists(EntityType),
    #[error("the entity type {0} does not exist: create it first")]
    EntityTypeNotFound(EntityType),
    #[error("the index {1} of {0} already exists")]
    IndexExists(EntityType, VersionLabel),
    #[error("the index {1} of {0} does not exist")]
    IndexNotFound(EntityType, VersionLabel),
    #[error("the resource changed after the given entity tag was read: read it again")]
    EtagMismatch,
    #[error("the key {0} does not exist")]
    KeyNotFound(KeyId),
    #[error("an active key {0} already exists")]
    KeyExists(KeyName),
    #[error("the key {0} is revoked permanently: create another key")]
    KeyRevoked(KeyId),
    #[error("the key {0} has expired: set a new expiry with expires")]
    KeyExpired(KeyId),
    #[error("the limit of API keys is reached: revoke some")]
    TooManyKeys,
    #[error("the limit of indexes of {0} is reached: delete some")]
    TooManyIndexes(EntityType),
    #[error("the job {0} does not exist")]
    JobNotFound(JobId),
    #[error("the job {id} is {}: it cannot be changed", .state.as_str())]
    JobIsOver { id: JobId, state: JobState },
    #[error("the limit of jobs is reached: wait for some to finish, or cancel some")]
    TooManyJobs,
    /// The store cannot be reached, or did not answer in time.
    #[error("metadata store unavailable: {reason}")]
    Unavailable { reason: String, outcome_unknown: bool },
    /// A stored row breaks an invariant: it was damaged, or edited.
    #[error("inconsistent metadata: {table}.{column} of {key}")]
    DatabaseInconsistency { table: &'static str, column: &'static str, key: String },
    #[error("metadata store failed: {reason}")]
    Internal { reason: String, outcome_unknown: bool },
}

impl MetadataError {
    /// The new feature exists already.
    pub fn exists(id: FeatureId) -> Self {
        if id.is_of_bags() { Self::EntityTypeExists(id.entity_type) } else { Self::FeatureExists(id) }
    }

    /// The feature does not exist.
    pub fn not_found(id: FeatureId) -> Self {
        if id.is_of_bags() { Self::EntityTypeNotFound(id.entity_type) } else { Self::FeatureNotFound(id) }
    }

    /// The new version exists already.
    pub fn version_exists(id: FeatureId, version: VersionLabel) -> Self {
        if id.is_of_bags() { Self::IndexExists(id.entity_type, version) } else { Self::VersionExists(id, version) }
    }

    /// The version does not exist.
    pub fn version_not_found(id: FeatureId, version: VersionLabel) -> Self {
        if id.is_of_bags() { Self::IndexNotFound(id.entity_type, version) } else { Self::VersionNotFound(id, version) }
    }

    /// Whether the same request may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Why the store is unusable, without the words "metadata store".
    pub fn reason(&self) -> String {
        match self {
            Self::Unavailable { reason, .. } | Self::Internal { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// The same failure of an operation that may have completed a part.
    pub fn with_outcome_unknown(self) -> Self {
        match self {
            Self::Internal { reason, .. } => Self::Internal { reason, outcome_unknown: true },
            other => Self::Unavailable { reason: other.reason(), outcome_unknown: true },
        }
    }

    /// Whether a change with this failure may have been made nevertheless.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unavailable { outcome_unknown: true, .. } | Self::Internal { outcome_unknown: true, .. })
    }
}
