//! The definitions of a durable store after it was closed and opened again.

use liststore::domain::{Revision, ValueType};
use liststore::metadata::keys::{AuditFilter, KeyChange};
use liststore::metadata::{Calls, NewFeature};
use liststore_contract::operations::change_log;

use super::MetadataBackend;
use super::entity_types::{bags, new_type};
use super::erasures::erasure;
use super::jobs::job;
use super::keys::{at, audit_lines, creation, key_id};
use super::sample::*;
use super::servers::server_change;

pub async fn a_reopened_store_has_all_definitions(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let ids = ["a", "b", "deleted"].map(|name| id("user", name));
    for (id, value_type) in ids.iter().zip([ValueType::Json, ValueType::Bytes, ValueType::Int64]) {
        let new = NewFeature {
            value_type,
            description: description("é \"quoted\""),
            owner: owner("o"),
            labels: labels(&[("k", "v"), ("l", "")]),
            ..new_feature(id)
        };
        store.create_feature(new, by("creator")).await.unwrap();
        store.create_version(id, new_version("v"), by("creator")).await.unwrap();
        store.update_version(id, &label("v"), version_ttl(9_000), ANY, by("editor")).await.unwrap();
        store.update_version(id, &label("v"), version_ttl(5), ANY, by("editor")).await.unwrap();
    }
    store.delete_version(&ids[1], &label("v"), ANY, by("deleter")).await.unwrap();
    store.delete_feature(&ids[2], ANY, by("deleter")).await.unwrap();

    let before = store.definitions().await.unwrap();
    let mut histories = Vec::new();
    for id in &ids {
        histories.push(whole_history(&*store, id).await);
    }
    store.close().await;
    drop(store);

    let store = backend.open().await;
    let after = store.definitions().await.unwrap();
    assert_eq!((after.revision, after.features), (before.revision, before.features));
    for (id, history) in ids.iter().zip(histories) {
        assert_eq!(whole_history(&*store, id).await, history);
    }
    // The numbers continue.
    let revision = create(&*store, &id("user", "c")).await.revision;
    assert_eq!(revision.0, before.revision.0 + 1);
    assert_eq!(store.delete_feature(&ids[1], ANY, by("deleter")).await.unwrap().ttl_max, ttl(9_000));
}

pub async fn generations_survive_a_reopening(backend: &dyn MetadataBackend) {
    let id = id("user", "f");
    for round in 1..=3 {
        let store = backend.open().await;
        create(&*store, &id).await;
        let version = store.create_version(&id, new_version("v"), by("creator")).await.unwrap().version;
        assert_eq!(version.generation.as_u64(), 2 * round - 1);
        store.delete_version(&id, &label("v"), ANY, by("deleter")).await.unwrap();
        store.create_version(&id, new_version("v"), by("creator")).await.unwrap();
        let generations: Vec<_> =
            read(&*store, &id).await.versions.iter().map(|version| version.generation.as_u64()).collect();
        assert_eq!(generations, [round, 2 * round]);
        store.delete_feature(&id, ANY, by("deleter")).await.unwrap();
        store.close().await;
    }
}

pub async fn keys_survive_a_reopening(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    store.change_key(creation('a', "feed"), by("x")).await.unwrap();
    store.change_key(creation('b', "other"), by("x")).await.unwrap();
    store.change_key(KeyChange::Revoke { id: key_id('a') }, by("x")).await.unwrap();
    store.note_uses(&[(key_id('b'), at(5))]).await.unwrap();
    let (keys, trail) = (store.keys(None).await.unwrap().unwrap(), audit_lines(&store, &AuditFilter::default()).await);
    store.close().await;
    drop(store);
    let store = backend.open().await;
    let again = store.keys(None).await.unwrap().unwrap();
    assert_eq!((again.revision, again.keys), (keys.revision, keys.keys));
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await, trail);
    store.close().await;
}

pub async fn erasures_survive_a_reopening(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    store.note_erasure(erasure("user/u"), by("local")).await.unwrap();
    store.close().await;
    drop(store);
    let store = backend.open().await;
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await, ["erase_entity entity:user/u"]);
    assert_eq!(create(&*store, &id("user", "seen")).await.revision, Revision(2));
    store.close().await;
}

pub async fn changes_of_servers_survive_a_reopening(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    store.note_server_change(server_change(&change_log::ROW, "log"), by("local")).await.unwrap();
    store.close().await;
    drop(store);
    let store = backend.open().await;
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await, ["change_log log"]);
    assert_eq!(create(&*store, &id("user", "seen")).await.revision, Revision(2));
    store.close().await;
}

pub async fn jobs_survive_a_reopening(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let kept = job(1);
    assert!(store.put_job(&kept).await.unwrap());
    store.close().await;
    drop(store);
    let store = backend.open().await;
    assert_eq!(store.jobs().await.unwrap(), [kept]);
    store.close().await;
}

pub async fn entity_types_survive_a_reopening(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    store.create_feature(new_type("gone", None), by("creator")).await.unwrap();
    store.delete_feature(&bags("gone"), ANY, by("deleter")).await.unwrap();
    let created = store.create_feature(new_type("user", Some(ttl(60))), by("creator")).await.unwrap();
    let trail = audit_lines(&store, &AuditFilter::default()).await;
    store.close().await;
    drop(store);
    let store = backend.open().await;
    assert_eq!(read(&*store, &bags("user")).await, created);
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await, trail);
    let again = store.create_feature(new_type("gone", None), by("creator")).await.unwrap();
    assert_eq!(again.versions[0].key(&again.id).as_str(), "gone#|~2");
    store.close().await;
}
