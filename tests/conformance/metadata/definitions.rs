//! The source of the catalog.

use liststore::domain::Revision;
use liststore::metadata::{Calls, FeaturePatch};

use super::MetadataBackend;
use super::sample::*;

pub async fn a_snapshot_has_all_definitions(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    assert!(store.definitions().await.unwrap().features.is_empty());
    for name in ["b", "a", "c", "gone"] {
        let id = id("user", name);
        create(&*store, &id).await;
        store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
    }
    store.delete_feature(&id("user", "gone"), ANY, by("deleter")).await.unwrap();
    store.delete_version(&id("user", "a"), &label("v"), ANY, by("deleter")).await.unwrap();
    let last = store.update_feature(&id("user", "b"), feature_ttl(5), ANY, by("editor")).await.unwrap();
    let definitions = store.definitions().await.unwrap();
    let mut expected = Vec::new();
    for name in ["a", "b", "c"] {
        expected.push(read(&*store, &id("user", name)).await);
    }
    assert_eq!(definitions.features, expected);
    assert_eq!(definitions.revision, last.revision);
}

pub async fn every_change_takes_the_next_revision(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (f, g, v) = (id("user", "f"), id("item", "g"), label("v"));
    let present = async || store.definitions().await.unwrap().revision;
    let start = present().await;
    let mut taken = vec![start];
    let mut take = |revision: Revision| taken.push(revision);
    take(create(&*store, &f).await.revision);
    take(create(&*store, &g).await.revision);
    take(store.create_version(&f, new_version("v"), by("x")).await.unwrap().version.revision);
    take(store.update_version(&f, &v, version_ttl(5), ANY, by("x")).await.unwrap().version.revision);
    // Nothing changes, so it takes no number.
    store.update_version(&f, &v, version_ttl(5), ANY, by("x")).await.unwrap();
    store.update_feature(&g, FeaturePatch::default(), ANY, by("x")).await.unwrap();
    take(store.update_feature(&g, feature_ttl(5), ANY, by("x")).await.unwrap().revision);
    take(store.delete_version(&f, &v, ANY, by("x")).await.unwrap().revision);
    take(store.delete_feature(&f, ANY, by("x")).await.unwrap().revision);
    take(create(&*store, &f).await.revision);
    let expected: Vec<_> = (0..taken.len() as u64).map(|n| Revision(start.0 + n)).collect();
    assert_eq!(taken, expected);
    assert_eq!(present().await, *taken.last().unwrap());
}
