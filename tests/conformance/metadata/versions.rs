//! Feature versions: creation, change, deletion, and the effect of each on its feature.

use liststore::definition::{GivenProperties, VersionProperties};
use liststore::domain::{AheadMax, Bucket, Generation, IdentityKind, Keep, MaxItems};
use liststore::metadata::{Calls, FeaturePatch, MetadataError, NewFeature, NewVersion, VersionPatch};
use liststore::wire::Annotations;

use super::MetadataBackend;
use super::sample::*;

pub async fn a_version_has_its_given_properties(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let before = create(&*store, &id).await;
    let new = NewVersion {
        version: label("2024/08:rc-1"),
        properties: GivenProperties {
            max_items: Some(Some(MaxItems::MAX)),
            timestamp_ahead_max: Some(Some(AheadMax::Unbounded)),
            ..given_ttl(77)
        },
        index: None,
        description: description("why"),
    };
    let context = by("creator");
    let at = context.at;
    let changed = store.create_version(&id, new.clone(), context).await.unwrap();
    let version = &changed.version;
    assert_eq!(
        (&version.version, version.properties.ttl, &version.description),
        (&new.version, ttl(77), &new.description)
    );
    assert_eq!(version.properties.max_items, Some(MaxItems::MAX));
    assert_eq!(version.properties.timestamp_ahead_max, Some(AheadMax::Unbounded));
    assert_eq!((version.created_at, version.generation, version.ttl_max), (at, Generation::FIRST, ttl(77)));
    let feature = changed.feature;
    assert_eq!(feature.versions, [before.versions[0].clone(), version.clone()]);
    assert_eq!((feature.updated_at, feature.created_at), (at, before.created_at));
    assert_eq!(feature.ttl_max, ttl(3_600));
    assert_eq!(read(&*store, &id).await, feature);
    assert_refused!(
        store.create_version(&self::id("user", "other"), new, by("creator")).await,
        MetadataError::FeatureNotFound(_)
    );
}

pub async fn a_version_copies_the_ttl_of_its_feature_once(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    store.create_version(&id, new_version("before"), by("creator")).await.unwrap();
    store.update_feature(&id, feature_ttl(60), ANY, by("editor")).await.unwrap();
    store.create_version(&id, new_version("after"), by("creator")).await.unwrap();
    store.update_feature(&id, feature_ttl(70), ANY, by("editor")).await.unwrap();
    let feature = read(&*store, &id).await;
    let ttl_of = |version: &str| feature.version(&label(version)).unwrap().properties.ttl;
    assert_eq!((ttl_of(""), ttl_of("before"), ttl_of("after")), (ttl(70), ttl(3_600), ttl(60)));
}

pub async fn a_version_inherits_the_buckets_of_its_feature_or_sets_its_own(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let properties = VersionProperties { bucket: Some(Bucket::Month), ..of_ttl(3_600) };
    store.create_feature(NewFeature { properties, ..new_feature(&id) }, by("creator")).await.unwrap();
    let of_bucket = |bucket| GivenProperties { bucket, ..GivenProperties::default() };
    let with = |version: &str, properties| NewVersion { properties, ..new_version(version) };
    for (version, bucket) in [("as-is", None), ("day", Some(Some(Bucket::Day))), ("none", Some(None))] {
        store.create_version(&id, with(version, of_bucket(bucket)), by("creator")).await.unwrap();
    }
    let feature = read(&*store, &id).await;
    let of = |version: &str| feature.version(&label(version)).unwrap().properties.bucket;
    let expected = [Some(Bucket::Month), Some(Bucket::Month), Some(Bucket::Day), None];
    assert_eq!(["", "as-is", "day", "none"].map(of), expected);
    assert_eq!(feature.versions[0].key(&id).bucket(), Some(Bucket::Month));
    let set = |bucket| with("set", GivenProperties { identity: Some(IdentityKind::Key), ..of_bucket(bucket) });
    let is_of_bucket = |error: &MetadataError| matches!(error, MetadataError::Property(of) if of.name == "bucket");
    let refused = store.create_version(&id, set(None), by("creator")).await.unwrap_err();
    assert!(is_of_bucket(&refused), "{refused:?}");
    store.create_version(&id, set(Some(None)), by("creator")).await.unwrap();
    let of_sets = NewFeature {
        id: self::id("user", "sets"),
        properties: VersionProperties {
            identity: IdentityKind::Key,
            keep: Some(Keep::Newest),
            bucket: Some(Bucket::Day),
            ..VersionProperties::default()
        },
        ..new_feature(&id)
    };
    let refused = store.create_feature(of_sets, by("creator")).await.unwrap_err();
    assert!(is_of_bucket(&refused), "{refused:?}");
    // A change of something else leaves it.
    store.update_version(&id, &label("day"), version_ttl(5), ANY, by("editor")).await.unwrap();
    store.update_feature(&id, feature_ttl(60), ANY, by("editor")).await.unwrap();
    let feature = read(&*store, &id).await;
    assert_eq!(
        ["", "as-is", "day", "none"].map(|version| feature.version(&label(version)).unwrap().properties.bucket),
        expected
    );
}

