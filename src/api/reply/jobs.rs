//! Jobs as bodies.

use crate::metadata;
use crate::metadata::jobs::{JobState, TaskKind};
use crate::wire;

pub(crate) fn job(job: metadata::jobs::Job) -> wire::Job {
    let metadata::jobs::Job { id, state, task, progress, created_at, created_by, updated_at, problem, .. } = job;
    let (is_clean, has_entries) =
        (task.kind == TaskKind::Clean, matches!(task.kind, TaskKind::BuildIndex | TaskKind::Clean));
    let is_of_indexes = has_entries || task.kind == TaskKind::DropIndex;
    let indexes = task.targets.iter().filter(|_| is_of_indexes).map(|target| target.version.to_string()).collect();
    wire::Job {
        id: id.to_string(),
        kind: task.kind.as_str().to_owned(),
        state: state.as_str().to_owned(),
        entity_type: task.feature.entity_type.to_string(),
        feature: (!task.feature.is_of_bags()).then(|| task.feature.name.to_string()),
        generations: task.targets.len() as u64,
        // A cleaning processes the bags before its indexes.
        generations_cleared: match (task.kind, state) {
            (TaskKind::Clean, JobState::Done) => progress.targets as u64,
            (TaskKind::Clean, _) => progress.targets.saturating_sub(1) as u64,
            _ => progress.targets as u64,
        },
        walked_percent: progress.place.as_ref().filter(|_| !state.is_over()).map(|(hash, _)| percent(*hash)),
        indexes,
        entries_added: is_clean.then_some(progress.added),
        entries_removed: is_clean.then_some(progress.removed),
        entries: has_entries.then(|| progress.entries.iter().sum()),
        lists_cleared: progress.lists,
        lists_per_second: task.lists_per_second.map(|rate| rate.get()),
        bytes_erased: progress.erased,
        problem,
        created_at: created_at.to_string(),
        created_by: created_by.as_str().to_owned(),
        updated_at: updated_at.to_string(),
    }
}

/// Walks follow the order of hashes, which are spread evenly.
fn percent(hash: u64) -> u64 {
    ((u128::from(hash) * 100) >> u64::BITS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_with_its_hash_range() {
        assert_eq!([0, 1 << 62, u64::MAX / 2 + 1, u64::MAX].map(percent), [0, 25, 50, 99]);
    }
}
