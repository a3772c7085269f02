//! Makes jobs, lists them, and pauses, resumes and cancels them.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::actors::MetadataHandle;
use crate::domain::{Author, Clock, JobId};
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, JobState, Progress, Task};
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};

/// Jobs that are not over.
const OPEN_MAX: usize = 100;
/// Jobs that are over and still told of.
const OVER_MAX: usize = 1_000;
/// How often a change is tried again that another one came before.
const ATTEMPTS_MAX: usize = 10;

/// What is to become of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Pause,
    Resume,
    Cancel,
    /// It goes on at this rate, in lists, or bags and entries, a second; at any without one.
    Rate(Option<NonZeroU32>),
}

impl Command {
    fn action(self) -> ServerAction {
        match self {
            Self::Pause => ServerAction::PauseJob,
            Self::Resume => ServerAction::ResumeJob,
            Self::Cancel => ServerAction::CancelJob,
            Self::Rate(_) => ServerAction::UpdateJob,
        }
    }
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

/// How many jobs there may be beside these.
pub(super) fn room_beside(all: &[Job]) -> usize {
    OPEN_MAX.saturating_sub(all.iter().filter(|job| !job.state.is_over()).count())
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

    /// Refuses another job where there are as many as there may be.
    pub async fn check_room(&self) -> Result<(), MetadataError> {
        if room_beside(&self.all().await?) > 0 { Ok(()) } else { Err(MetadataError::TooManyJobs) }
    }

    pub async fn create(&self, task: Task, by: Author) -> Result<Job, MetadataError> {
        self.check_room().await?;
        self.create_in_any_case(task, by).await
    }

    /// For what has to be done whatever there is to do besides.
    pub async fn create_in_any_case(&self, task: Task, by: Author) -> Result<Job, MetadataError> {
        let created = self.create_once(JobId::new(Uuid::now_v7().as_u128()), task, by).await?;
        created.ok_or_else(|| {
            let reason = "a job of the same id is there".to_owned();
            MetadataError::Internal { reason, outcome_unknown: false }
        })
    }

    /// Creates the job of an id, unless there is one.
    pub(super) async fn create_once(&self, id: JobId, task: Task, by: Author) -> Result<Option<Job>, MetadataError> {
        let all = self.all().await?;
        let over: Vec<_> = all.iter().filter(|job| job.state.is_over()).collect();
        for oldest in over.iter().take((over.len() + 1).saturating_sub(OVER_MAX)) {
            self.metadata.forget_job(oldest.id).await?;
        }
        let now = self.clock.now();
        let job = Job {
            id,
            number: 1,
            state: JobState::Waiting,
            task,
            progress: Progress::default(),
            created_at: now,
            created_by: by,
            updated_at: now,
            holder: None,
            problem: None,
        };
        let is_new = self.metadata.put_job(job.clone()).await?;
        self.news.notify_one();
        Ok(is_new.then_some(job))
    }

    /// Has this server's worker look at once for what there is to do.
    pub fn wake(&self) {
        self.news.notify_one();
    }

    /// Changes a job as commanded. A repeated command changes nothing. The audit trail has the change before it is
    /// made, and a change that the trail cannot take is not made.
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
                // Whoever works on it loses it, and it is taken anew.
                (Command::Rate(_), JobState::Paused) => JobState::Paused,
                (Command::Rate(_), _) => JobState::Waiting,
            };
            let mut task = job.task.clone();
            if let Command::Rate(rate) = command {
                task.lists_per_second = rate;
            }
            let states =
                (shown(&job, job.state, job.task.lists_per_second), shown(&job, wanted, task.lists_per_second));
            // A running job moves on by itself: an attempt may come too late, and the next one makes the same change.
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
        let reason = "the job changes too fast".to_owned();
        Err(MetadataError::Unavailable { reason, outcome_unknown: false })
    }
}
