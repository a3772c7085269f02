//! Jobs: each state replaces exactly the previous one.

use liststore::domain::{Generation, JobId, Revision};
use liststore::metadata::jobs::{Job, JobState, Progress, Target, Task, TaskKind};
use liststore::metadata::keys::AuditFilter;

use super::MetadataBackend;
use super::erasures::erasure;
use super::keys::audit_lines;
use super::sample::*;

pub fn job(number: u128) -> Job {
    let (context, target) = (by("key:feed"), Target { version: label("v"), generation: Generation::new(2).unwrap() });
    Job {
        id: JobId::new(number),
        number: 1,
        state: JobState::Waiting,
        task: Task {
            kind: TaskKind::Purge,
            feature: id("user", "seen"),
            targets: vec![target],
            lists_per_second: None,
        },
        progress: Progress::default(),
        created_at: context.at,
        created_by: context.by,
        updated_at: context.at,
        holder: None,
        problem: None,
    }
}

pub async fn a_state_of_a_job_replaces_only_its_predecessor(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    assert!(store.jobs().await.unwrap().is_empty());
    let (first, other) = (job(7), job(3));
    assert!(!store.put_job(&Job { number: 2, ..first.clone() }).await.unwrap(), "there is nothing before it");
    assert!(store.put_job(&first).await.unwrap());
    assert!(!store.put_job(&first).await.unwrap(), "it is there already");
    assert!(store.put_job(&other).await.unwrap());
    let progress = Progress { lists: 5, place: Some((u64::MAX, None)), ..Progress::default() };
    let next = Job { number: 2, state: JobState::Running, holder: Some(u128::MAX), progress, ..first.clone() };
    let rival = Job { number: 2, state: JobState::Paused, ..first };
    assert!(store.put_job(&next).await.unwrap());
    assert!(!store.put_job(&rival).await.unwrap(), "another state came first");
    assert!(!store.put_job(&Job { number: 4, ..rival }).await.unwrap(), "it knows nothing of the third state");
    assert_eq!(store.jobs().await.unwrap(), [other.clone(), next]);
    store.forget_job(JobId::new(7)).await.unwrap();
    store.forget_job(JobId::new(8)).await.unwrap();
    assert_eq!(store.jobs().await.unwrap(), [other]);
    store.close().await;
}

pub async fn a_job_begins_in_one_change_with_its_audit_entry(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    let (begun, note) = (job(7), erasure("user/u 1"));
    store.begin_job(&begun, note, by("key:feed")).await.unwrap();
    assert_eq!(store.jobs().await.unwrap(), [begun]);
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await, ["erase_entity entity:user/u 1"]);
    assert_eq!(store.definitions().await.unwrap().revision, Revision(1));
    store.close().await;
}
