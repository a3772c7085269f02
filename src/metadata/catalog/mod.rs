//! The catalog: the snapshot of all definitions that every list operation reads, without a lock.
//!
//! Only the metadata actor publishes it, in the order of revisions. A reader continues with its snapshot, regardless of
//! newer snapshots and of the metadata store's state.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

pub use super::table::CatalogVersion;
use super::table::Table;
use super::{Changes, Definitions};
use crate::definition::Feature;
use crate::domain::{FeatureId, Revision, Timestamp};

/// Why a lookup found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// No snapshot has been published yet.
    NotLoaded,
    Feature,
    Version,
}

/// All definitions as of one revision, with this server's own later changes.
#[derive(Debug, Default, Clone)]
pub struct Snapshot {
    revision: Revision,
    synced_at: Timestamp,
    table: Table,
    /// Whether it was read from a file, because the metadata store was unreachable.
    stored: bool,
}

impl Snapshot {
    pub(super) fn stored(revision: Revision, synced_at: Timestamp, table: Table) -> Self {
        Self { revision, synced_at, table, stored: true }
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub fn is_empty(&self) -> bool {
        self.table.versions().next().is_none()
    }

    /// Whether an earlier process stored it on disk, and this process has not read the metadata store yet.
    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// The revision up to which it includes all changes of all servers.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// When this snapshot last equalled the metadata store's state.
    pub fn synced_at(&self) -> Timestamp {
        self.synced_at
    }

    /// All versions of a feature, in no order.
    pub fn versions_of<'a>(&'a self, id: &'a FeatureId) -> impl Iterator<Item = &'a CatalogVersion> {
        self.table.versions_of(id)
    }

    /// All versions of all features, in no order.
    pub fn versions(&self) -> impl Iterator<Item = &CatalogVersion> {
        self.table.versions()
    }

    pub fn version(&self, entity_type: &str, name: &str, version: &str) -> Result<&CatalogVersion, Missing> {
        match self.table.get(entity_type, name, version) {
            Some(found) => Ok(found),
            // Every feature has its default version.
            None if self.table.get(entity_type, name, "").is_some() => Err(Missing::Version),
            None => Err(Missing::Feature),
        }
    }
}

/// All definitions of a store, collected for the catalog without unused parts.
#[derive(Debug, Default)]
pub struct Collected {
    table: Option<Table>,
}

impl Collected {
    /// Adds each feature once. `count` is the number of features.
    pub fn add(&mut self, feature: &Feature, count: usize) {
        self.table.get_or_insert_with(|| Table::expecting(count)).insert(&feature.id, feature);
    }
}

/// The outcome of publishing a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    Shown,
    /// The catalog stays unchanged, because it shows a newer state, or none yet. The caller must read all definitions.
    Withheld,
}

/// The state that publishing needs.
#[derive(Debug, Default)]
struct Publisher {
    /// Whether a reading of the store is running, whose result is published next.
    reading: bool,
    /// The number of started readings.
    readings: u64,
    /// This server's own changes that a running reading, or the current snapshot's revision, may not include.
    ahead: HashMap<FeatureId, Ahead>,
    /// Replaced snapshots that readers may still hold. They are dropped here, so that no reader has to drop 100,000
    /// entries.
    replaced: Vec<Arc<Snapshot>>,
}

impl Publisher {
    fn keep_own_change(&mut self, revision: Revision, id: &FeatureId, feature: Option<&Feature>) {
        let ahead = Ahead { revision, feature: feature.cloned(), readings: self.readings };
        self.ahead.insert(id.clone(), ahead);
    }

    /// Whether a store with this revision lacks a change that the running reading should include.
    fn has_lost(&self, revision: Revision) -> bool {
        self.ahead.values().any(|ahead| ahead.readings < self.readings && ahead.revision > revision)
    }
}

/// A change that this server made.
#[derive(Debug)]
struct Ahead {
    revision: Revision,
    /// `None` if it was deleted.
    feature: Option<Feature>,
    /// The number of readings started before the change. The next reading includes the change, or the store returned to
    /// an earlier state, for example by restoring a backup.
    readings: u64,
}

/// Access to the current snapshot. Cheap to clone; all clones share it.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    snapshot: Arc<ArcSwapOption<Snapshot>>,
    publisher: Arc<Mutex<Publisher>>,
}

