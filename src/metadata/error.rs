//! How a metadata store can refuse or fail, in words that do not depend on the store.

use super::job_state::JobState;
use crate::domain::{EntityType, FeatureId, Invalid, JobId, KeyId, KeyName, VersionLabel};

#[derive(Debug, Clone, thiserror::Error)]
pub enum MetadataError {
    #[error("the feature {0} exists already")]
    FeatureExists(FeatureId),
    #[error("the version \"{1}\" of the feature {0} exists already")]
    VersionExists(FeatureId, VersionLabel),
    #[error("there is no feature {0}")]
    FeatureNotFound(FeatureId),
    #[error("the feature {0} has no version \"{1}\"")]
    VersionNotFound(FeatureId, VersionLabel),
    #[error("the default version is created, changed and deleted with its feature only")]
    DefaultVersion,
    /// What a version is created from does not go together with what it inherits.
    #[error("{0}")]
    Identity(Invalid),
    /// The same of its buckets.
    #[error("{0}")]
    Bucket(Invalid),
    #[error("the entity type {0} exists already")]
    EntityTypeExists(EntityType),
    #[error("there is no entity type {0}: bags are kept of those that were created")]
    EntityTypeNotFound(EntityType),
    #[error("the bags of {0} have an index {1} already")]
    IndexExists(EntityType, VersionLabel),
    #[error("the bags of {0} have no index {1}")]
    IndexNotFound(EntityType, VersionLabel),
    #[error("it was changed since the given entity tag was read")]
    EtagMismatch,
    #[error("there is no key {0}")]
    KeyNotFound(KeyId),
    #[error("there is a key {0} already, which is not revoked")]
    KeyExists(KeyName),
    #[error("the key {0} is revoked, for ever: create another one")]
    KeyRevoked(KeyId),
    #[error("the key {0} has expired: say when it is to expire from now on")]
    KeyExpired(KeyId),
    #[error("there are as many keys as there may be: revoke some")]
    TooManyKeys,
    #[error("the bags of {0} have as many indexes as there may be: delete some")]
    TooManyIndexes(EntityType),
    #[error("there is no job {0}")]
    JobNotFound(JobId),
    #[error("the job {id} is {}: nothing is done for it any more", .state.as_str())]
    JobIsOver { id: JobId, state: JobState },
    #[error("there are as many jobs as there may be: wait for some to be done, or cancel some")]
    TooManyJobs,
    /// The store cannot be reached, or did not answer in time.
    #[error("metadata store unavailable: {reason}")]
    Unavailable { reason: String, outcome_unknown: bool },
    /// A stored row breaks an invariant: it was damaged, or changed by other hands.
    #[error("inconsistent metadata: {table}.{column} of {key}")]
    DatabaseInconsistency { table: &'static str, column: &'static str, key: String },
    #[error("metadata store failed: {reason}")]
    Internal { reason: String, outcome_unknown: bool },
}

impl MetadataError {
    /// What is to be created is there already.
    pub fn exists(id: FeatureId) -> Self {
        if id.is_of_bags() { Self::EntityTypeExists(id.entity_type) } else { Self::FeatureExists(id) }
    }

    /// What is asked for is not there.
    pub fn not_found(id: FeatureId) -> Self {
        if id.is_of_bags() { Self::EntityTypeNotFound(id.entity_type) } else { Self::FeatureNotFound(id) }
    }

    /// What is to be created is there already.
    pub fn version_exists(id: FeatureId, version: VersionLabel) -> Self {
        if id.is_of_bags() { Self::IndexExists(id.entity_type, version) } else { Self::VersionExists(id, version) }
    }

    /// What is asked for is not there.
    pub fn version_not_found(id: FeatureId, version: VersionLabel) -> Self {
        if id.is_of_bags() { Self::IndexNotFound(id.entity_type, version) } else { Self::VersionNotFound(id, version) }
    }

    /// Whether the same request may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Why the store is of no use now, without what the words "metadata store" already say.
    pub fn reason(&self) -> String {
        match self {
            Self::Unavailable { reason, .. } | Self::Internal { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// The same failure of an operation that has done a part before.
    pub fn with_outcome_unknown(self) -> Self {
        match self {
            Self::Internal { reason, .. } => Self::Internal { reason, outcome_unknown: true },
            other => Self::Unavailable { reason: other.reason(), outcome_unknown: true },
        }
    }

    /// Whether a change that failed so may have been carried out all the same.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unavailable { outcome_unknown: true, .. } | Self::Internal { outcome_unknown: true, .. })
    }
}
