//! Indexes of bags: versions of an entity type's bags, with a generation each.

use liststore::definition::FeatureVersion;
use liststore::domain::index::{INDEXES_MAX, IndexSpec, Pointer};
use liststore::domain::{Generation, JobId, Revision};
use liststore::metadata::jobs::{Job, JobState, Target, Task, TaskKind};
use liststore::metadata::{
    Applied, Calls, Change, MetadataError, MetadataStore, NewVersion, Precondition, VersionPatch,
};

use super::MetadataBackend;
use super::entity_types::{bags, new_type};
use super::jobs::job;
use super::sample::*;

/// Says that an index is ready, with this state of its job.
async fn finish(store: &dyn MetadataStore, index: &FeatureVersion, job: &Job) -> Result<Applied, MetadataError> {
    let index = Target { version: index.version.clone(), generation: index.generation };
    let change = Change::FinishIndex { id: bags("user"), index, job: Box::new(job.clone()) };
    store.apply(change, by("liststore")).await
}

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
    let first = job(7);
    let done = Job { number: 2, state: JobState::Done, ..first.clone() };
    assert_refused!(finish(&*store, &created, &done).await, MetadataError::EtagMismatch);
    assert!(store.put_job(&first).await.unwrap());
    assert_refused!(finish(&*store, &created, &first).await, MetadataError::EtagMismatch);
    assert_eq!(state(&read(&*store, &id).await.versions[1]).0, Some(false), "no job says so");
    let ready = finish(&*store, &created, &done).await.unwrap();
    assert!(ready.is_change);
    assert_eq!(store.jobs().await.unwrap(), std::slice::from_ref(&done));
    let ready = ready.into_version().unwrap();
    assert_eq!(state(&ready.version), (Some(true), Generation::FIRST));
    // It stays so, with any later change, and a repetition is not a change.
    let again = Job { number: 3, ..done.clone() };
    let same = finish(&*store, &created, &again).await.unwrap();
    assert!(!same.is_change);
    assert_eq!(same.into_version().unwrap().version.revision, ready.version.revision);
    assert_eq!(store.jobs().await.unwrap(), std::slice::from_ref(&done), "nothing was written");
    let other = FeatureVersion { generation: created.generation.next(), ..created.clone() };
    assert_refused!(finish(&*store, &other, &again).await, MetadataError::IndexNotFound(..));
    let described = VersionPatch { description: Some(description("d")), ..VersionPatch::default() };
    let described = store.update_version(&id, &label("by_country"), described, ANY, by("editor")).await.unwrap();
    assert_eq!(read(&*store, &id).await, described.feature);
    assert_eq!(state(&read(&*store, &id).await.versions[1]), (Some(true), Generation::FIRST));
    assert_eq!(store.definitions().await.unwrap().features, [described.feature]);
}

pub async fn an_index_is_deleted_in_one_change_with_the_job_that_clears_it(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let id = bags("user");
    let delete = |condition: Precondition, job: u128| Change::DeleteIndex {
        id: id.clone(),
        name: label("by"),
        condition,
        job: JobId::new(job),
    };
    let refused = store.apply(delete(ANY, 1), by("deleter")).await;
    assert_refused!(refused, MetadataError::EntityTypeNotFound(_));
    store.create_feature(new_type("user", None), by("creator")).await.unwrap();
    let refused = store.apply(delete(ANY, 2), by("deleter")).await;
    assert_refused!(refused, MetadataError::IndexNotFound(_, name) if name == label("by"));
    let index = create_index(&*store, "by").await;
    let refused = store.apply(delete(only_if(Revision(index.revision.0 + 1)), 3), by("deleter")).await;
    assert_refused!(refused, MetadataError::EtagMismatch);
    assert!(store.jobs().await.unwrap().is_empty());
    // A job with this ID exists, so neither happens.
    assert!(store.put_job(&job(4)).await.unwrap());
    let refused = store.apply(delete(ANY, 4), by("deleter")).await;
    assert_refused!(refused, MetadataError::EtagMismatch);
    assert_eq!(read(&*store, &id).await.versions.len(), 2);
    let context = by("deleter");
    store.apply(delete(only_if(index.revision), 5), context.clone()).await.unwrap();
    assert_eq!(read(&*store, &id).await.versions.len(), 1);
    let begun = store.jobs().await.unwrap().pop().unwrap();
    let targets = vec![Target { version: label("by"), generation: index.generation }];
    let task = Task { kind: TaskKind::DropIndex, feature: id, targets, lists_per_second: None };
    assert_eq!(begun, Job::new(JobId::new(5), task, context));
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
