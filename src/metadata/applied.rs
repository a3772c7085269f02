//! The outcome of a change, and the result that each kind of change returns.

use std::time::Duration;

use super::change::Transition;
use super::{Change, MetadataError};
use crate::definition::{Feature, FeatureVersion};
use crate::domain::{FeatureId, Revision, Timestamp, Ttl, VersionLabel};

/// A change that was made, or that had no effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The number of the change, or of the state that it left unchanged.
    pub revision: Revision,
    pub id: FeatureId,
    /// The version that the change concerned, unless it concerned the whole feature.
    version: Option<VersionLabel>,
    before: Option<Feature>,
    /// The feature after the change; `None` if it was deleted.
    pub after: Option<Feature>,
    /// Whether the change had an effect.
    pub is_change: bool,
}

/// The outcome of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub struct Deleted {
    /// The number of the deletion.
    pub revision: Revision,
    /// The longest TTL that the deleted part ever had.
    pub ttl_max: Ttl,
    /// The remaining feature, after the deletion of a version.
    pub remaining: Option<Feature>,
}

/// A version after its creation or change, with its feature.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionChanged {
    pub version: FeatureVersion,
    pub feature: Feature,
}

impl Deleted {
    /// When the last items of the part deleted at `now` expire. Other servers may accept adds until their catalogs
    /// follow, within `catalog_lag_max`.
    pub fn items_expire_by(&self, now: Timestamp, catalog_lag_max: Duration) -> Timestamp {
        let lifetime = self.ttl_max.as_duration() + catalog_lag_max;
        Timestamp::saturating_from_nanos(u128::from(now.as_nanos()) + lifetime.as_nanos())
    }
}

impl Applied {
    /// Builds the outcome of a change. `transition` is the written transition, if the change had an effect.
    pub fn new(change: &Change, before: Option<Feature>, transition: Option<Transition>) -> Self {
        let (id, version) = (change.feature().clone(), change.version().cloned());
        match transition {
            Some(Transition { after, entry, .. }) => {
                Self { revision: entry.revision, id, version, before, after, is_change: true }
            }
            None => {
                let revision = before.as_ref().map_or(Revision::default(), |feature| feature.revision);
                Self { revision, id, version, after: before.clone(), before, is_change: false }
            }
        }
    }

    /// The feature that was created or changed.
    pub fn into_feature(self) -> Result<Feature, MetadataError> {
        self.after.ok_or(MetadataError::not_found(self.id))
    }

    /// The version that was created or changed.
    pub fn into_version(self) -> Result<VersionChanged, MetadataError> {
        let Self { id, version, after, .. } = self;
        let label = version.unwrap_or_else(VersionLabel::default_version);
        let feature = after.ok_or_else(|| MetadataError::not_found(id.clone()))?;
        let version = feature.version(&label).cloned().ok_or(MetadataError::version_not_found(id, label))?;
        Ok(VersionChanged { version, feature })
    }

    /// The deleted feature or version.
    pub fn into_deleted(self) -> Result<Deleted, MetadataError> {
        let Self { revision, id, version, before, after: remaining, .. } = self;
        let before = before.ok_or_else(|| MetadataError::not_found(id.clone()))?;
        let ttl_max = match version {
            None => before.ttl_max,
            Some(label) => before
                .version(&label)
                .map(|version| version.ttl_max)
                .ok_or(MetadataError::version_not_found(id, label))?,
        };
        Ok(Deleted { revision, ttl_max, remaining })
    }
}
