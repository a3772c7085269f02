//! Changes that race one another.

use futures_util::future::join_all;
use liststore::metadata::{Calls, FeaturePatch, MetadataError, NewFeature};

use super::MetadataBackend;
use super::sample::*;
use crate::insist::insist;

const RACERS: u64 = 16;

pub async fn of_racing_creations_one_wins(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    for round in 1..=3 {
        let creations = (1..=RACERS).map(|n| {
            let (store, new) = (&store, NewFeature { ttl: ttl(n), ..new_feature(&id) });
            insist(async move || store.create_feature(new.clone(), by(&format!("racer-{n}"))).await)
        });
        let (won, lost): (Vec<_>, Vec<_>) = join_all(creations).await.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "round {round}");
        for loser in lost {
            assert_refused!(loser, MetadataError::FeatureExists(_));
        }
        let winner = won.into_iter().next().unwrap().unwrap();
        assert_eq!(read(&*store, &id).await, winner);
        assert_eq!(winner.versions[0].generation.as_u64(), round);
        store.delete_feature(&id, ANY, by("deleter")).await.unwrap();
        assert_eq!(whole_history(&*store, &id).await.unwrap().len(), 2 * round as usize);
    }
}

pub async fn of_racing_conditional_updates_one_wins(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let revision = create(&*store, &id).await.revision;
    let updates = (1..=RACERS).map(|n| {
        let patch = FeaturePatch { description: Some(description(&n.to_string())), ..FeaturePatch::default() };
        let (store, id) = (&store, &id);
        insist(async move || store.update_feature(id, patch.clone(), only_if(revision), by("racer")).await)
    });
    let (won, lost): (Vec<_>, Vec<_>) = join_all(updates).await.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    for loser in lost {
        assert_refused!(loser, MetadataError::EtagMismatch);
    }
    assert_eq!(read(&*store, &id).await, won.into_iter().next().unwrap().unwrap());
    assert_eq!(whole_history(&*store, &id).await.unwrap().len(), 2);
}

pub async fn racing_versions_of_one_feature_all_come_to_be(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let start = create(&*store, &id).await.revision;
    let creations = (1..=RACERS).map(|n| {
        let (store, id) = (&store, &id);
        insist(async move || store.create_version(id, new_version(&format!("v{n:02}")), by("racer")).await)
    });
    let mut revisions: Vec<_> = join_all(creations).await.into_iter().map(|v| v.unwrap().version.revision.0).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (start.0 + 1..=start.0 + RACERS).collect::<Vec<_>>(), "no revision is taken twice");
    assert_eq!(read(&*store, &id).await.versions.len(), 1 + RACERS as usize);
    assert_eq!(whole_history(&*store, &id).await.unwrap().len(), 1 + RACERS as usize);
}
