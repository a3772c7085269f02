//! The catalog: the snapshot of all definitions that every list operation reads, without a lock.
//!
//! Only the metadata actor publishes it, in the order of revisions. A reader continues with its snapshot, regardless of
//! newer snapshots and of the metadata store's state.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

pub use super::table::CatalogVersion;
use super::table::Table;
use super::{Changes, Definitions};
use crate::definition::Feature;
use crate::domain::{FeatureId, Revision, Timestamp};

/// Why a look-up found nothing.
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
    fn keep_ahead(&mut self, revision: Revision, id: &FeatureId, feature: Option<&Feature>) {
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
                publisher.keep_ahead(revision, id, feature);
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
            publisher.keep_ahead(revision, id, feature);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::VersionProperties;
    use crate::domain::{Author, EntityType, FeatureName, Ttl, ValueType};
    use crate::metadata::{Change, ChangeContext, NewFeature, change};

    fn id(name: &str) -> FeatureId {
        FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() }
    }

    fn feature(name: &str, ttl_secs: u64, revision: u64) -> Feature {
        let new = NewFeature {
            id: id(name),
            value_type: ValueType::String,
            properties: VersionProperties { ttl: Ttl::from_secs(ttl_secs).unwrap(), ..VersionProperties::default() },
            description: Default::default(),
            owner: Default::default(),
            labels: Default::default(),
        };
        let context = ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
        let transition = change::decide(Change::CreateFeature(new), None, None, Revision(revision), context);
        transition.unwrap().unwrap().after.unwrap()
    }

    fn definitions(revision: u64, features: &[Feature]) -> Definitions {
        Definitions { revision: Revision(revision), features: features.to_vec() }
    }

    fn own(catalog: &Catalog, name: &str, ttl_secs: u64, revision: u64) {
        let feature = feature(name, ttl_secs, revision);
        let _ = catalog.publish_change(Revision(revision), &feature.id, Some(&feature), Timestamp::MIN);
    }

    fn ttl(catalog: &Catalog, name: &str) -> Result<u64, Missing> {
        catalog.version("user", name, "").map(|version| version.properties.ttl.as_secs())
    }

    fn revision(catalog: &Catalog) -> u64 {
        catalog.snapshot().unwrap().revision().0
    }

    #[test]
    fn nothing_is_found_before_the_first_snapshot() {
        let catalog = Catalog::default();
        assert_eq!(ttl(&catalog, "seen"), Err(Missing::NotLoaded));
        catalog.publish(&definitions(0, &[]), Timestamp::MIN);
        assert_eq!(ttl(&catalog, "seen"), Err(Missing::Feature));
    }

    #[test]
    fn an_unknown_version_of_a_known_feature_is_told_apart() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(1, &[feature("seen", 1, 1)]), Timestamp::MIN);
        assert_eq!(catalog.version("user", "seen", "v2"), Err(Missing::Version));
        assert_eq!(catalog.version("user", "seen2", ""), Err(Missing::Feature));
    }

    #[test]
    fn own_changes_that_follow_move_the_revision_on() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(4, &[]), Timestamp::MIN);
        own(&catalog, "seen", 5, 5);
        assert_eq!((ttl(&catalog, "seen"), revision(&catalog)), (Ok(5), 5));
    }

    /// Otherwise the next reading would begin after the other server's change, and miss it.
    #[test]
    fn an_own_change_does_not_hide_the_one_before_it_of_another_server() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(4, &[]), Timestamp::MIN);
        own(&catalog, "seen", 6, 6);
        assert_eq!((ttl(&catalog, "seen"), catalog.begin_reading()), (Ok(6), Some(Revision(4))));
        let changed = vec![(id("other"), Some(feature("other", 5, 5))), (id("seen"), Some(feature("seen", 6, 6)))];
        assert!(catalog.publish_changes(&Changes { revision: Revision(6), features: changed }, Timestamp::MIN));
        assert_eq!((ttl(&catalog, "other"), ttl(&catalog, "seen"), revision(&catalog)), (Ok(5), Ok(6), 6));
    }

    #[test]
    fn what_was_read_before_an_own_change_does_not_undo_it() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(4, &[feature("gone", 1, 1)]), Timestamp::MIN);
        catalog.begin_reading();
        own(&catalog, "seen", 5, 5);
        assert_eq!(catalog.publish_change(Revision(6), &id("gone"), None, Timestamp::MIN), Published::Shown);
        catalog.publish(&definitions(4, &[feature("gone", 1, 1)]), Timestamp::MIN);
        assert_eq!((ttl(&catalog, "seen"), ttl(&catalog, "gone")), (Ok(5), Err(Missing::Feature)));
        assert_eq!(catalog.begin_reading(), Some(Revision(4)));
        catalog.publish(&definitions(7, &[feature("seen", 7, 7)]), Timestamp::MIN);
        assert_eq!((ttl(&catalog, "seen"), ttl(&catalog, "gone")), (Ok(7), Err(Missing::Feature)));
    }

    /// As after restoring a backup.
    #[test]
    fn a_store_that_went_back_takes_own_changes_with_it() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(4, &[]), Timestamp::MIN);
        catalog.begin_reading();
        own(&catalog, "seen", 5, 5);
        catalog.publish(&definitions(4, &[]), Timestamp::MIN);
        assert_eq!(ttl(&catalog, "seen"), Ok(5));
        catalog.begin_reading();
        catalog.publish(&definitions(3, &[]), Timestamp::MIN);
        assert_eq!(ttl(&catalog, "seen"), Err(Missing::Feature));
    }

    /// The remaining changes do not show which ones were lost.
    #[test]
    fn a_store_that_went_back_is_to_be_read_as_a_whole() {
        let nothing = Changes { revision: Revision(4), features: Vec::new() };
        let catalog = Catalog::default();
        catalog.publish(&definitions(4, &[]), Timestamp::MIN);
        catalog.begin_reading();
        own(&catalog, "seen", 5, 5);
        assert!(catalog.publish_changes(&nothing, Timestamp::MIN), "it was read before the change");
        assert_eq!((ttl(&catalog, "seen"), catalog.begin_reading()), (Ok(5), Some(Revision(4))));
        assert!(!catalog.publish_changes(&nothing, Timestamp::MIN));
        catalog.publish(&definitions(4, &[]), Timestamp::MIN);
        assert_eq!(ttl(&catalog, "seen"), Err(Missing::Feature));
    }

    #[test]
    fn own_changes_of_one_feature_are_published_in_their_order() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(4, &[]), Timestamp::MIN);
        own(&catalog, "seen", 7, 7);
        own(&catalog, "seen", 6, 6);
        assert_eq!(ttl(&catalog, "seen"), Ok(7));
    }

    /// The answer to a COMMIT arrived late, after this server had read another server's later deletion.
    #[test]
    fn a_change_that_is_told_of_late_does_not_undo_what_was_read_since() {
        let catalog = Catalog::default();
        let late = feature("seen", 5, 5);
        catalog.publish(&definitions(4, &[feature("seen", 4, 4)]), Timestamp::MIN);
        catalog.begin_reading();
        let deleted = Changes { revision: Revision(6), features: vec![(id("seen"), None)] };
        assert!(catalog.publish_changes(&deleted, Timestamp::MIN));
        assert_eq!(catalog.publish_change(Revision(5), &late.id, Some(&late), Timestamp::MIN), Published::Withheld);
        assert_eq!((ttl(&catalog, "seen"), revision(&catalog)), (Err(Missing::Feature), 6));
        catalog.begin_reading();
        assert_eq!(catalog.publish_change(Revision(6), &late.id, Some(&late), Timestamp::MIN), Published::Withheld);
        catalog.publish(&definitions(6, &[]), Timestamp::MIN);
        assert_eq!(ttl(&catalog, "seen"), Err(Missing::Feature));
    }

    /// Otherwise a server that cannot read its definitions would become ready with one of them.
    #[test]
    fn a_change_makes_no_catalog_where_none_was_read() {
        let catalog = Catalog::default();
        let first = feature("first", 1, 1);
        assert_eq!(catalog.publish_change(Revision(1), &first.id, Some(&first), Timestamp::MIN), Published::Withheld);
        assert!(catalog.snapshot().is_none());
        catalog.begin_reading();
        own(&catalog, "second", 2, 2);
        assert!(catalog.snapshot().is_none());
        catalog.publish(&definitions(1, &[first]), Timestamp::MIN);
        assert_eq!((ttl(&catalog, "first"), ttl(&catalog, "second")), (Ok(1), Ok(2)), "it was made during the reading");
    }

    /// Otherwise a server would hold all definitions twice after a second reading, until the next change.
    #[test]
    fn a_replaced_snapshot_stays_for_its_readers_only() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(1, &[]), Timestamp::MIN);
        let replaced = Arc::downgrade(&catalog.snapshot().unwrap());
        catalog.publish(&definitions(2, &[]), Timestamp::MIN);
        assert!(replaced.upgrade().is_none());
        let held = catalog.snapshot().unwrap();
        own(&catalog, "seen", 1, 3);
        assert_eq!((catalog.publisher().replaced.len(), Arc::strong_count(&held)), (1, 2));
        drop(held);
        own(&catalog, "seen", 1, 4);
        assert!(catalog.publisher().replaced.is_empty());
    }

    #[test]
    fn a_held_snapshot_stays_as_it_is() {
        let catalog = Catalog::default();
        catalog.publish(&definitions(1, &[feature("seen", 1, 1)]), Timestamp::MIN);
        let held = catalog.snapshot().unwrap();
        own(&catalog, "seen", 2, 2);
        catalog.publish(&definitions(2, &[]), Timestamp::MIN);
        assert_eq!(held.version("user", "seen", "").unwrap().properties.retention().ttl.as_secs(), 1);
        assert_eq!(ttl(&catalog, "seen"), Err(Missing::Feature));
    }
}
