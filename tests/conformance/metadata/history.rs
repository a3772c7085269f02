//! The audit trail: its entry for every change, and for how long.

use liststore::domain::Revision;
use liststore::metadata::{Action, Calls, FeaturePatch, MetadataError};
use liststore::wire::{self, Annotations};
use serde::Serialize;
use serde_json::{Value, to_value};

use super::MetadataBackend;
use super::sample::*;

pub async fn every_change_is_listed_newest_first(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let contexts = ["a", "b", "c", "d", "e", "f"].map(by);
    let [first, second, third, fourth, fifth, sixth] = contexts.clone();
    let created = store.create_feature(new_feature(&id), first).await.unwrap();
    let owned = FeaturePatch::from(Annotations { owner: Some(owner("o")), ..Annotations::default() });
    let updated = store.update_feature(&id, owned, ANY, second).await.unwrap();
    let version = store.create_version(&id, new_version("v"), third).await.unwrap();
    let changed = store.update_version(&id, &label("v"), version_ttl(5), ANY, fourth).await.unwrap();
    let dropped = store.delete_version(&id, &label("v"), ANY, fifth).await.unwrap();
    let remaining = dropped.remaining.unwrap();
    let deleted = store.delete_feature(&id, ANY, sixth).await.unwrap();

    let json = |definition: &Value| Some(definition.clone());
    let feature_json = [&created, &updated, &remaining].map(|feature| as_kept(wire::Feature::from(feature)));
    let version_json = [&version, &changed].map(|changed| as_kept(wire::FeatureVersion::from(&changed.version)));
    let expected = [
        (created.revision, Action::CreateFeature, None, None, json(&feature_json[0])),
        (updated.revision, Action::UpdateFeature, None, json(&feature_json[0]), json(&feature_json[1])),
        (version.feature.revision, Action::CreateVersion, Some(label("v")), None, json(&version_json[0])),
        (
            changed.feature.revision,
            Action::UpdateVersion,
            Some(label("v")),
            json(&version_json[0]),
            json(&version_json[1]),
        ),
        (dropped.revision, Action::DeleteVersion, Some(label("v")), json(&version_json[1]), None),
        (deleted.revision, Action::DeleteFeature, None, json(&feature_json[2]), None),
    ];
    let history = whole_history(&*store, &id).await.unwrap();
    assert_eq!(history.len(), expected.len());
    for ((entry, context), expected) in history.into_iter().rev().zip(contexts).zip(expected) {
        assert_eq!((entry.at, &entry.by), (context.at, &context.by));
        assert_eq!((entry.revision, entry.action, entry.version, entry.before, entry.after), expected);
    }
}

/// A definition in the trail: as the API shows it, without the identity of items.
fn as_kept(definition: impl Serialize) -> Value {
    let mut definition = to_value(definition).unwrap();
    let fields = definition.as_object_mut().unwrap();
    fields.remove("identity").unwrap();
    for version in fields.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        version.as_object_mut().unwrap().remove("identity").unwrap();
    }
    definition
}

pub async fn the_history_survives_the_deletion_of_its_feature(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (id, other) = (id("user", "f"), id("user", "g"));
    create(&*store, &other).await;
    for round in 1..=3 {
        create(&*store, &id).await;
        let before = whole_history(&*store, &id).await.unwrap();
        store.delete_feature(&id, ANY, by("deleter")).await.unwrap();
        let after = whole_history(&*store, &id).await.unwrap();
        assert_eq!(after.len(), 2 * round);
        assert_eq!(after[1..], before[..], "a deletion changes nothing of the past");
        assert_eq!((after[0].action, after[0].by.as_str()), (Action::DeleteFeature, "deleter"));
    }
    assert_eq!(whole_history(&*store, &other).await.unwrap().len(), 1);
}

pub async fn the_history_comes_in_pages(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (id, other) = (id("user", "f"), id("user", "f2"));
    create(&*store, &id).await;
    create(&*store, &other).await;
    for secs in 1..=24 {
        let id = if secs % 3 == 0 { &other } else { &id };
        store.update_feature(id, feature_ttl(secs), ANY, by("editor")).await.unwrap();
    }
    let whole = whole_history(&*store, &id).await.unwrap();
    assert_eq!(whole.len(), 17);
    for size in [1, 2, 5, 16, 17, 18] {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = store.history(&id, before, page_size(size)).await.unwrap().unwrap();
            assert!(page.entries.len() <= size && (!page.more || page.entries.len() == size));
            seen.extend(page.entries);
            if !page.more {
                break;
            }
            before = seen.last().map(|entry| entry.revision);
            // Changes during a walk are newer than all of it.
            if seen.len() == size {
                store.update_feature(&other, feature_ttl(100 + size as u64), ANY, by("editor")).await.unwrap();
            }
        }
        assert_eq!(seen, whole, "pages of {size}");
    }
    let before_all = store.history(&id, Some(whole[16].revision), page_size(5)).await.unwrap().unwrap();
    assert!(before_all.entries.is_empty() && !before_all.more, "there was such a feature, but nothing before it");
    let far_future = store.history(&id, Some(Revision(u64::MAX >> 1)), page_size(17)).await.unwrap().unwrap();
    assert_eq!(far_future.entries, whole);
}

pub async fn unknown_features_have_no_history(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    create(&*store, &id("user", "f")).await;
    for never in [id("user", "F"), id("user", "f2"), id("users", "f"), id("f", "user")] {
        assert_eq!(store.history(&never, None, page_size(1)).await.unwrap(), None);
    }
}

pub async fn refused_changes_are_not_in_the_history(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (id, never) = (id("user", "f"), id("user", "never"));
    let created = create(&*store, &id).await;
    let stale = only_if(Revision(created.revision.0 + 1_000));
    assert_refused!(store.create_feature(new_feature(&id), by("x")).await, MetadataError::FeatureExists(_));
    assert_refused!(
        store.update_feature(&id, feature_ttl(1), stale.clone(), by("x")).await,
        MetadataError::EtagMismatch
    );
    assert_refused!(store.delete_feature(&id, stale, by("x")).await, MetadataError::EtagMismatch);
    assert_refused!(store.create_version(&id, new_version(""), by("x")).await, MetadataError::VersionExists(_, _));
    assert_refused!(store.delete_feature(&never, ANY, by("x")).await, MetadataError::FeatureNotFound(_));
    assert_refused!(store.create_version(&never, new_version("v"), by("x")).await, MetadataError::FeatureNotFound(_));
    let history = whole_history(&*store, &id).await.unwrap();
    assert_eq!(revisions(&history), [created.revision]);
    assert_eq!(whole_history(&*store, &never).await, None);
    assert_eq!(store.definitions().await.unwrap().revision, created.revision);
}
