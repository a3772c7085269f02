//! A job that this server works on, while it renews its lease.

use std::time::Duration;

use tokio::time::Instant;

use super::Jobs;
use super::lane::Lane;
use crate::actors::ListPool;
use crate::domain::EntityId;
use crate::items::JOB_OPERATION_TIME_MAX;
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, JobState, Progress};

/// A state is stored at least this often while a job is in progress.
pub(super) const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// Changed progress is stored this often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// How often the last progress is noted in the state of a command, while other commands come first.
const LEAVE_ATTEMPTS_MAX: usize = 10;
/// A server that has seen no new state for this time adopts a job.
///
/// By then the previous holder has stopped. An operation has a deadline that is [`JOB_OPERATION_TIME_MAX`] after the
/// last stored state, regardless of states that are stored during it. None begins later than [`WORK_TIME_MAX`] after
/// that. Other servers count from a later moment, when they have seen that state. So no two clocks are compared.
pub(super) const LEASE: Duration = Duration::from_secs(7);
/// A server that could not store a state for this time stops working. An operation that began before has time left.
const WORK_TIME_MAX: Duration = Duration::from_secs(3);

/// A job that has failed for so long makes way for others.
const STUCK_AFTER: Duration = Duration::from_secs(5);

const _: () = assert!(
    SAVE_INTERVAL.as_secs() < WORK_TIME_MAX.as_secs()
        && WORK_TIME_MAX.as_secs() < JOB_OPERATION_TIME_MAX.as_secs()
        && JOB_OPERATION_TIME_MAX.as_secs() < LEASE.as_secs()
);

/// This server no longer works on the job: an operator paused or cancelled it, another server has it, it made way for
/// other jobs, or the metadata store was away too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

pub(super) struct Held<'j> {
    jobs: &'j Jobs,
    lists: &'j ListPool,
    pub job: Job,
    saved_at: Instant,
    /// The progress of the stored state.
    saved: Progress,
    is_lost: bool,
    /// The counts at the place where the walk continues.
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
    pub async fn take(jobs: &'j Jobs, lists: &'j ListPool, job: Job, holder: u128) -> Result<Self, Lost> {
        let saved = job.progress.clone();
        let job = Job { state: JobState::Running, holder: Some(holder), ..job };
        let counted = Counted::of(&job);
        let mut held = Self { jobs, lists, job, saved_at: Instant::now(), saved, is_lost: false, counted };
        held.save().await?;
        Ok(held)
    }

    /// The deadline of an operation that begins now.
    pub fn deadline(&self) -> Instant {
        self.saved_at + JOB_OPERATION_TIME_MAX
    }

    /// Keeps how far it is, if it is time to. To be called every few seconds.
    pub async fn save_if_due(&mut self) -> Result<(), Lost> {
        let interval = if self.job.progress == self.saved { SAVE_INTERVAL } else { PROGRESS_INTERVAL };
        if self.is_lost || self.saved_at.elapsed() >= interval { self.save().await } else { Ok(()) }
    }

    /// Keeps how far it is.
    pub async fn save(&mut self) -> Result<(), Lost> {
        let metadata = &self.jobs.metadata;
        self.keep_by(async |next| metadata.put_job(next).await).await
    }

    /// Stores the progress by `change`, which gets the next state and returns whether it was stored. All items that
    /// the state speaks of are durable before.
    pub async fn keep_by(&mut self, change: impl AsyncFnOnce(Job) -> Result<bool, MetadataError>) -> Result<(), Lost> {
        if self.is_lost {
            return Err(Lost);
        }
        if let Err(error) = self.lists.sync().await {
            tracing::warn!(job = %self.job.id, %error, "cannot make items durable: retrying");
            return self.not_kept();
        }
        let next = Job { number: self.job.number + 1, updated_at: self.jobs.clock.now(), ..self.job.clone() };
        let began = Instant::now();
        match change(next.clone()).await {
            Ok(true) => {
                self.saved.clone_from(&next.progress);
                (self.job, self.saved_at) = (next, began);
                Ok(())
            }
            Ok(false) => self.lose(),
            // It may have been stored. Then the next attempt finds another number, and the job is taken again.
            Err(error) if error.outcome_unknown() => self.lose(),
            Err(_) => self.not_kept(),
        }
    }

    fn not_kept(&mut self) -> Result<(), Lost> {
        if self.saved_at.elapsed() < WORK_TIME_MAX { Ok(()) } else { self.lose() }
    }

    fn lose(&mut self) -> Result<(), Lost> {
        self.is_lost = true;
        Err(Lost)
    }

    /// Whether this server no longer works on the job.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Notes the last progress of a job that was lost to a command in the state that the command has put.
    pub async fn leave(self) {
        for _ in 0..LEAVE_ATTEMPTS_MAX {
            let Ok(now) = self.jobs.get(self.job.id).await else { return };
            let is_commanded = now.number > self.job.number && now.holder.is_none() && now.progress == self.saved;
            if !is_commanded || self.job.progress == self.saved || self.lists.sync().await.is_err() {
                return;
            }
            let (number, updated_at) = (now.number + 1, self.jobs.clock.now());
            let next = Job { number, updated_at, progress: self.job.progress.clone(), ..now };
            match self.jobs.metadata.put_job(next).await {
                Ok(false) => {}
                Ok(true) | Err(_) => return,
            }
        }
    }

    /// From now on the walk continues here, on any server.
    pub fn reached(&mut self, place: Option<(u64, Option<EntityId>)>) {
        self.job.progress.place = place;
        self.counted = Counted::of(&self.job);
    }

    /// Gives the job up for now if it has failed for long, and its lane has another job that this server may take. It
    /// is the last in turn then, and still shows its problem. A job without others in its lane continues to retry.
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

    /// Records why it does not progress, or that it does.
    pub async fn problem(&mut self, why: Option<String>) -> Result<(), Lost> {
        if self.job.problem == why {
            return self.save_if_due().await;
        }
        self.job.problem = why;
        self.save().await
    }
}
