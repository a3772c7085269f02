//! Which jobs wait for each other: of each lane a server works on one at a time.

use crate::metadata::jobs::{Job, JobState, TaskKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Jobs that go through bags, for their indexes.
    Entering,
    /// Jobs that remove lists, which can run very long.
    Removing,
}

impl Lane {
    pub const ALL: [Self; 2] = [Self::Entering, Self::Removing];

    pub fn of(kind: TaskKind) -> Self {
        match kind {
            TaskKind::BuildIndex | TaskKind::Clean => Self::Entering,
            TaskKind::Purge | TaskKind::DropIndex => Self::Removing,
        }
    }
}

/// Sorts jobs in the order of processing: by age, and then the jobs that made way, by the length of their wait.
pub(super) fn in_turn(jobs: &mut [Job]) {
    jobs.sort_by_key(|job| (job.state == JobState::Waiting && job.problem.is_some()).then_some(job.updated_at));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Author, EntityType, FeatureId, JobId, Timestamp};
    use crate::metadata::jobs::{Progress, Task};

    fn job(id: u128, state: JobState, updated_at: u64, problem: Option<&str>) -> Job {
        let feature = FeatureId::of_bags(EntityType::new("link").unwrap());
        let task = Task { kind: TaskKind::Clean, feature, targets: Vec::new(), lists_per_second: None };
        Job {
            id: JobId::new(id),
            number: 1,
            state,
            task,
            progress: Progress::default(),
            created_at: Timestamp::MIN,
            created_by: Author::anonymous(),
            updated_at: Timestamp::from_nanos(updated_at).unwrap(),
            holder: None,
            problem: problem.map(str::to_owned),
        }
    }

    #[test]
    fn jobs_that_gave_way_come_last() {
        let mut jobs = [
            job(1, JobState::Waiting, 9, Some("stuck")),
            job(2, JobState::Waiting, 5, Some("stuck")),
            job(3, JobState::Running, 7, Some("tried again")),
            job(4, JobState::Waiting, 8, None),
        ];
        in_turn(&mut jobs);
        assert_eq!(jobs.map(|job| job.id), [3, 4, 2, 1].map(JobId::new));
    }
}
