//! Works on jobs for as long as the server runs: at most one of each lane at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::Jobs;
use super::build::{Settle, build};
use super::clean::clean;
use super::hold::{Held, LEASE, Lost};
use super::lane::{Lane, in_turn};
use super::purge::{drop_index, purge};
use super::tempo::{Answered, Tempo};
use super::unbuilt::make_jobs;
use crate::actors::ListPool;
use crate::domain::JobId;
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, JobState, TaskKind};

/// The interval between checks for jobs that other servers left or created. With [`LEASE`] it determines how soon
/// another server continues the work of a dead one.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// As in docs/reference/api.md. The next check sees the last state of a dead server's job, and the first one after the
/// lease adopts it.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);

const _: () = assert!(
    CHECK_INTERVAL.as_secs() + LEASE.as_secs().next_multiple_of(CHECK_INTERVAL.as_secs())
        <= TAKEN_OVER_WITHIN.as_secs()
);

/// The dependencies of a job. Cheap to clone.
#[derive(Clone)]
struct Tools {
    jobs: Jobs,
    lists: ListPool,
    settle: Settle,
    answered: Answered,
    /// The name of this server while it runs.
    holder: u128,
}

pub struct Worker {
    tools: Tools,
    /// The states that jobs of others were seen in, and since when.
    seen: HashMap<JobId, (u64, Instant)>,
    free: [Arc<Semaphore>; Lane::ALL.len()],
}

impl Worker {
    pub fn new(jobs: Jobs, lists: ListPool, settle: Settle, answered: Answered) -> Self {
        let tools = Tools { jobs, lists, settle, answered, holder: Uuid::new_v4().as_u128() };
        Self { tools, seen: HashMap::new(), free: Lane::ALL.map(|_| Arc::new(Semaphore::new(1))) }
    }

    /// Works until it is dropped. The next start, or another server, continues its job.
    pub async fn run(mut self) {
        let news = Arc::clone(&self.tools.jobs.news);
        let mut working = JoinSet::new();
        loop {
            match self.find_jobs().await {
                Ok(chosen) => {
                    for (job, lane) in chosen {
                        working.spawn_local(work_on(self.tools.clone(), job, lane));
                    }
                }
                // The metadata actor logs it.
                Err(error) => tracing::debug!(%error, "cannot read the jobs"),
            }
            tokio::select! {
                Some(_ended) = working.join_next() => {}
                () = news.notified() => {}
                () = sleep(CHECK_INTERVAL) => {}
            }
        }
    }

    async fn find_jobs(&mut self) -> Result<Vec<(Job, OwnedSemaphorePermit)>, MetadataError> {
        let jobs = &self.tools.jobs;
        let mut all = jobs.all().await?;
        if make_jobs(jobs, &all).await? {
            all = jobs.all().await?;
        }
        Ok(self.choose(all))
    }

    /// The next job of each free lane that no server works on.
    fn choose(&mut self, mut all: Vec<Job>) -> Vec<(Job, OwnedSemaphorePermit)> {
        let now = Instant::now();
        self.seen.retain(|id, _| all.iter().any(|job| job.id == *id && !job.state.is_over()));
        let mut chosen = Vec::new();
        in_turn(&mut all);
        for job in all {
            if !matches!(job.state, JobState::Waiting | JobState::Running) {
                continue;
            }
            let (number, since) = self.seen.entry(job.id).or_insert((job.number, now));
            if *number != job.number {
                (*number, *since) = (job.number, now);
            }
            // If no other server has the same jobs, only an earlier process can have held it.
            let is_shared = self.tools.jobs.metadata.is_shared();
            let is_anothers = job.holder.is_some_and(|holder| holder != self.tools.holder) && is_shared;
            if is_anothers && now.duration_since(*since) < LEASE {
                continue;
            }
            // A job of this server occupies its lane, so that it is not selected again.
            let lane = Arc::clone(&self.free[Lane::of(job.task.kind) as usize]);
            if let Ok(lane) = lane.try_acquire_owned() {
                chosen.push((job, lane));
            }
        }
        chosen
    }
}

async fn work_on(tools: Tools, job: Job, _lane: OwnedSemaphorePermit) {
    let Tools { jobs, lists, settle, answered, holder } = &tools;
    let id = job.id;
    let mut tempo = Tempo::new(Arc::clone(answered), lists);
    let worked = match Held::take(jobs, lists, job, *holder).await {
        Ok(mut held) => {
            let (feature, kind) = (&held.job.task.feature, held.job.task.kind.as_str());
            tracing::info!(job = %id, %feature, kind, "job resumed");
            let worked = match held.job.task.kind {
                TaskKind::Purge => purge(&mut held, jobs, lists).await,
                TaskKind::DropIndex => drop_index(&mut held, jobs, lists).await,
                TaskKind::BuildIndex => build(&mut held, jobs, lists, *settle, &mut tempo).await,
                TaskKind::Clean => clean(&mut held, jobs, lists, *settle, &mut tempo).await,
            };
            let worked = worked.map(|()| held.job.progress.lists);
            if worked.is_err() {
                held.leave().await;
            }
            worked
        }
        Err(lost) => Err(lost),
    };
    match worked {
        Ok(lists) => tracing::info!(job = %id, lists, "job finished"),
        Err(Lost) => {
            tracing::info!(job = %id, "job released: it was paused, cancelled, preempted, or belongs to another server");
            // Another server may need a moment to adopt it.
            sleep(Duration::from_millis(100)).await;
        }
    }
}
