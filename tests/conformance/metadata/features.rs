//! Features: creation, change, deletion.

use liststore::definition::FeatureVersion;
use liststore::definition::{GivenProperties, VersionProperties};
use liststore::domain::{AheadMax, Generation, MaxItems, ValueType, VersionLabel};
use liststore::metadata::{Calls, FeaturePatch, MetadataError, NewFeature, NewVersion, Precondition};
use liststore::wire::Annotations;

use super::MetadataBackend;
use super::sample::*;

pub async fn a_feature_has_its_given_properties(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    assert_eq!(store.feature(&id("user", "f")).await.unwrap(), None);
    for value_type in ValueType::ALL {
        let new = NewFeature {
            id: id("user", value_type.as_str()),
            value_type,
            properties: VersionProperties {
                max_items: MaxItems::new(5).ok(),
                timestamp_ahead_max: AheadMax::parse("36h").ok(),
                ..of_ttl(90)
            },
            description: description("what it is for"),
            owner: owner("team-a"),
            labels: labels(&[("tier", "1"), ("a", "")]),
        };
        let context = by("somebody");
        let at = context.at;
        let feature = store.create_feature(new.clone(), context).await.unwrap();
        assert_eq!((&feature.id, feature.value_type), (&new.id, value_type));
        assert_eq!(feature.properties(), new.properties);
        assert_eq!((&feature.description, &feature.owner), (&new.description, &new.owner));
        assert_eq!(feature.labels, new.labels);
        assert_eq!((feature.created_at, feature.updated_at, feature.ttl_max), (at, at, ttl(90)));
        let default_version = FeatureVersion {
            version: VersionLabel::default_version(),
            properties: new.properties.clone(),
            index: None,
            description: description(""),
            created_at: at,
            generation: Generation::FIRST,
            ttl_max: ttl(90),
            revision: feature.revision,
        };
        assert_eq!(feature.versions, [default_version]);
        assert_eq!(read(&*store, &new.id).await, feature);
    }
}

pub async fn a_feature_that_exists_is_not_created_again(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let first = create(&*store, &id).await;
    let other = NewFeature { properties: of_ttl(5), value_type: ValueType::Json, ..new_feature(&id) };
    let refused = store.create_feature(other, by("second")).await;
    assert_refused!(&refused, MetadataError::FeatureExists(existing) if *existing == id);
    assert!(!refused.unwrap_err().outcome_unknown());
    assert_eq!(read(&*store, &id).await, first);
}

pub async fn an_update_changes_named_members_only(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let mut expected = create(&*store, &id).await;
    let patches = [
        FeaturePatch::from(Annotations { description: Some(description("d")), ..Annotations::default() }),
        FeaturePatch::from(Annotations { owner: Some(owner("o")), ..Annotations::default() }),
        FeaturePatch::from(Annotations { labels: Some(labels(&[("k", "v")])), ..Annotations::default() }),
        FeaturePatch::from(Annotations {
            description: Some(description("")),
            owner: Some(owner("p")),
            ..Annotations::default()
        }),
        feature_ttl(7_200),
    ];
    for patch in patches {
        let context = by("editor");
        let at = context.at;
        let updated = store.update_feature(&id, patch.clone(), ANY, context).await.unwrap();
        assert!(updated.revision > expected.revision, "{patch:?} has an entity tag of its own");
        expected.description = patch.annotations.description.unwrap_or(expected.description);
        expected.owner = patch.annotations.owner.unwrap_or(expected.owner);
        expected.labels = patch.annotations.labels.unwrap_or(expected.labels);
        if let Some(ttl) = patch.properties.ttl {
            expected.ttl_max = ttl;
            let default_version = &mut expected.versions[0];
            default_version.properties.ttl = ttl;
            (default_version.ttl_max, default_version.revision) = (ttl, updated.revision);
        }
        (expected.updated_at, expected.revision) = (at, updated.revision);
        assert_eq!(updated, expected);
        assert_eq!(read(&*store, &id).await, expected);
    }
}

pub async fn an_update_that_changes_nothing_leaves_no_trace(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let new = NewFeature { labels: labels(&[("k", "v")]), owner: owner("o"), ..new_feature(&id) };
    let feature = store.create_feature(new, by("creator")).await.unwrap();
    let same = FeaturePatch {
        properties: GivenProperties {
            ttl: Some(feature.properties().ttl),
            max_items: Some(None),
            timestamp_ahead_max: Some(None),
            ..GivenProperties::default()
        },
        annotations: Annotations::all(feature.description.clone(), feature.owner.clone(), feature.labels.clone()),
    };
    for patch in [FeaturePatch::default(), same] {
        for condition in [ANY, only_if(feature.revision)] {
            let updated = store.update_feature(&id, patch.clone(), condition, by("idler")).await.unwrap();
            assert_eq!(updated, feature);
        }
    }
    assert_eq!(read(&*store, &id).await, feature);
    assert_eq!(whole_history(&*store, &id).await.unwrap().len(), 1);
    assert_eq!(store.definitions().await.unwrap().revision, feature.revision);
}