pub async fn the_ttl_of_a_feature_equals_that_of_its_default_version(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let created = create(&*store, &id).await;
    let described = FeaturePatch::from(Annotations { description: Some(description("d")), ..Annotations::default() });
    let described = store.update_feature(&id, described, ANY, by("editor")).await.unwrap();
    assert_eq!(described.versions, created.versions, "a description is no change of a version");
    for secs in [60, 7_200, 30] {
        let updated = store.update_feature(&id, feature_ttl(secs), ANY, by("editor")).await.unwrap();
        let default_version = &updated.versions[0];
        assert_eq!((updated.properties().ttl, default_version.properties.ttl), (ttl(secs), ttl(secs)));
        assert_eq!(default_version.revision, updated.revision);
        assert_eq!(updated.ttl_max, ttl(secs.max(if secs == 30 { 7_200 } else { 3_600 })));
        assert_eq!(default_version.ttl_max, updated.ttl_max);
    }
}

pub async fn versions_are_ordered_by_label(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    for version in ["v2", "a", "V2", "v10", "_", "v", ":", "Z"] {
        store.create_version(&id, new_version(version), by("creator")).await.unwrap();
    }
    let feature = read(&*store, &id).await;
    let order: Vec<_> = feature.versions.iter().map(|v| v.version.as_str()).collect();
    assert_eq!(order, ["", ":", "V2", "Z", "_", "a", "v", "v10", "v2"]);
    assert_eq!(store.definitions().await.unwrap().features, [feature]);
}

pub async fn a_version_that_exists_is_not_created_again(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    let feature = store.create_version(&id, new_version("v"), by("creator")).await.unwrap().feature;
    for version in ["v", ""] {
        let new = NewVersion { properties: given_ttl(1), ..new_version(version) };
        assert_refused!(
            store.create_version(&id, new, by("second")).await,
            MetadataError::VersionExists(_, existing) if existing == label(version)
        );
    }
    assert_eq!(read(&*store, &id).await, feature);
}

pub async fn an_update_changes_named_members_only(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    let mut expected = store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
    let patches = [
        VersionPatch { description: Some(description("d")), ..VersionPatch::default() },
        version_ttl(7_200),
        VersionPatch { properties: given_ttl(5), description: Some(description("")) },
    ];
    for patch in patches {
        let context = by("editor");
        let at = context.at;
        let changed = store.update_version(&id, &label("v"), patch.clone(), ANY, context).await.unwrap();
        let revision = changed.version.revision;
        assert!(revision > expected.version.revision);
        let version = &mut expected.version;
        version.properties.ttl = patch.properties.ttl.unwrap_or(version.properties.ttl);
        version.ttl_max = version.ttl_max.max(version.properties.ttl);
        version.description = patch.description.unwrap_or_else(|| version.description.clone());
        version.revision = revision;
        let feature = &mut expected.feature;
        feature.ttl_max = feature.ttl_max.max(version.properties.ttl);
        (feature.updated_at, feature.revision) = (at, revision);
        feature.versions[1] = version.clone();
        assert_eq!(changed, expected);
        assert_eq!(read(&*store, &id).await, expected.feature);
    }
}

pub async fn an_update_that_changes_nothing_leaves_no_trace(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    let created = store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
    let properties = GivenProperties { ttl: Some(created.version.properties.ttl), ..GivenProperties::default() };
    let same = VersionPatch { properties, description: Some(description("")) };
    for patch in [VersionPatch::default(), same] {
        let changed = store.update_version(&id, &label("v"), patch, ANY, by("idler")).await.unwrap();
        assert_eq!(changed, created);
    }
    assert_eq!(read(&*store, &id).await, created.feature);
    assert_eq!(whole_history(&*store, &id).await.unwrap().len(), 2);
}

pub async fn the_default_version_changes_only_with_its_feature(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let feature = create(&*store, &id).await;
    let default = label("");
    assert_refused!(
        store.update_version(&id, &default, version_ttl(5), ANY, by("editor")).await,
        MetadataError::DefaultVersion
    );
    assert_refused!(store.delete_version(&id, &default, ANY, by("deleter")).await, MetadataError::DefaultVersion);
    assert_eq!(read(&*store, &id).await, feature);
}

