//! Entity types with bags: defined, counted and reported like features, and never confused with one.

use liststore::domain::{EntityType, FeatureId, Ttl, ValueType};
use liststore::metadata::keys::AuditFilter;
use liststore::metadata::{Action, Calls, FeatureFilter, FeaturePatch, MetadataError, MetadataStore, NewFeature};
use liststore::wire::Annotations;

use super::MetadataBackend;
use super::keys::audit_lines;
use super::sample::*;

pub fn bags(entity_type: &str) -> FeatureId {
    FeatureId::of_bags(EntityType::new(entity_type).unwrap())
}

pub fn new_type(entity_type: &str, ttl: Option<Ttl>) -> NewFeature {
    NewFeature::of_bags(EntityType::new(entity_type).unwrap(), ttl)
}

async fn listed(store: &dyn MetadataStore, filter: FeatureFilter) -> Vec<String> {
    let page = store.features(&filter, None, page_size(100)).await.unwrap();
    page.entries.into_iter().map(|entry| entry.id.to_string()).collect()
}

pub async fn an_entity_type_has_its_given_properties(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let new = NewFeature {
        description: description("people"),
        owner: owner("o"),
        labels: labels(&[("k", "v")]),
        ..new_type("user", Some(ttl(60)))
    };
    let created = store.create_feature(new, by("creator")).await.unwrap();
    assert_eq!(read(&*store, &bags("user")).await, created);
    assert_eq!((created.properties().ttl, created.value_type, created.versions.len()), (ttl(60), ValueType::Json, 1));
    assert_eq!((created.description.as_str(), created.owner.as_str()), ("people", "o"));
    let longest = store.create_feature(new_type("story", None), by("creator")).await.unwrap();
    assert_eq!(longest.properties().ttl, Ttl::MAX);
    let again = store.create_feature(new_type("user", None), by("creator")).await;
    assert_refused!(again, MetadataError::EntityTypeExists(found) if found.as_str() == "user");
}

pub async fn an_entity_type_is_changed_on_conditions(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = bags("user");
    let refused = store.update_feature(&id, feature_ttl(5), ANY, by("editor")).await;
    assert_refused!(refused, MetadataError::EntityTypeNotFound(_));
    let created = store.create_feature(new_type("user", Some(ttl(60))), by("creator")).await.unwrap();
    let changed = store.update_feature(&id, feature_ttl(5), only_if(created.revision), by("editor")).await.unwrap();
    assert_eq!((changed.properties().ttl, changed.ttl_max), (ttl(5), ttl(60)));
    let stale = store.update_feature(&id, feature_ttl(6), only_if(created.revision), by("editor")).await;
    assert_refused!(stale, MetadataError::EtagMismatch);
    let stale = store.delete_feature(&id, only_if(created.revision), by("deleter")).await;
    assert_refused!(stale, MetadataError::EtagMismatch);
    let deleted = store.delete_feature(&id, only_if(changed.revision), by("deleter")).await.unwrap();
    assert_eq!(deleted.ttl_max, ttl(60));
    assert_eq!(store.feature(&id).await.unwrap(), None);
    assert_refused!(store.delete_feature(&id, ANY, by("deleter")).await, MetadataError::EntityTypeNotFound(_));
}

pub async fn an_entity_type_created_again_has_new_bags(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    create(&*store, &id("user", "seen")).await;
    for expected in ["user#|", "user#|~2", "user#|~3"] {
        let created = store.create_feature(new_type("user", None), by("creator")).await.unwrap();
        assert_eq!(created.versions[0].key(&created.id).as_str(), expected);
        store.delete_feature(&created.id, ANY, by("deleter")).await.unwrap();
    }
    let generations = store.generations(&bags("user").entity_type).await.unwrap();
    let reported: Vec<_> = generations.iter().map(|last| (last.id.to_string(), last.generation.as_u64())).collect();
    assert_eq!(reported, [("user".to_owned(), 3), ("user.seen".to_owned(), 1)]);
}

pub async fn entity_types_and_features_are_listed_separately(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    for name in ["b", "a"] {
        create(&*store, &id("user", name)).await;
    }
    for entity_type in ["user", "story", "User"] {
        store.create_feature(new_type(entity_type, None), by("creator")).await.unwrap();
    }
    let owned = FeaturePatch::from(Annotations { owner: Some(owner("feed USERs")), ..Annotations::default() });
    store.update_feature(&bags("story"), owned, ANY, by("editor")).await.unwrap();
    assert_eq!(listed(&*store, FeatureFilter::default()).await, ["user.a", "user.b"]);
    let types = FeatureFilter { of_bags: true, ..FeatureFilter::default() };
    assert_eq!(listed(&*store, types.clone()).await, ["User", "story", "user"]);
    let first = store.features(&types, None, page_size(1)).await.unwrap();
    assert!(first.more);
    let rest = store.features(&types, Some(&first.entries[0].id), page_size(2)).await.unwrap();
    assert_eq!((rest.entries.len(), rest.more), (2, false));
    let with = |text: &str| FeatureFilter { text: Some(text.to_owned()), ..types.clone() };
    assert_eq!(listed(&*store, with("uSER")).await, ["User", "story", "user"]);
    assert_eq!(listed(&*store, with("tor")).await, ["story"]);
    let definitions = store.definitions().await.unwrap();
    let all: Vec<_> = definitions.features.iter().map(|feature| feature.id.to_string()).collect();
    assert_eq!(all, ["User", "story", "user", "user.a", "user.b"]);
}

pub async fn every_change_of_an_entity_type_is_in_the_history(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = bags("user");
    assert_eq!(store.history(&id, None, page_size(1)).await.unwrap(), None);
    create(&*store, &super::sample::id("user", "seen")).await;
    store.create_feature(new_type("user", Some(ttl(60))), by("creator")).await.unwrap();
    store.update_feature(&id, feature_ttl(5), ANY, by("editor")).await.unwrap();
    store.delete_feature(&id, ANY, by("deleter")).await.unwrap();
    let history = whole_history(&*store, &id).await.unwrap();
    let actions: Vec<_> = history.iter().map(|entry| entry.action).collect();
    assert_eq!(actions, [Action::DeleteEntityType, Action::UpdateEntityType, Action::CreateEntityType]);
    let after = history[1].after.clone().unwrap();
    let members: Vec<_> = after.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["created_at", "description", "entity_type", "labels", "owner", "ttl", "updated_at"]);
    assert_eq!((after["ttl"].as_str(), history[1].before.clone()), (Some("5s"), history[2].after.clone()));
    let of_type = AuditFilter { target: Some("user".to_owned()), ..AuditFilter::default() };
    let expected = ["delete_entity_type user", "update_entity_type user", "create_entity_type user"];
    assert_eq!(audit_lines(&store, &of_type).await, expected);
    let seen = AuditFilter { target: Some("user.seen".to_owned()), ..AuditFilter::default() };
    assert_eq!(audit_lines(&store, &seen).await, ["create_feature user.seen"]);
}