pub async fn max_items_can_be_set_and_unset(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    let [five, six] = [5, 6].map(|items| MaxItems::new(items).unwrap());
    let given = |max_items| GivenProperties { max_items, ..GivenProperties::default() };
    let at_most = |items| given(Some(Some(items)));
    let (absent, unbounded) = (given(None), given(Some(None)));
    let new_version = |version: &str, properties| NewVersion { properties, ..new_version(version) };
    store.create_version(&id, new_version("before", absent.clone()), by("creator")).await.unwrap();
    let bounded = store.update_feature(&id, at_most(five).into(), ANY, by("editor")).await.unwrap();
    assert_eq!(read(&*store, &id).await, bounded);
    assert_eq!(store.definitions().await.unwrap().features, [bounded]);
    for (version, max_items) in [("as-is", absent.clone()), ("six", at_most(six)), ("all", unbounded.clone())] {
        store.create_version(&id, new_version(version, max_items), by("creator")).await.unwrap();
    }
    let bounds = async || {
        let feature = read(&*store, &id).await;
        let of = |version: &str| feature.version(&VersionLabel::new(version).unwrap()).unwrap().properties.max_items;
        (feature.properties().max_items, ["", "before", "as-is", "six", "all"].map(of))
    };
    assert_eq!(bounds().await, (Some(five), [Some(five), None, Some(five), Some(six), None]));
    for (version, max_items) in [("as-is", unbounded.clone()), ("six", absent), ("all", at_most(six))] {
        let version = VersionLabel::new(version).unwrap();
        store.update_version(&id, &version, max_items.into(), ANY, by("editor")).await.unwrap();
    }
    store.update_feature(&id, unbounded.into(), ANY, by("editor")).await.unwrap();
    assert_eq!(bounds().await, (None, [None, None, None, Some(six), Some(six)]));
    let last = whole_history(&*store, &id).await.unwrap().remove(0);
    let max_items = |side: Option<serde_json::Value>| side.unwrap().get("max_items").cloned();
    assert_eq!((max_items(last.before), max_items(last.after)), (Some(5.into()), None));
}

pub async fn timestamp_ahead_max_can_be_set_and_unset(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    let (day, any) = (AheadMax::DAY, AheadMax::Unbounded);
    let given = |timestamp_ahead_max| GivenProperties { timestamp_ahead_max, ..GivenProperties::default() };
    let own = |ahead_max| given(Some(Some(ahead_max)));
    let (absent, of_server) = (given(None), given(Some(None)));
    let new_version = |version: &str, properties| NewVersion { properties, ..new_version(version) };
    store.create_version(&id, new_version("before", absent.clone()), by("creator")).await.unwrap();
    let changed = store.update_feature(&id, own(day).into(), ANY, by("editor")).await.unwrap();
    assert_eq!(read(&*store, &id).await, changed);
    assert_eq!(store.definitions().await.unwrap().features, [changed]);
    for (version, ahead_max) in [("as-is", absent.clone()), ("any", own(any)), ("server", of_server.clone())] {
        store.create_version(&id, new_version(version, ahead_max), by("creator")).await.unwrap();
    }
    let bounds = async || {
        let feature = read(&*store, &id).await;
        let version = |label: &str| feature.version(&VersionLabel::new(label).unwrap()).unwrap();
        let of = |label: &str| version(label).properties.timestamp_ahead_max;
        (feature.properties().timestamp_ahead_max, ["", "before", "as-is", "any", "server"].map(of))
    };
    assert_eq!(bounds().await, (Some(day), [Some(day), None, Some(day), Some(any), None]));
    for (version, ahead_max) in [("as-is", of_server.clone()), ("any", absent), ("server", own(any))] {
        let version = VersionLabel::new(version).unwrap();
        store.update_version(&id, &version, ahead_max.into(), ANY, by("editor")).await.unwrap();
    }
    store.update_feature(&id, of_server.into(), ANY, by("editor")).await.unwrap();
    assert_eq!(bounds().await, (None, [None, None, None, Some(any), Some(any)]));
    let last = whole_history(&*store, &id).await.unwrap().remove(0);
    let ahead_max = |side: Option<serde_json::Value>| side.unwrap().get("timestamp_ahead_max").cloned();
    assert_eq!((ahead_max(last.before), ahead_max(last.after)), (Some("1d".into()), None));
}

