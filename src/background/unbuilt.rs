//! Makes indexes and the jobs that build them consistent.
//!
//! No caller requests a build: the server that checks first creates the job of an index that is not ready and has none.
//! So no index is forgotten, wherever a crash interrupts the server between the definition and the job. The first check
//! after a start also repairs the disagreements that restored backups left: a job that is done although its index is
//! not ready, and a paused job of an index that is ready or gone.

use md5::{Digest, Md5};

use super::jobs::{Jobs, room_for};
use crate::definition::FeatureVersion;
use crate::domain::{Author, FeatureId, FeatureKey, JobId};
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, JobState, Progress, Target, Task, TaskKind};

/// The author of jobs that no caller requested.
const AUTHOR: &str = "liststore";

/// Creates the missing jobs. `all` are the existing ones. Returns whether it created any. If there is no room, they
/// are created later: existing jobs must continue.
pub(super) async fn make_jobs(jobs: &Jobs, all: &[Job]) -> Result<bool, MetadataError> {
    let (mut made, mut room) = (settle_paused(jobs, all).await?, room_for(TaskKind::BuildIndex, all));
    for id in types_with_unbuilt(jobs) {
        let Some(bags) = jobs.metadata.feature(id.clone()).await? else { continue };
        for version in bags.versions.iter().filter(|v| v.index.as_ref().is_some_and(|index| !index.is_ready)) {
            let job = job_of(&id, version);
            if let Some(known) = all.iter().find(|known| known.id == job) {
                if known.state == JobState::Done {
                    made |= put_over(jobs, known, JobState::Waiting, Progress::default()).await?;
                }
                continue;
            }
            if room == 0 {
                return Ok(made);
            }
            room -= 1;
            jobs.forget_oldest(all).await;
            let target = Target { version: version.version.clone(), generation: version.generation };
            let task =
                Task { kind: TaskKind::BuildIndex, feature: id.clone(), targets: vec![target], lists_per_second: None };
            let by = Author::new(AUTHOR).unwrap_or_else(|_| Author::anonymous());
            made |= jobs.create_once(job, task, by).await?.is_some();
        }
    }
    Ok(made)
}

/// Ends the paused builds of indexes that are ready or gone. A build that is not paused ends itself.
async fn settle_paused(jobs: &Jobs, all: &[Job]) -> Result<bool, MetadataError> {
    let mut settled = false;
    for job in all.iter().filter(|job| job.task.kind == TaskKind::BuildIndex && job.state == JobState::Paused) {
        let found = jobs.metadata.feature(job.task.feature.clone()).await?;
        let index = job.task.targets.first().and_then(|target| {
            let version = found.as_ref()?.version(&target.version)?;
            version.index.as_ref().filter(|_| version.generation == target.generation)
        });
        let state = match index {
            Some(index) if index.is_ready => JobState::Done,
            Some(_) => continue,
            None => JobState::Cancelled,
        };
        settled |= put_over(jobs, job, state, job.progress.clone()).await?;
    }
    Ok(settled)
}

/// Puts a job into another state. Returns whether it did: not if the job has changed since it was read.
async fn put_over(jobs: &Jobs, job: &Job, state: JobState, progress: Progress) -> Result<bool, MetadataError> {
    let (number, updated_at) = (job.number + 1, jobs.clock.now());
    let next = Job { number, state, progress, updated_at, holder: None, problem: None, ..job.clone() };
    jobs.metadata.put_job(next).await
}

/// The types with an index that is not ready, according to the catalog.
fn types_with_unbuilt(jobs: &Jobs) -> Vec<FeatureId> {
    let Some(snapshot) = jobs.metadata.catalog().snapshot() else { return Vec::new() };
    let unbuilt = snapshot.versions().filter(|version| version.index.as_ref().is_some_and(|index| !index.is_ready));
    let mut ids: Vec<_> =
        unbuilt.filter_map(|v| FeatureKey::parse(v.feature_key.as_str())).map(|(id, ..)| id).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The id of the one job that builds an index: as all ids, it begins with the milliseconds of a creation.
pub fn job_of(id: &FeatureId, index: &FeatureVersion) -> JobId {
    const HASH_BITS: u32 = 80;
    let digest: [u8; 16] = Md5::digest(index.key(id).as_str().as_bytes()).into();
    let hash = u128::from_be_bytes(digest) & ((1 << HASH_BITS) - 1);
    JobId::new((u128::from(index.created_at.as_micros() / 1_000) << HASH_BITS) | hash)
}
