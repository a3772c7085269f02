//! Jobs: work in the background that outlives a restart, as metadata stores keep it.
//!
//! A change of a job is made to what was read, or not at all: each kept state has a number, and the next one
//! takes the place of that number alone. So of servers that share a store one works on a job, and whoever
//! pauses it is sure to be heard.

use std::num::NonZeroU32;

use async_trait::async_trait;

mod record;

pub use super::job_state::JobState;
pub use record::{read, write};

use super::keys::erasures::Erasure;
use super::{ChangeContext, MetadataError};
use crate::domain::{Author, EntityId, FeatureId, FeatureKey, Generation, JobId, Timestamp, VersionLabel};

/// A generation of a version that something is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub version: VersionLabel,
    pub generation: Generation,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// Clears all lists of its targets, and has the item store erase their bytes.
    Purge,
    /// Enters all bags of a type into an index, which is its one target.
    BuildIndex,
    /// Clears the lists of an index that was deleted, its one target.
    DropIndex,
    /// Looks at all bags of a type and at all entries of its targets, which are indexes, and mends what does not agree.
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

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub kind: TaskKind,
    pub feature: FeatureId,
    pub targets: Vec<Target>,
    /// Lists that are cleared, or bags and entries that are looked at, in a second, at most.
    pub lists_per_second: Option<NonZeroU32>,
}

impl Task {
    /// The key of all lists of a target.
    pub fn key(&self, target: &Target) -> FeatureKey {
        FeatureKey::new(&self.feature, &target.version, target.generation).of_any_identity()
    }
}

/// How far a task is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Targets that are behind it.
    pub targets: usize,
    /// Where the walk over the lists of the next one goes on: a hash of the item store's, and the last entity.
    pub place: Option<(u64, Option<EntityId>)>,
    /// Lists that were cleared, or bags and entries that were looked at.
    pub lists: u64,
    /// Bags that have too many entries to be entered.
    pub left_out: u64,
    /// Entries that were missing, and those that no bag had.
    pub added: u64,
    pub removed: u64,
    /// Entries that were found or made in each target that is an index.
    pub entries: Vec<u64>,
    /// Once it is done: whether the item store holds none of the bytes any more.
    pub erased: Option<bool>,
}

/// A piece of work, as it is kept.
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
    /// The server that works on it, as it calls itself while it runs.
    pub holder: Option<u128>,
    /// Why it does not go on at present, if it does not.
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

/// A place where jobs are kept.
#[async_trait]
pub trait JobStore: Send + Sync + 'static {
    /// All jobs, in the order of their ids.
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError>;

    /// Keeps a state of a job in the place of the one before it: a new job has the number 1. Tells whether
    /// it did: not if another state came first.
    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError>;

    /// Stores the first state of a job, and an entry of the audit trail about it: both or neither. It takes the next
    /// revision of the store. The job's ID must be new.
    async fn begin_job(&self, job: &Job, note: Erasure, context: ChangeContext) -> Result<(), MetadataError>;

    /// Forgets a job.
    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError>;
}
