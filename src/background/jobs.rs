//! Makes jobs, lists them, and pauses, resumes and cancels them.

use std::num::NonZeroU32;
use std::sync::Arc;

use liststore_contract::operations::{cancel_job, pause_job, resume_job, update_job};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::actors::MetadataHandle;
use crate::domain::{Author, Clock, JobId};
use crate::metadata::jobs::{Job, JobState, Task, TaskKind};
use crate::metadata::keys::erasures::Erasure;
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::metadata::{ChangeContext, MetadataError};

/// Jobs of one [`Group`] that wait or are worked on.
const ACTIVE_MAX: usize = 100;
/// Jobs of one [`Group`] that are not over, paused ones included.
const UNFINISHED_MAX: usize = 1_000;
/// Ended jobs that are still listed.
const OVER_MAX: usize = 1_000;
/// How often a change is tried again that another one came before.
const ATTEMPTS_MAX: usize = 10;

/// The commands for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Pause,
    Resume,
    Cancel,
    /// It continues at this rate, in lists, or bags and entries, a second; without a limit if `None`.
    Rate(Option<NonZeroU32>),
}

impl Command {
    fn action(self) -> ServerAction {
        match self {
            Self::Pause => ServerAction::of(&pause_job::ROW),
            Self::Resume => ServerAction::of(&resume_job::ROW),
            Self::Cancel => ServerAction::of(&cancel_job::ROW),
            Self::Rate(_) => ServerAction::of(&update_job::ROW),
        }
    }
}

/// Jobs that share a bound: jobs of one group never exclude jobs of another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// A caller created it.
    Asked,
    /// The server makes them for indexes that are not ready.
    Builds,
    /// Each belongs to the deletion of an index.
    Drops,
}

impl Group {
    fn of(kind: TaskKind) -> Self {
        match kind {
            TaskKind::Purge | TaskKind::Clean => Self::Asked,
            TaskKind::BuildIndex => Self::Builds,
            TaskKind::DropIndex => Self::Drops,
        }
    }
}

/// How many jobs of a kind there may be next to these.
pub(super) fn room_for(kind: TaskKind, all: &[Job]) -> usize {
    let group = Group::of(kind);
    let unfinished = all.iter().filter(|job| !job.state.is_over() && Group::of(job.task.kind) == group);
    let (active, paused): (Vec<_>, Vec<_>) = unfinished.partition(|job| job.state != JobState::Paused);
    let active_max = if group == Group::Drops { UNFINISHED_MAX } else { ACTIVE_MAX };
    let left = UNFINISHED_MAX.saturating_sub(active.len() + paused.len());
    left.min(active_max.saturating_sub(active.len()))
}

/// A job as the audit trail shows it.
fn shown(job: &Job, state: JobState, lists_per_second: Option<NonZeroU32>) -> Json {
    json!({
        "kind": job.task.kind.as_str(),
        "feature": job.task.feature.to_string(),
        "state": state.as_str(),
        "lists_per_second": lists_per_second,
    })
}

/// The handle for jobs. Cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    pub(super) metadata: MetadataHandle,
    pub(super) clock: Arc<dyn Clock>,
    /// Wakes this server's worker.
    pub(super) news: Arc<Notify>,
}

impl Jobs {
    pub fn new(metadata: MetadataHandle, clock: Arc<dyn Clock>) -> Self {
        Self { metadata, clock, news: Arc::default() }
    }

    /// All jobs, in the order of their creation.
    pub async fn all(&self) -> Result<Vec<Job>, MetadataError> {
        self.metadata.jobs().await
    }

    pub async fn get(&self, id: JobId) -> Result<Job, MetadataError> {
        let all = self.all().await?;
        all.into_iter().find(|job| job.id == id).ok_or(MetadataError::JobNotFound(id))
    }

    /// The ID of a job that a change is about to begin. Refused where there are as many of its kind as there may be.
    pub async fn id_for(&self, kind: TaskKind) -> Result<JobId, MetadataError> {
        let all = self.all().await?;
        if room_for(kind, &all) == 0 {
            return Err(MetadataError::TooManyJobs);
        }
        self.forget_oldest(&all).await;
        Ok(JobId::new(Uuid::now_v7().as_u128()))
    }

    pub async fn create(&self, task: Task, by: Author) -> Result<Job, MetadataError> {
        let id = self.id_for(task.kind).await?;
        self.create_once(id, task, by).await?.ok_or_else(|| {
            let reason = "a job with this ID already exists".to_owned();
            MetadataError::Internal { reason, outcome_unknown: false }
        })
    }