impl Catalog {
    /// The current snapshot, or `None` before the first one.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// Looks a version up in the current snapshot.
    pub fn version(&self, entity_type: &str, name: &str, version: &str) -> Result<CatalogVersion, Missing> {
        match &*self.snapshot.load() {
            Some(snapshot) => snapshot.version(entity_type, name, version).cloned(),
            None => Err(Missing::NotLoaded),
        }
    }

    /// Starts a reading of definitions or changes. From then on the catalog retains this server's own changes until the
    /// reading certainly includes them.
    ///
    /// Returns the revision up to which it has all changes. Only the metadata actor calls this and the `publish`
    /// functions.
    pub fn begin_reading(&self) -> Option<Revision> {
        let mut publisher = self.publisher();
        publisher.reading = true;
        publisher.readings += 1;
        self.snapshot.load().as_ref().filter(|snapshot| !snapshot.stored).map(|snapshot| snapshot.revision)
    }

    /// Publishes the copy of an earlier process, and returns whether it did. It never replaces definitions that were
    /// read from the store.
    #[must_use]
    pub fn publish_stored(&self, snapshot: Snapshot) -> bool {
        let mut publisher = self.publisher();
        let first = self.snapshot.load().is_none();
        if first {
            self.swap(&mut publisher, snapshot);
        }
        first
    }

    /// Publishes all definitions of the store.
    pub fn publish(&self, definitions: &Definitions, synced_at: Timestamp) {
        let mut collected = Collected::default();
        definitions.features.iter().for_each(|feature| collected.add(feature, definitions.features.len()));
        self.publish_collected(definitions.revision, collected, synced_at);
    }

    /// Publishes definitions that were collected one by one.
    pub fn publish_collected(&self, revision: Revision, Collected { table }: Collected, synced_at: Timestamp) {
        let table = table.unwrap_or_default();
        self.publish_read(Snapshot { revision, synced_at, table, stored: false });
    }

    /// Publishes the changes since the revision that [`Self::begin_reading`] returned. Returns false without publishing
    /// if the store lost a change of this server. Then the caller must read all definitions.
    #[must_use]
    pub fn publish_changes(&self, changes: &Changes, synced_at: Timestamp) -> bool {
        if self.publisher().has_lost(changes.revision) {
            return false;
        }
        let mut snapshot = self.present();
        for (id, feature) in &changes.features {
            snapshot.table.set(id, feature.as_ref());
        }
        self.publish_read(Snapshot { revision: changes.revision, synced_at, ..snapshot });
        true
    }

    /// Publishes a change of this server, unless a later reading is newer.
    #[must_use]
    pub fn publish_change(
        &self,
        revision: Revision,
        id: &FeatureId,
        feature: Option<&Feature>,
        at: Timestamp,
    ) -> Published {
        let mut publisher = self.publisher();
        let Some(mut snapshot) = self.snapshot().map(|present| (*present).clone()) else {
            // One definition is no catalog, so the store must be read first. A running reading may have begun before
            // the change.
            if publisher.reading {
                publisher.keep_own_change(revision, id, feature);
            }
            return Published::Withheld;
        };
        let newest = publisher.ahead.get(id).map_or(snapshot.revision, |ahead| ahead.revision.max(snapshot.revision));
        if newest >= revision {
            return Published::Withheld;
        }
        snapshot.table.set(id, feature);
        let follows = revision.0 == snapshot.revision.0 + 1 && !snapshot.stored;
        if follows {
            snapshot.revision = revision;
            snapshot.synced_at = at;
        }
        if publisher.reading || !follows {
            publisher.keep_own_change(revision, id, feature);
        }
        self.swap(&mut publisher, snapshot);
        Published::Shown
    }

    /// Publishes the result of a reading, with this server's own later changes.
    fn publish_read(&self, mut snapshot: Snapshot) {
        let mut publisher = self.publisher();
        publisher.reading = false;
        let readings = publisher.readings;
        publisher.ahead.retain(|_, ahead| ahead.readings == readings && ahead.revision > snapshot.revision);
        for (id, ahead) in &publisher.ahead {
            snapshot.table.set(id, ahead.feature.as_ref());
        }
        self.swap(&mut publisher, snapshot);
    }

    fn present(&self) -> Snapshot {
        self.snapshot().map(|present| (*present).clone()).unwrap_or_default()
    }

    fn swap(&self, publisher: &mut Publisher, snapshot: Snapshot) {
        publisher.replaced.extend(self.snapshot.swap(Some(Arc::new(snapshot))));
        publisher.replaced.retain(|replaced| Arc::strong_count(replaced) > 1);
    }

    fn publisher(&self) -> MutexGuard<'_, Publisher> {
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
