//! Jobs in the same database. Each change of a job is a separate transaction, without a notification of catalogs.

use async_trait::async_trait;
use serde_json::Value as Json;
use sqlx::{Connection, PgConnection};

use super::error::Failure;
use super::keys::ErasureWork;
use super::options::{BEGIN, CALL_TIME_MAX};
use super::rows::{self, RowName};
use super::unnamed::Unnamed;
use super::{PostgresStore, queries, transaction};
use crate::domain::JobId;
use crate::metadata::jobs::{self, Job, JobStore};
use crate::metadata::keys::erasures::Erasure;
use crate::metadata::keys::record::Broken;
use crate::metadata::{ChangeContext, MetadataError};

#[async_trait]
impl JobStore for PostgresStore {
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease().await?;
            let found = read(&mut lease).await;
            self.connections.conclude(lease, found)
        };
        self.connections.within(CALL_TIME_MAX, read).await
    }

    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError> {
        let write = async {
            let mut lease = self.connections.lease().await?;
            let kept = put(&mut lease, job).await;
            self.connections.conclude(lease, kept)
        };
        self.connections.within(CALL_TIME_MAX, write).await
    }

    async fn begin_job(&self, job: &Job, note: Erasure, context: ChangeContext) -> Result<(), MetadataError> {
        let work = ErasureWork { erasure: note, job: Some(job), context };
        transaction::carry_out(&self.connections, &self.collisions, &work).await.map(|_| ())
    }

    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError> {
        let write = async {
            let mut lease = self.connections.lease().await?;
            let forgotten = forget(&mut lease, id).await;
            self.connections.conclude(lease, forgotten)
        };
        self.connections.within(CALL_TIME_MAX, write).await
    }
}

async fn read(connection: &mut PgConnection) -> Result<Vec<Job>, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let found = sqlx::query_file!("metadata_sql/queries/jobs.sql").fetch_all(Unnamed(&mut transaction)).await?;
    transaction.commit().await?;
    let jobs: Result<_, MetadataError> = found.into_iter().map(|row| job(&row.id, row.number, &row.record)).collect();
    Ok(jobs?)
}

fn job(id: &str, number: i64, record: &Json) -> Result<Job, MetadataError> {
    let place = || id.to_owned();
    let at = RowName { table: "job", key: &place };
    let job = jobs::read(record.to_string().as_bytes()).map_err(|Broken(part)| at.broken(part))?;
    if job.id.to_string() == id && rows::number(job.number) == number { Ok(job) } else { Err(at.broken("record")) }
}

async fn put(connection: &mut PgConnection, job: &Job) -> Result<bool, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let is_kept = queries::put_job(&mut transaction, job).await?;
    transaction.commit().await?;
    Ok(is_kept)
}

async fn forget(connection: &mut PgConnection, id: JobId) -> Result<(), Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    sqlx::query_file!("metadata_sql/queries/forget_job.sql", id.to_string()).execute(Unnamed(&mut transaction)).await?;
    transaction.commit().await?;
    Ok(())
}
