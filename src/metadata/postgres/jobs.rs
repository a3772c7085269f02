//! Jobs in the same database: each change of one is a transaction of its own, and no news to the catalog.

use async_trait::async_trait;
use serde_json::Value as Json;
use sqlx::{Connection, PgConnection};

use super::PostgresStore;
use super::error::Failure;
use super::options::{BEGIN, CALL_TIME_MAX};
use super::rows::{self, RowName};
use super::unnamed::Unnamed;
use crate::domain::JobId;
use crate::metadata::MetadataError;
use crate::metadata::jobs::{self, Job, JobStore};
use crate::metadata::keys::record::Broken;

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
        let text = jobs::write(job).and_then(|text| serde_json::from_str(&text));
        let reason = || "a job has no JSON form".to_owned();
        let record: Json = text.map_err(|_| MetadataError::Internal { reason: reason(), outcome_unknown: false })?;
        let write = async {
            let mut lease = self.connections.lease().await?;
            let kept = put(&mut lease, job, &record).await;
            self.connections.conclude(lease, kept)
        };
        self.connections.within(CALL_TIME_MAX, write).await
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

async fn put(connection: &mut PgConnection, job: &Job, record: &Json) -> Result<bool, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let (id, number) = (job.id.to_string(), rows::number(job.number));
    let kept = sqlx::query_file!("metadata_sql/queries/put_job.sql", id, number, record)
        .execute(Unnamed(&mut transaction))
        .await?;
    transaction.commit().await?;
    Ok(kept.rows_affected() > 0)
}

async fn forget(connection: &mut PgConnection, id: JobId) -> Result<(), Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    sqlx::query_file!("metadata_sql/queries/forget_job.sql", id.to_string()).execute(Unnamed(&mut transaction)).await?;
    transaction.commit().await?;
    Ok(())
}