pub async fn labels_are_replaced_completely(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    for labels in [labels(&[("a", "1"), ("b", "2")]), labels(&[("b", "3"), ("c", "")]), labels(&[])] {
        let patch = FeaturePatch::from(Annotations { labels: Some(labels.clone()), ..Annotations::default() });
        store.update_feature(&id, patch, ANY, by("editor")).await.unwrap();
        assert_eq!(read(&*store, &id).await.labels, labels);
    }
}

pub async fn a_deleted_feature_is_removed_with_its_versions(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (deleted, kept) = (id("user", "f"), id("user", "g"));
    create(&*store, &deleted).await;
    let other = create(&*store, &kept).await;
    store.create_version(&deleted, new_version("v2"), by("creator")).await.unwrap();
    let deletion = store.delete_feature(&deleted, ANY, by("deleter")).await.unwrap();
    assert!(deletion.revision > other.revision);
    assert_eq!(deletion.remaining, None);
    assert_eq!(store.feature(&deleted).await.unwrap(), None);
    assert_eq!(store.definitions().await.unwrap().features, [other]);
}

pub async fn missing_definitions_cannot_be_changed(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    for round in 0..2 {
        assert_refused!(
            store.update_feature(&id, FeaturePatch::default(), ANY, by("editor")).await,
            MetadataError::FeatureNotFound(_)
        );
        assert_refused!(store.delete_feature(&id, ANY, by("deleter")).await, MetadataError::FeatureNotFound(_));
        if round == 0 {
            // The same after a deletion.
            create(&*store, &id).await;
            store.delete_feature(&id, ANY, by("deleter")).await.unwrap();
        }
    }
}

pub async fn preconditions_are_honoured(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let first = create(&*store, &id).await.revision;
    let second = store.update_feature(&id, feature_ttl(5), only_if(first), by("editor")).await.unwrap().revision;
    for stale in [only_if(first), Precondition::OneOf(vec![])] {
        assert_refused!(
            store.update_feature(&id, feature_ttl(6), stale.clone(), by("late")).await,
            MetadataError::EtagMismatch
        );
        // Even where nothing would change.
        assert_refused!(
            store.update_feature(&id, feature_ttl(5), stale.clone(), by("late")).await,
            MetadataError::EtagMismatch
        );
        assert_refused!(store.delete_feature(&id, stale, by("late")).await, MetadataError::EtagMismatch);
    }
    assert_eq!(read(&*store, &id).await.properties().ttl, ttl(5));
    let either = Precondition::OneOf(vec![first, second]);
    let third = store.update_feature(&id, feature_ttl(7), either, by("editor")).await.unwrap().revision;
    store.delete_feature(&id, only_if(third), by("deleter")).await.unwrap();
    assert_eq!(store.feature(&id).await.unwrap(), None);
}

pub async fn a_deletion_returns_the_longest_ttl_ever(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let deleted = async || store.delete_feature(&id, ANY, by("deleter")).await.unwrap().ttl_max;

    create(&*store, &id).await;
    assert_eq!(deleted().await, ttl(3_600));

    create(&*store, &id).await;
    store.update_feature(&id, feature_ttl(9_000), ANY, by("editor")).await.unwrap();
    store.update_feature(&id, feature_ttl(10), ANY, by("editor")).await.unwrap();
    assert_eq!(read(&*store, &id).await.ttl_max, ttl(9_000));
    assert_eq!(deleted().await, ttl(9_000));

    // A version counts, and a deleted one as well.
    create(&*store, &id).await;
    store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
    store.update_version(&id, &label("v"), version_ttl(8_000), ANY, by("editor")).await.unwrap();
    store.delete_version(&id, &label("v"), ANY, by("deleter")).await.unwrap();
    assert_eq!(deleted().await, ttl(8_000));

    // Each creation counts from its own beginning.
    create(&*store, &id).await;
    assert_eq!(deleted().await, ttl(3_600));
}

pub async fn texts_may_contain_anything_but_nul(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let text = "é 😀 \u{1}\u{7f}\r\n\t'\"\\%_{}$1\u{fffd}\u{10ffff}";
    let new = NewFeature {
        description: description(&text.repeat(2_000 / text.chars().count())),
        owner: owner(text),
        labels: labels(&[(text, text)]),
        ..new_feature(&id("user", "f"))
    };
    let feature = store.create_feature(new.clone(), by(text)).await.unwrap();
    assert_eq!(read(&*store, &new.id).await, feature);
    assert_eq!((feature.description, feature.owner, feature.labels), (new.description, new.owner, new.labels));
    assert_eq!(whole_history(&*store, &new.id).await.unwrap()[0].by.as_str(), text);
}