    /// Creates a job in one change with its entry of the audit trail.
    pub async fn create_noted(
        &self,
        task: Task,
        by: Author,
        note: impl FnOnce(JobId) -> Erasure,
    ) -> Result<Job, MetadataError> {
        let id = self.id_for(task.kind).await?;
        self.begin_noted(id, task, by, note).await
    }

    /// Creates a job of a former store's audit trail, unless the same work is unfinished here. The number of such jobs
    /// has no separate bound, because none of them can end before all are created. Returns whether the job is new.
    pub async fn repeat_noted(
        &self,
        task: Task,
        by: Author,
        note: impl FnOnce(JobId) -> Erasure,
    ) -> Result<bool, MetadataError> {
        let all = self.all().await?;
        let is_same = |job: &Job| {
            let own = &job.task;
            (own.kind, &own.feature, &own.targets) == (task.kind, &task.feature, &task.targets)
        };
        if all.iter().any(|job| !job.state.is_over() && is_same(job)) {
            return Ok(false);
        }
        self.forget_oldest(&all).await;
        self.begin_noted(JobId::new(Uuid::now_v7().as_u128()), task, by, note).await?;
        Ok(true)
    }

    async fn begin_noted(
        &self,
        id: JobId,
        task: Task,
        by: Author,
        note: impl FnOnce(JobId) -> Erasure,
    ) -> Result<Job, MetadataError> {
        let job = Job::new(id, task, ChangeContext { by, at: self.clock.now() });
        self.metadata.begin_job(job.clone(), note(id)).await?;
        self.wake();
        Ok(job)
    }

    /// Creates the job of an id, unless there is one.
    pub(super) async fn create_once(&self, id: JobId, task: Task, by: Author) -> Result<Option<Job>, MetadataError> {
        let job = Job::new(id, task, ChangeContext { by, at: self.clock.now() });
        let is_new = self.metadata.put_job(job.clone()).await?;
        self.wake();
        Ok(is_new.then_some(job))
    }

    /// Makes room for one more job that is going to be over. Where that fails, the next creation does it.
    pub(super) async fn forget_oldest(&self, all: &[Job]) {
        let over: Vec<_> = all.iter().filter(|job| job.state.is_over()).collect();
        for oldest in over.iter().take((over.len() + 1).saturating_sub(OVER_MAX)) {
            if let Err(error) = self.metadata.forget_job(oldest.id).await {
                return tracing::debug!(job = %oldest.id, %error, "cannot delete an old job: retrying");
            }
        }
    }

    /// Has this server's worker check for work at once.
    pub fn wake(&self) {
        self.news.notify_one();
    }

    /// Changes a job as commanded. A repeated command changes nothing. The audit trail has the change before it is
    /// made, and a change that the trail refuses is not made.
    pub async fn command(&self, id: JobId, command: Command, by: Author) -> Result<Job, MetadataError> {
        let mut noted = None;
        for _ in 0..ATTEMPTS_MAX {
            let job = self.get(id).await?;
            let wanted = match (command, job.state) {
                (Command::Cancel, JobState::Cancelled) => return Ok(job),
                (_, state) if state.is_over() => return Err(MetadataError::JobIsOver { id, state }),
                (Command::Pause, JobState::Paused) => return Ok(job),
                (Command::Resume, JobState::Waiting | JobState::Running) => return Ok(job),
                (Command::Pause, _) => JobState::Paused,
                (Command::Resume, _) => JobState::Waiting,
                (Command::Cancel, _) => JobState::Cancelled,
                (Command::Rate(rate), _) if job.task.lists_per_second == rate => return Ok(job),
                // The current worker loses it, and it is taken again.
                (Command::Rate(_), JobState::Paused) => JobState::Paused,
                (Command::Rate(_), _) => JobState::Waiting,
            };
            let mut task = job.task.clone();
            if let Command::Rate(rate) = command {
                task.lists_per_second = rate;
            }
            let states =
                (shown(&job, job.state, job.task.lists_per_second), shown(&job, wanted, task.lists_per_second));
            // A running job moves on. An attempt may come too late, and the next one makes the same change.
            if noted.as_ref() != Some(&states) {
                let (before, after) = states.clone();
                let (action, target) = (command.action(), format!("job:{id}"));
                let change = ServerChange { action, target, before: Some(before), after: Some(after) };
                self.metadata.note_server_change(change, by.clone()).await?;
                noted = Some(states);
            }
            let updated_at = self.clock.now();
            let number = job.number + 1;
            let next = Job { number, state: wanted, task, holder: None, problem: None, updated_at, ..job };
            if self.metadata.put_job(next.clone()).await? {
                self.news.notify_one();
                return Ok(next);
            }
        }
        let reason = "the job changed too often during the update".to_owned();
        Err(MetadataError::Unavailable { reason, outcome_unknown: false })
    }
}
