//! Jobs as bodies.

use crate::metadata;
use crate::wire;

pub(super) fn body(job: metadata::jobs::Job) -> wire::Job {
    let metadata::jobs::Job { id, state, task, progress, created_at, created_by, updated_at, problem, .. } = job;
    wire::Job {
        id: id.to_string(),
        kind: task.kind.as_str().to_owned(),
        state: state.as_str().to_owned(),
        entity_type: task.feature.entity_type.to_string(),
        feature: (!task.feature.is_of_bags()).then(|| task.feature.name.to_string()),
        generations: task.targets.len() as u64,
        generations_cleared: progress.targets as u64,
        lists_cleared: progress.lists,
        lists_per_second: task.lists_per_second.map(|rate| rate.get()),
        bytes_erased: progress.erased,
        problem,
        created_at: created_at.to_string(),
        created_by: created_by.as_str().to_owned(),
        updated_at: updated_at.to_string(),
    }
}
