//! The embedded metadata store with untrusted files and failing disks.

mod audit;
mod damage;
mod forgetful;
mod full_disk;
mod together;

use std::collections::BTreeMap;
use std::fs;

use redb::TableDefinition;

use super::*;
use crate::definition::Feature;
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{
    Author, Description, EntityType, FeatureId, FeatureName, Labels, Limit, Owner, Timestamp, Ttl, ValueType,
};
use crate::metadata::{Calls, ChangeContext, Definitions, Frozen, MetadataStore, NewFeature, Precondition};

fn id() -> FeatureId {
    FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("f").unwrap() }
}

fn context() -> ChangeContext {
    ChangeContext { by: Author::anonymous(), at: Timestamp::MIN }
}

fn ttl(secs: u64) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

fn new_feature() -> NewFeature {
    NewFeature {
        id: id(),
        value_type: ValueType::String,
        properties: VersionProperties { ttl: ttl(1), ..VersionProperties::default() },
        description: Description::default(),
        owner: Owner::default(),
        labels: Labels::new(BTreeMap::new()).unwrap(),
    }
}

async fn set_ttl(store: &impl MetadataStore, secs: u64) -> Result<Feature, MetadataError> {
    let patch = GivenProperties { ttl: Some(ttl(secs)), ..GivenProperties::default() }.into();
    store.update_feature(&id(), patch, Precondition::None, context()).await
}

async fn revisions(store: &impl MetadataStore) -> Vec<u64> {
    let page = store.history(&id(), None, Limit::of_page(1_000).unwrap()).await.unwrap().unwrap();
    page.entries.iter().rev().map(|entry| entry.revision.0).collect()
}

fn refusal(dir: &Path) -> String {
    open(dir).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_second_open_reports_that_the_file_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Locked { .. })));
    drop(first);
    open(dir.path()).unwrap();
}

#[test]
fn foreign_and_newer_files_are_refused_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);

    for garbage in [b"some text, longer than the magic number of any file format".to_vec(), vec![0xff; 40_000]] {
        fs::write(&file, &garbage).unwrap();
        assert!(refusal(dir.path()).contains("is not a metadata file of liststore"), "{}", refusal(dir.path()));
        assert_eq!(fs::read(&file).unwrap(), garbage);
    }
    fs::remove_file(&file).unwrap();

    let other = Database::create(&file).unwrap();
    let transaction = other.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("theirs")).unwrap();
    transaction.commit().unwrap();
    drop(other);
    assert!(refusal(dir.path()).contains("is not a metadata file of liststore"), "{}", refusal(dir.path()));
    fs::remove_file(&file).unwrap();

    drop(open(dir.path()).unwrap());
    let ours = Database::create(&file).unwrap();
    let transaction = ours.begin_write().unwrap();
    transaction
        .open_table(TableDefinition::<&str, u64>::new("meta"))
        .unwrap()
        .insert("format", format::FORMATS.present() + 1)
        .unwrap();
    transaction.commit().unwrap();
    drop(ours);
    assert!(
        refusal(dir.path()).contains("newer liststore (format 2, this version supports 1)"),
        "{}",
        refusal(dir.path())
    );
}

#[tokio::test]
async fn a_broken_record_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    drop(store);
    let database = Database::create(dir.path().join(FILE_NAME)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(TableDefinition::<&str, &[u8]>::new("features"))
        .unwrap()
        .insert("user\0f", b"{}".as_slice())
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refusal = refusal(dir.path());
    assert!(refusal.contains("is damaged: inconsistent metadata: features.record of user.f"), "{refusal}");
}

#[tokio::test]
async fn a_backup_of_a_store_in_use_has_all_acknowledged_changes() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    for secs in 2..60 {
        set_ttl(&store, secs).await.unwrap();
    }
    let Frozen { snapshot, changes } = store.freeze().unwrap();
    drop(changes);
    snapshot.write(to.path()).unwrap();
    set_ttl(&store, 100).await.unwrap();
    let found = verify(to.path()).unwrap().unwrap();
    assert_eq!((found.features, found.changes), (1, 59));
    let restored = open(to.path()).unwrap();
    assert_eq!(restored.feature(&id()).await.unwrap().unwrap().properties().ttl, ttl(59));
    assert_eq!(revisions(&restored).await, (1..=59).collect::<Vec<_>>());
    // It continues the revisions of the backup.
    assert_eq!(set_ttl(&restored, 3).await.unwrap().revision.0, 60);
}
