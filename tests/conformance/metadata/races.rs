//! Changes that race one another.

use futures_util::future::join_all;
use liststore::domain::FeatureId;
use liststore::metadata::{Calls, Change, FeaturePatch, HistoryEntry, MetadataError, NewFeature};
use liststore::wire::Annotations;

use super::MetadataBackend;
use super::sample::*;
use crate::insist::insist;

const RACERS: u64 = 16;

pub async fn changes_together_are_made_in_their_order_and_refused_one_by_one(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (f, g) = (id("user", "f"), id("user", "g"));
    let start = create(&*store, &g).await.revision.0;
    let creation = |id: &FeatureId| Change::CreateFeature(new_feature(id));
    let update = Change::UpdateFeature { id: f.clone(), patch: feature_ttl(77), condition: ANY };
    let changes = vec![
        (creation(&f), by("a")),
        (creation(&g), by("b")),
        (Change::DeleteFeature { id: g.clone(), condition: ANY }, by("c")),
        (creation(&f), by("d")),
        (update.clone(), by("e")),
        (creation(&g), by("f")),
        (update, by("g")),
    ];
    let made = store.apply_together(changes).await;
    let revisions: Vec<_> = made.iter().map(|made| made.as_ref().ok().map(|made| made.revision.0 - start)).collect();
    // The last one changes nothing.
    assert_eq!(revisions, [Some(1), None, Some(2), None, Some(3), Some(4), Some(3)]);
    for refused in [&made[1], &made[3]] {
        assert!(matches!(refused, Err(MetadataError::FeatureExists(_))), "{refused:?}");
    }
    assert_eq!(read(&*store, &f).await.properties().ttl, ttl(77));
    assert_eq!(read(&*store, &g).await.versions[0].generation.as_u64(), 2);
    let authors =
        |history: Vec<HistoryEntry>| -> Vec<_> { history.iter().map(|entry| entry.by.as_str().to_owned()).collect() };
    assert_eq!(authors(whole_history(&*store, &f).await.unwrap()), ["e", "a"]);
    assert_eq!(authors(whole_history(&*store, &g).await.unwrap())[..2], ["f", "c"]);
    assert_eq!(store.definitions().await.unwrap().revision.0, start + 4);
    store.settle().await.unwrap();
}

pub async fn one_of_several_racing_creations_wins(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    for round in 1..=3 {
        let creations = (1..=RACERS).map(|n| {
            let (store, new) = (&store, NewFeature { properties: of_ttl(n), ..new_feature(&id) });
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

pub async fn one_of_several_racing_conditional_updates_wins(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let revision = create(&*store, &id).await.revision;
    let updates = (1..=RACERS).map(|n| {
        let patch = FeaturePatch::from(Annotations {
            description: Some(description(&n.to_string())),
            ..Annotations::default()
        });
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

pub async fn racing_versions_of_one_feature_are_all_created(backend: &dyn MetadataBackend) {
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
