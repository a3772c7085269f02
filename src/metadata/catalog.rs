//! The catalog: the snapshot of all definitions that every list operation reads, without a lock.
//!
//! The metadata actor alone publishes it, in the order of revisions. A reader that holds a snapshot
//! goes on with it, whatever is published meanwhile and whether or not the metadata store is there.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::Definitions;
use crate::domain::{Feature, FeatureId, FeatureKey, Revision, Timestamp, Ttl, ValueType};

/// What a list operation needs to know of a feature version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogVersion {
    pub feature_key: FeatureKey,
    pub value_type: ValueType,
    pub ttl: Ttl,
}

/// Why a look-up found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// No snapshot has been published yet.
    NotLoaded,
    Feature,
    Version,
}

type Versions = HashMap<Arc<str>, CatalogVersion>;
type Features = HashMap<Arc<str>, Arc<Versions>>;

/// All definitions as of one revision, by entity type, feature name and version label.
#[derive(Debug, Default, Clone)]
pub struct Snapshot {
    revision: Revision,
    synced_at: Timestamp,
    entity_types: HashMap<Arc<str>, Arc<Features>>,
}

impl Snapshot {
    fn of(definitions: &Definitions, synced_at: Timestamp) -> Self {
        let mut entity_types: HashMap<Arc<str>, Features> = HashMap::new();
        for feature in &definitions.features {
            let features = entity_types.entry(feature.id.entity_type.as_str().into()).or_default();
            features.insert(feature.id.name.as_str().into(), Arc::new(versions_of(feature)));
        }
        let entity_types = entity_types.into_iter().map(|(name, features)| (name, Arc::new(features))).collect();
        Self { revision: definitions.revision, synced_at, entity_types }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// When this snapshot was last known to be the metadata store's present state.
    pub fn synced_at(&self) -> Timestamp {
        self.synced_at
    }

    pub fn version(&self, entity_type: &str, name: &str, version: &str) -> Result<&CatalogVersion, Missing> {
        let versions =
            self.entity_types.get(entity_type).and_then(|features| features.get(name)).ok_or(Missing::Feature)?;
        versions.get(version).ok_or(Missing::Version)
    }

    fn set(&mut self, id: &FeatureId, feature: Option<&Feature>) {
        let features = self.entity_types.entry(id.entity_type.as_str().into()).or_default();
        let features = Arc::make_mut(features);
        match feature {
            Some(feature) => features.insert(id.name.as_str().into(), Arc::new(versions_of(feature))),
            None => features.remove(id.name.as_str()),
        };
    }
}

fn versions_of(feature: &Feature) -> Versions {
    let version_of = |version: &crate::domain::FeatureVersion| CatalogVersion {
        feature_key: version.key(&feature.id),
        value_type: feature.value_type,
        ttl: version.ttl,
    };
    feature.versions.iter().map(|version| (version.version.as_str().into(), version_of(version))).collect()
}

/// The place where the present snapshot is found. Cheap to clone; all clones see the same.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    snapshot: Arc<ArcSwapOption<Snapshot>>,
}

impl Catalog {
    /// The present snapshot, or `None` before the first was published.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// Looks a version up in the present snapshot.
    pub fn version(&self, entity_type: &str, name: &str, version: &str) -> Result<CatalogVersion, Missing> {
        match &*self.snapshot.load() {
            Some(snapshot) => snapshot.version(entity_type, name, version).cloned(),
            None => Err(Missing::NotLoaded),
        }
    }

    /// Publishes all definitions as the metadata store has them. For the metadata actor only.
    pub fn publish(&self, definitions: &Definitions, synced_at: Timestamp) {
        self.snapshot.store(Some(Arc::new(Snapshot::of(definitions, synced_at))));
    }

    /// Publishes one change on top of the present snapshot. For the metadata actor only, which
    /// makes changes one after another.
    pub fn publish_change(&self, revision: Revision, id: &FeatureId, feature: Option<&Feature>, at: Timestamp) {
        let mut snapshot = self.snapshot().map(|present| (*present).clone()).unwrap_or_default();
        snapshot.set(id, feature);
        // A change that changed nothing has the revision of an earlier one.
        snapshot.revision = snapshot.revision.max(revision);
        snapshot.synced_at = at;
        self.snapshot.store(Some(Arc::new(snapshot)));
    }
}
