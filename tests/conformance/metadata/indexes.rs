//! Indexes of bags: versions of an entity type's bags, with a generation each.

use liststore::domain::index::{INDEXES_MAX, IndexSpec, Pointer};
use liststore::domain::{FeatureVersion, Generation};
use liststore::metadata::{Calls, MetadataError, MetadataStore, NewVersion, VersionPatch};

use super::MetadataBackend;
use super::entity_types::{bags, new_type};
use super::sample::*;

const READY: VersionPatch = VersionPatch {
    ttl: None,
    max_items: liststore::domain::MaxItemsInput::Absent,
    description: None,
    index_is_ready: true,
};

fn spec(property: &str, order_by: Option<&str>) -> IndexSpec {
    let pointer = |text: &str| Pointer::new(text).unwrap();
    IndexSpec::new(vec![pointer(property)], order_by.map(pointer)).unwrap()
}

/// Whether it is ready, and its generation.
fn state(version: &FeatureVersion) -> (Option<bool>, Generation) {
    (version.index.as_ref().map(|index| index.is_ready), version.generation)
}

async fn create_index(store: &dyn MetadataStore, name: &str) -> FeatureVersion {
    let new = NewVersion::index(label(name), spec("/country", Some("/score")));
    store.create_version(&bags("user"), new, by("creator")).await.unwrap().version
}

pub async fn an_index_is_a_version_of_bags_that_becomes_ready(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = bags("user");
    let new = NewVersion::index(label("by_country"), spec("/country", Some("/score")));
    let refused = store.create_version(&id, new.clone(), by("creator")).await;
    assert_refused!(refused, MetadataError::EntityTypeNotFound(_));
    store.create_feature(new_type("user", None), by("creator")).await.unwrap();
    let created = create_index(&*store, "by_country").await;
    assert_eq!(state(&created), (Some(false), Generation::FIRST));
    assert_eq!(created.index.as_ref().unwrap().spec.as_ref(), &spec("/country", Some("/score")));
    let again = store.create_version(&id, new, by("creator")).await;
    assert_refused!(again, MetadataError::IndexExists(_, name) if name == label("by_country"));
    let ready = store.update_version(&id, &label("by_country"), READY, ANY, by("liststore")).await.unwrap();
    assert_eq!(state(&ready.version), (Some(true), Generation::FIRST));
    // It stays so, whatever is changed, and to say it again is no change.
    let same = store.update_version(&id, &label("by_country"), READY, ANY, by("liststore")).await.unwrap();
    assert_eq!(same.version.revision, ready.version.revision);
    let described = VersionPatch { description: Some(description("d")), ..VersionPatch::default() };
    let described = store.update_version(&id, &label("by_country"), described, ANY, by("editor")).await.unwrap();
    assert_eq!(read(&*store, &id).await, described.feature);
    assert_eq!(state(&read(&*store, &id).await.versions[1]), (Some(true), Generation::FIRST));
    assert_eq!(store.definitions().await.unwrap().features, [described.feature]);
}

pub async fn an_index_created_again_has_other_lists(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = bags("user");
    store.create_feature(new_type("user", None), by("creator")).await.unwrap();
    let first = create_index(&*store, "by").await;
    store.delete_version(&id, &label("by"), ANY, by("deleter")).await.unwrap();
    let gone = store.delete_version(&id, &label("by"), ANY, by("deleter")).await;
    assert_refused!(gone, MetadataError::IndexNotFound(_, name) if name == label("by"));
    let second = create_index(&*store, "by").await;
    assert_eq!(state(&second), (Some(false), Generation::FIRST.next()));
    assert_ne!(first.key(&id), second.key(&id));
}

pub async fn an_entity_type_has_64_indexes_at_most(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = bags("user");
    store.create_feature(new_type("user", None), by("creator")).await.unwrap();
    for number in 0..INDEXES_MAX {
        create_index(&*store, &number.to_string()).await;
    }
    let more = NewVersion::index(label("more"), spec("/a", None));
    let refused = store.create_version(&id, more.clone(), by("creator")).await;
    assert_refused!(refused, MetadataError::TooManyIndexes(_));
    store.delete_version(&id, &label("7"), ANY, by("deleter")).await.unwrap();
    assert_eq!(state(&store.create_version(&id, more, by("creator")).await.unwrap().version).0, Some(false));
}
