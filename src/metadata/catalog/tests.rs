//! Readings of the store next to this server's own changes.

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
fn an_unknown_version_of_a_known_feature_is_distinguished() {
    let catalog = Catalog::default();
    catalog.publish(&definitions(1, &[feature("seen", 1, 1)]), Timestamp::MIN);
    assert_eq!(catalog.version("user", "seen", "v2"), Err(Missing::Version));
    assert_eq!(catalog.version("user", "seen2", ""), Err(Missing::Feature));
}

#[test]
fn consecutive_local_changes_advance_the_revision() {
    let catalog = Catalog::default();
    catalog.publish(&definitions(4, &[]), Timestamp::MIN);
    own(&catalog, "seen", 5, 5);
    assert_eq!((ttl(&catalog, "seen"), revision(&catalog)), (Ok(5), 5));
}

/// Otherwise the next reading would begin after the other server's change, and miss it.
#[test]
fn a_local_change_does_not_hide_an_earlier_one_of_another_server() {
    let catalog = Catalog::default();
    catalog.publish(&definitions(4, &[]), Timestamp::MIN);
    own(&catalog, "seen", 6, 6);
    assert_eq!((ttl(&catalog, "seen"), catalog.begin_reading()), (Ok(6), Some(Revision(4))));
    let changed = vec![(id("other"), Some(feature("other", 5, 5))), (id("seen"), Some(feature("seen", 6, 6)))];
    assert!(catalog.publish_changes(&Changes { revision: Revision(6), features: changed }, Timestamp::MIN));
    assert_eq!((ttl(&catalog, "other"), ttl(&catalog, "seen"), revision(&catalog)), (Ok(5), Ok(6), 6));
}

#[test]
fn a_read_from_before_a_local_change_does_not_undo_it() {
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
fn a_store_that_went_back_drops_local_changes() {
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
fn a_store_that_went_back_must_be_read_completely() {
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
fn local_changes_of_one_feature_are_published_in_order() {
    let catalog = Catalog::default();
    catalog.publish(&definitions(4, &[]), Timestamp::MIN);
    own(&catalog, "seen", 7, 7);
    own(&catalog, "seen", 6, 6);
    assert_eq!(ttl(&catalog, "seen"), Ok(7));
}

/// The answer to a COMMIT arrived late, after this server had read another server's later deletion.
#[test]
fn a_late_change_does_not_undo_a_later_read() {
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
fn a_change_creates_no_catalog_before_the_first_read() {
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
fn a_held_snapshot_never_changes() {
    let catalog = Catalog::default();
    catalog.publish(&definitions(1, &[feature("seen", 1, 1)]), Timestamp::MIN);
    let held = catalog.snapshot().unwrap();
    own(&catalog, "seen", 2, 2);
    catalog.publish(&definitions(2, &[]), Timestamp::MIN);
    assert_eq!(held.version("user", "seen", "").unwrap().properties.retention().ttl.as_secs(), 1);
    assert_eq!(ttl(&catalog, "seen"), Err(Missing::Feature));
}
