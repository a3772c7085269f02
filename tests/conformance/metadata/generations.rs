//! Generations: a definition that is created again starts with separate lists, any number of times.

use std::collections::HashSet;

use liststore::domain::{FeatureId, FeatureKey};
use liststore::metadata::{Calls, MetadataStore};

use super::MetadataBackend;
use super::sample::*;

async fn key_of(store: &dyn MetadataStore, id: &FeatureId, version: &str) -> FeatureKey {
    read(store, id).await.version(&label(version)).unwrap().key(id)
}

pub async fn a_feature_created_again_has_new_lists(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    for expected in ["user#f|", "user#f|~2", "user#f|~3"] {
        create(&*store, &id).await;
        assert_eq!(key_of(&*store, &id, "").await.as_str(), expected);
        store.delete_feature(&id, ANY, by("deleter")).await.unwrap();
    }
}

pub async fn a_version_created_again_has_new_lists(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    for expected in ["user#f|v", "user#f|v~2", "user#f|v~3"] {
        store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
        assert_eq!(key_of(&*store, &id, "v").await.as_str(), expected);
        store.delete_version(&id, &label("v"), ANY, by("deleter")).await.unwrap();
    }
    assert_eq!(key_of(&*store, &id, "").await.as_str(), "user#f|", "the default version was never deleted");
}

pub async fn versions_of_a_feature_created_again_have_new_lists(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let mut keys = HashSet::new();
    for round in 0..4 {
        create(&*store, &id).await;
        // Not every version exists in every round. Some are deleted before the feature.
        for version in ["v", "w"].into_iter().skip(round % 2) {
            store.create_version(&id, new_version(version), by("creator")).await.unwrap();
            if round == 2 {
                assert!(keys.insert(key_of(&*store, &id, version).await));
                store.delete_version(&id, &label(version), ANY, by("deleter")).await.unwrap();
                store.create_version(&id, new_version(version), by("creator")).await.unwrap();
            }
        }
        for version in read(&*store, &id).await.versions {
            let key = version.key(&id);
            assert!(keys.insert(key.clone()), "the key {key} was used before");
        }
        store.delete_feature(&id, ANY, by("deleter")).await.unwrap();
    }
    assert_eq!(keys.len(), 4 + 3 + 5);
}

pub async fn names_count_their_generations_separately(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let again = id("user", "f");
    for _ in 0..2 {
        create(&*store, &again).await;
        store.create_version(&again, new_version("v"), by("creator")).await.unwrap();
        store.delete_feature(&again, ANY, by("deleter")).await.unwrap();
    }
    for other in [id("user", "F"), id("users", "f"), id("user", "f2"), id("f", "user")] {
        create(&*store, &other).await;
        store.create_version(&other, new_version("v"), by("creator")).await.unwrap();
        for version in ["", "v"] {
            let expected = format!("{}#{}|{version}", other.entity_type, other.name);
            assert_eq!(key_of(&*store, &other, version).await.as_str(), expected);
        }
    }
}
