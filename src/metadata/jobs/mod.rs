//! Jobs in metadata stores: background work that survives a restart.
//!
//! A change of a job applies only to the state that was read. Each stored state has a number, and the next state
//! replaces exactly that number. So only one of the servers that share a store works on a job, and a pause always takes
//! effect.

use std::num::NonZeroU32;

use async_trait::async_trait;

mod record;

pub use super::job_state::JobState;
pub use record::{read, write};

use super::keys::erasures::Erasure;
use super::{ChangeContext, MetadataError};
use crate::domain::{Author, EntityId, FeatureId, FeatureKey, Generation, JobId, Timestamp, VersionLabel};

/// A generation of a version that a job processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub version: VersionLabel,
    pub generation: Generation,
}

/// The task of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Clears all lists of its targets, and makes the item store erase their bytes.
    Purge,
    /// Enters all bags of a type into an index, its only target.
    BuildIndex,
    /// Clears the lists of a deleted index, its only target.
    DropIndex,
    /// Checks all bags of a type and all entries of its targets, which are indexes, and repairs disagreements.
    Clean,
}

impl TaskKind {
    pub const ALL: [Self; 4] = [Self::Purge, Self::BuildIndex, Self::DropIndex, Self::Clean];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Purge => "purge",
            Self::BuildIndex => "build_index",
            Self::DropIndex => "drop_index",
            Self::Clean => "clean",
        }
    }
}

/// The work of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub kind: TaskKind,
    pub feature: FeatureId,
    pub targets: Vec<Target>,
    /// The largest number of cleared lists, or of checked bags and entries, in a second.
    pub lists_per_second: Option<NonZeroU32>,
}

impl Task {
    /// The key of all lists of a target.
    pub fn key(&self, target: &Target) -> FeatureKey {
        FeatureKey::new(&self.feature, &target.version, target.generation).of_any_identity()
    }
}

/// The progress of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Completed targets.
    pub targets: usize,
    /// Where the walk over the lists of the next target continues: a hash of the item store, and the last entity.
    pub place: Option<(u64, Option<EntityId>)>,
    /// Cleared lists, or checked bags and entries.
    pub lists: u64,
    /// Bags with too many entries for an index.
    pub left_out: u64,
    /// Missing entries that were added, and entries without a bag that were removed.
    pub added: u64,
    pub removed: u64,
    /// Entries that were found or made in each target that is an index.
    pub entries: Vec<u64>,
    /// After the end: whether the item store has erased all bytes.
    pub erased: Option<bool>,
}

/// A job as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    /// The number of this state, from 1.
    pub number: u64,
    pub state: JobState,
    pub task: Task,
    pub progress: Progress,
    pub created_at: Timestamp,
    pub created_by: Author,
    pub updated_at: Timestamp,
    /// The server that works on it, by the ID of its process.
    pub holder: Option<u128>,
    /// Why it does not progress now, if it does not.
    pub problem: Option<String>,
}

impl Job {
    /// The first state of a job.
    pub fn new(id: JobId, task: Task, ChangeContext { by, at }: ChangeContext) -> Self {
        Self {
            id,
            number: 1,
            state: JobState::Waiting,
            task,
            progress: Progress::default(),
            created_at: at,
            created_by: by,
            updated_at: at,
            holder: None,
            problem: None,
        }
    }
}

/// Storage of jobs.
#[async_trait]
pub trait JobStore: Send + Sync + 'static {
    /// All jobs, in the order of their IDs.
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError>;

    /// Replaces the previous state of a job; a new job has the number 1. Returns whether it did: not if another state
    /// came first.
    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError>;

    /// Stores the first state of a job and an entry of the audit trail about it: both or neither. It takes the next
    /// revision of the store. The job's ID must be new.
    async fn begin_job(&self, job: &Job, note: Erasure, context: ChangeContext) -> Result<(), MetadataError>;

    /// Deletes a job.
    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError>;
}
