//! Which indexes are to be built, and the job of each.
//!
//! Nobody asks for a build: an index that is not ready, and whose job nobody has made, is found by whichever server
//! looks first. So none is forgotten, whatever breaks off between its definition and its job.

use md5::{Digest, Md5};

use super::jobs::{Jobs, room_beside};
use crate::domain::{Author, FeatureId, FeatureKey, FeatureVersion, JobId};
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, Target, Task, TaskKind};

/// Who is said to have made what nobody asked for.
const AUTHOR: &str = "liststore";

/// Makes the jobs that are missing, of which `all` are there; tells whether it made any. Where there is no room for
/// them they are made later: those that are there must go on.
pub(super) async fn make_jobs(jobs: &Jobs, all: &[Job]) -> Result<bool, MetadataError> {
    let (mut made, mut room) = (false, room_beside(all));
    for id in types_with_unbuilt(jobs) {
        let Some(bags) = jobs.metadata.feature(id.clone()).await? else { continue };
        for version in bags.versions.iter().filter(|v| v.index.as_ref().is_some_and(|index| !index.is_ready)) {
            let job = job_of(&id, version);
            if all.iter().any(|known| known.id == job) {
                continue;
            }
            if room == 0 {
                return Ok(made);
            }
            room -= 1;
            let target = Target { version: version.version.clone(), generation: version.generation };
            let task =
                Task { kind: TaskKind::BuildIndex, feature: id.clone(), targets: vec![target], lists_per_second: None };
            let by = Author::new(AUTHOR).unwrap_or_else(|_| Author::anonymous());
            made |= jobs.create_once(job, task, by).await?.is_some();
        }
    }
    Ok(made)
}

/// The types of whose bags an index is not ready, as far as the catalog knows.
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
