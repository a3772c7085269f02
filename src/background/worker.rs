//! Works on jobs, one after the other, for as long as the server runs.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::Jobs;
use super::build::{Settle, build};
use super::hold::{Held, LEASE, Lost};
use super::purge::{drop_index, purge};
use super::unbuilt::make_jobs;
use crate::actors::ListPool;
use crate::domain::JobId;
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, JobState, TaskKind};

/// How often it is looked what other servers have left or asked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

pub struct Worker {
    jobs: Jobs,
    lists: ListPool,
    settle: Settle,
    /// What this server is called while it runs.
    holder: u128,
    /// The states that jobs of others were seen in, and since when.
    seen: HashMap<JobId, (u64, Instant)>,
}

impl Worker {
    pub fn new(jobs: Jobs, lists: ListPool, settle: Settle) -> Self {
        Self { jobs, lists, settle, holder: Uuid::new_v4().as_u128(), seen: HashMap::new() }
    }

    /// Works until it is dropped. What it was at goes on with the next start, or on another server.
    pub async fn run(mut self) {
        loop {
            match self.look().await {
                Ok(Some(job)) => {
                    self.work_on(job).await;
                    continue;
                }
                Ok(None) => {}
                // The metadata actor tells of it.
                Err(error) => tracing::debug!(%error, "jobs cannot be read"),
            }
            let _nothing_new = timeout(LOOK_INTERVAL, self.jobs.news.notified()).await;
        }
    }

    async fn look(&mut self) -> Result<Option<Job>, MetadataError> {
        let mut all = self.jobs.all().await?;
        if make_jobs(&self.jobs, &all).await? {
            all = self.jobs.all().await?;
        }
        Ok(self.choose(all))
    }

    /// The oldest job that nobody works on.
    fn choose(&mut self, all: Vec<Job>) -> Option<Job> {
        let now = Instant::now();
        self.seen.retain(|id, _| all.iter().any(|job| job.id == *id && !job.state.is_over()));
        for job in all {
            if !matches!(job.state, JobState::Waiting | JobState::Running) {
                continue;
            }
            let (number, since) = self.seen.entry(job.id).or_insert((job.number, now));
            if *number != job.number {
                (*number, *since) = (job.number, now);
            }
            // Nobody but an earlier process can have held it where no other server has the same jobs.
            let is_anothers = job.holder.is_some_and(|holder| holder != self.holder) && self.jobs.metadata.is_shared();
            if !is_anothers || now.duration_since(*since) >= LEASE {
                return Some(job);
            }
        }
        None
    }

    async fn work_on(&self, job: Job) {
        let id = job.id;
        let worked = match Held::take(&self.jobs, job, self.holder).await {
            Ok(mut held) => {
                tracing::info!(job = %id, feature = %held.job.task.feature, kind = held.job.task.kind.as_str(), "a job goes on");
                let worked = match held.job.task.kind {
                    TaskKind::Purge => purge(&mut held, &self.jobs, &self.lists).await,
                    TaskKind::DropIndex => drop_index(&mut held, &self.jobs, &self.lists).await,
                    TaskKind::BuildIndex => build(&mut held, &self.jobs, &self.lists, self.settle).await,
                };
                worked.map(|()| held.job.progress.lists)
            }
            Err(lost) => Err(lost),
        };
        match worked {
            Ok(lists) => tracing::info!(job = %id, lists, "a job is done"),
            Err(Lost) => {
                tracing::info!(job = %id, "a job is left: it was paused or cancelled, or is another server's");
                // Another server may need a moment to take it.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
