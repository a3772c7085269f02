//! Jobs on one machine: kept in the journal alone, since they are few.

use async_trait::async_trait;

use super::{Journal, LocalStore};
use crate::domain::JobId;
use crate::metadata::MetadataError;
use crate::metadata::jobs::{Job, JobStore};

#[async_trait]
impl<J: Journal> JobStore for LocalStore<J> {
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        self.lock_mended()?.journal.jobs()
    }

    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError> {
        let mut inner = self.lock_mended()?;
        let kept = inner.journal.jobs()?.iter().find(|kept| kept.id == job.id).map_or(0, |kept| kept.number);
        if job.number != kept + 1 {
            return Ok(false);
        }
        inner.journal.keep_job(job)?;
        Ok(true)
    }

    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError> {
        self.lock_mended()?.journal.forget_job(id)
    }
}