pub async fn missing_definitions_cannot_be_changed(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (present, absent) = (id("user", "f"), id("user", "g"));
    create(&*store, &present).await;
    for version in ["", "v"] {
        let version = label(version);
        assert_refused!(
            store.update_version(&absent, &version, version_ttl(5), ANY, by("editor")).await,
            MetadataError::FeatureNotFound(_)
        );
        assert_refused!(
            store.delete_version(&absent, &version, ANY, by("deleter")).await,
            MetadataError::FeatureNotFound(_)
        );
    }
    assert_refused!(
        store.update_version(&present, &label("v"), version_ttl(5), ANY, by("editor")).await,
        MetadataError::VersionNotFound(_, _)
    );
    assert_refused!(
        store.delete_version(&present, &label("v"), ANY, by("deleter")).await,
        MetadataError::VersionNotFound(_, _)
    );
}

pub async fn preconditions_are_honoured(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    let v = label("v");
    let first = store.create_version(&id, new_version("v"), by("creator")).await.unwrap().version.revision;
    let second = store.update_version(&id, &v, version_ttl(5), only_if(first), by("editor")).await.unwrap();
    let second = second.version.revision;
    assert_refused!(
        store.update_version(&id, &v, version_ttl(6), only_if(first), by("late")).await,
        MetadataError::EtagMismatch
    );
    assert_refused!(store.delete_version(&id, &v, only_if(first), by("late")).await, MetadataError::EtagMismatch);
    // A change next to the version does not change its entity tag.
    store.update_feature(&id, feature_ttl(9), ANY, by("editor")).await.unwrap();
    store.create_version(&id, new_version("w"), by("creator")).await.unwrap();
    store.delete_version(&id, &v, only_if(second), by("deleter")).await.unwrap();
}

pub async fn a_deleted_version_is_missing(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
    let before = store.create_version(&id, new_version("w"), by("creator")).await.unwrap().feature;
    let context = by("deleter");
    let at = context.at;
    let deleted = store.delete_version(&id, &label("v"), ANY, context).await.unwrap();
    let left = deleted.remaining.unwrap();
    assert_eq!(left.versions, [before.versions[0].clone(), before.versions[2].clone()]);
    assert_eq!((left.updated_at, left.revision), (at, deleted.revision));
    assert!(left.revision > before.revision);
    assert_eq!(read(&*store, &id).await, left);
    assert_refused!(
        store.delete_version(&id, &label("v"), ANY, by("deleter")).await,
        MetadataError::VersionNotFound(_, _)
    );
}

pub async fn a_deletion_returns_the_longest_ttl_ever(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    create(&*store, &id).await;
    let v = label("v");
    for (changes, longest) in [(vec![], 3_600), (vec![9_000, 5], 9_000), (vec![5], 3_600)] {
        store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
        for secs in changes {
            store.update_version(&id, &v, version_ttl(secs), ANY, by("editor")).await.unwrap();
        }
        assert_eq!(store.delete_version(&id, &v, ANY, by("deleter")).await.unwrap().ttl_max, ttl(longest));
    }
}

pub async fn entity_tags_change_with_their_definition(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = id("user", "f");
    let tags = async || {
        let feature = read(&*store, &id).await;
        let of = |version: &str| feature.version(&label(version)).map(|v| v.revision);
        (feature.revision, of(""), of("v"), of("w"))
    };
    create(&*store, &id).await;
    store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
    let (feature, default, v, _) = tags().await;

    store.create_version(&id, new_version("w"), by("creator")).await.unwrap();
    let created = tags().await;
    assert!(created.0 > feature, "the feature shows its versions");
    assert_eq!((created.1, created.2), (default, v));

    store.update_version(&id, &label("w"), version_ttl(5), ANY, by("editor")).await.unwrap();
    let updated = tags().await;
    assert!(updated.0 > created.0 && updated.3 > created.3);
    assert_eq!((updated.1, updated.2), (default, v));

    store.update_feature(&id, feature_ttl(6), ANY, by("editor")).await.unwrap();
    let lengthened = tags().await;
    assert!(lengthened.0 > updated.0 && lengthened.1 > updated.1, "the default version's ttl has changed");
    assert_eq!((lengthened.2, lengthened.3), (v, updated.3));

    store.delete_version(&id, &label("w"), ANY, by("deleter")).await.unwrap();
    let deleted = tags().await;
    assert!(deleted.0 > lengthened.0);
    assert_eq!((deleted.1, deleted.2, deleted.3), (lengthened.1, v, None));
}
