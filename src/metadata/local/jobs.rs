//! Jobs on one machine: only in the journal, because they are few.

use async_trait::async_trait;

use super::{Journal, LocalStore};
use crate::domain::JobId;
use crate::metadata::jobs::{Job, JobStore};
use crate::metadata::keys::erasures::Erasure;
use crate::metadata::{ChangeContext, MetadataError};

#[async_trait]
impl<J: Journal> JobStore for LocalStore<J> {
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        self.lock_recovered()?.journal.jobs()
    }

    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError> {
        let mut inner = self.lock_recovered()?;
        if !inner.follows(job)? {
            return Ok(false);
        }
        inner.journal.keep_job(job)?;
        Ok(true)
    }

    async fn begin_job(&self, job: &Job, note: Erasure, context: ChangeContext) -> Result<(), MetadataError> {
        self.lock_recovered()?.note(note, Some(job), context).map(|_| ())
    }

    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError> {
        self.lock_recovered()?.journal.forget_job(id)
    }
}
