//! A job that this server works on, for as long as it keeps saying so.

use std::time::Duration;

use tokio::time::Instant;

use super::Jobs;
use super::lane::Lane;
use crate::domain::EntityId;
use crate::metadata::jobs::{Job, JobState};

/// A state is kept at least this often while there is something to tell, or nothing but that the work goes on.
pub(super) const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// Whoever has seen no new state for this time takes a job over.
///
/// By then whoever had it is at nothing any more: an operation has a deadline that is [`OPERATION_TIME_MAX`] after the
/// last state was kept, whatever is kept while it is at work, and none is begun once that is [`WORK_TIME_MAX`] ago.
/// Others count from a later moment, at which they have seen that state; so no two clocks are compared.
pub(super) const LEASE: Duration = Duration::from_secs(7);
/// Operations end so long after the last state was kept.
const OPERATION_TIME_MAX: Duration = Duration::from_secs(6);
/// Whoever could not keep a state for this time works no more: what begins before has time left.
const WORK_TIME_MAX: Duration = Duration::from_secs(3);

/// A job that has failed for so long makes way for others.
const STUCK_AFTER: Duration = Duration::from_secs(5);

const _: () = assert!(
    SAVE_INTERVAL.as_secs() < WORK_TIME_MAX.as_secs()
        && WORK_TIME_MAX.as_secs() < OPERATION_TIME_MAX.as_secs()
        && OPERATION_TIME_MAX.as_secs() < LEASE.as_secs()
);

/// This server no longer works on the job: an operator paused or cancelled it, another server has it, it made way for
/// other jobs, or the metadata store was away too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

pub(super) struct Held<'j> {
    jobs: &'j Jobs,
    pub job: Job,
    saved_at: Instant,
    /// The counts at the place where the walk goes on.
    counted: Counted,
}

#[derive(Debug, Clone, Default)]
struct Counted {
    lists: u64,
    entries: Vec<u64>,
}

impl Counted {
    fn of(job: &Job) -> Self {
        Self { lists: job.progress.lists, entries: job.progress.entries.clone() }
    }
}

impl<'j> Held<'j> {
    /// Takes a job, unless another server does.
    pub async fn take(jobs: &'j Jobs, job: Job, holder: u128) -> Result<Self, Lost> {
        let job = Job { state: JobState::Running, holder: Some(holder), ..job };
        let counted = Counted::of(&job);
        let mut held = Self { jobs, job, saved_at: Instant::now(), counted };
        held.save().await?;
        Ok(held)
    }

    /// When an operation that begins now has to be over.
    pub fn deadline(&self) -> Instant {
        self.saved_at + OPERATION_TIME_MAX
    }

    /// Keeps how far it is, if it is time to. To be called every few seconds.
    pub async fn save_if_due(&mut self) -> Result<(), Lost> {
        if self.saved_at.elapsed() < SAVE_INTERVAL { Ok(()) } else { self.save().await }
    }

    /// Keeps how far it is.
    pub async fn save(&mut self) -> Result<(), Lost> {
        let next = Job { number: self.job.number + 1, updated_at: self.jobs.clock.now(), ..self.job.clone() };
        let began = Instant::now();
        match self.jobs.metadata.put_job(next.clone()).await {
            Ok(true) => {
                (self.job, self.saved_at) = (next, began);
                Ok(())
            }
            Ok(false) => Err(Lost),
            // It may have been kept: then the next attempt finds another number, and the job is taken anew.
            Err(error) if error.outcome_unknown() => Err(Lost),
            Err(_) if self.saved_at.elapsed() < WORK_TIME_MAX => Ok(()),
            Err(_) => Err(Lost),
        }
    }

    /// From now on the walk goes on here, on any server.
    pub fn reached(&mut self, place: Option<(u64, Option<EntityId>)>) {
        self.job.progress.place = place;
        self.counted = Counted::of(&self.job);
    }

    /// Gives the job up for now if it has failed for long, and its lane has another one that this server may take. It
    /// comes last then, and still says why it did not go on. A job that fails alone goes on trying.
    pub async fn make_way(&mut self, failing_since: Instant) -> Result<(), Lost> {
        let lane = Lane::of(self.job.task.kind);
        // The server that works on another one may have died.
        let waits = |job: &Job| {
            let is_open = matches!(job.state, JobState::Waiting | JobState::Running);
            job.id != self.job.id && is_open && Lane::of(job.task.kind) == lane
        };
        if failing_since.elapsed() < STUCK_AFTER || !self.jobs.all().await.is_ok_and(|all| all.iter().any(waits)) {
            return Ok(());
        }
        (self.job.state, self.job.holder) = (JobState::Waiting, None);
        // A walk through bags goes through the bags since that place again, and counts them again.
        if lane == Lane::Entering {
            let Counted { lists, mut entries } = self.counted.clone();
            entries.resize(self.job.progress.entries.len(), 0);
            (self.job.progress.lists, self.job.progress.entries) = (lists, entries);
        }
        self.save().await?;
        Err(Lost)
    }

    /// Says that it does not go on at present, and why.
    pub async fn problem(&mut self, why: Option<String>) -> Result<(), Lost> {
        if self.job.problem == why {
            return self.save_if_due().await;
        }
        self.job.problem = why;
        self.save().await
    }
}
