//! A job that this server works on, for as long as it keeps saying so.

use std::time::Duration;

use tokio::time::Instant;

use super::Jobs;
use crate::metadata::jobs::{Job, JobState};

/// A state is kept at least this often while there is something to tell, or nothing but that the work goes on.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// Whoever has seen no new state for this time takes a job over.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Whoever could not keep one for this time works no more: well before others take over.
const WORK_TIME_MAX: Duration = Duration::from_secs(15);

/// The job is not this server's any more: somebody paused or cancelled it, another server has it, or the
/// metadata store was away too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

pub(super) struct Held<'j> {
    jobs: &'j Jobs,
    pub job: Job,
    saved_at: Instant,
}

impl<'j> Held<'j> {
    /// Takes a job, unless another server does.
    pub async fn take(jobs: &'j Jobs, job: Job, holder: u128) -> Result<Self, Lost> {
        let job = Job { state: JobState::Running, holder: Some(holder), ..job };
        let mut held = Self { jobs, job, saved_at: Instant::now() };
        held.save().await?;
        Ok(held)
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

    /// Says that it does not go on at present, and why.
    pub async fn problem(&mut self, why: Option<String>) -> Result<(), Lost> {
        if self.job.problem == why {
            return self.save_if_due().await;
        }
        self.job.problem = why;
        self.save().await
    }
}
