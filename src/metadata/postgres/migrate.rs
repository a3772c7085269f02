//! `liststore migrate` and `liststore check`, as far as they concern Postgres.
//!
//! Migrations go upwards only, each in one transaction, under an advisory lock: of two that run at
//! once, the second waits and finds nothing left to do.

use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError as DriverError};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use super::error::{translate, unavailable};
use super::options;
use super::schema::{self, Inspection, MIGRATION_TABLE, SchemaState};
use crate::metadata::MetadataError;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// A server that starts waits this long for a Postgres that hangs.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a migration waits for another one, or for a table that servers are using.
const LOCK_TIME_MAX: Duration = Duration::from_secs(60);

/// One migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub version: i64,
    pub description: String,
}

/// What was found, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The database as it was found.
    pub before: Inspection,
    /// The migrations that were applied; in a dry run, those that would be. In order.
    pub steps: Vec<Step>,
    pub dry_run: bool,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum MigrateError {
    /// Newer than this build knows, or not made by it. Nothing was done.
    #[error("{0}")]
    Refused(SchemaState),
    /// For the person who runs the migration, so with Postgres's own words.
    #[error("migration {version} ({description}) failed and was undone: {message}")]
    Failed { version: i64, description: String, message: String },
    #[error(transparent)]
    Store(#[from] MetadataError),
}

/// Connects and looks, for `liststore check`, and for `serve` before it starts. Changes nothing.
pub async fn inspect(url: &str) -> Result<Inspection, MetadataError> {
    let look = async {
        let mut connection = connect(url).await?;
        let inspection = schema::inspect(&mut connection).await?;
        // Nothing depends on how the goodbye goes.
        let _ = connection.close().await;
        Ok(inspection)
    };
    timeout(LOOK_TIME_MAX, look).await.unwrap_or_else(|_| Err(unavailable("postgres did not answer within 5 s")))
}

/// Brings a database's schema up to date, or says what that would take.
pub async fn migrate(url: &str, dry_run: bool) -> Result<MigrationReport, MigrateError> {
    let mut connection = connect(url).await?;
    if dry_run {
        let before = schema::inspect(&mut connection).await?;
        return Ok(MigrationReport { steps: pending(&before.schema)?, before, dry_run });
    }
    connection.lock().await.map_err(store)?;
    let before = schema::inspect(&mut connection).await?;
    let steps = pending(&before.schema)?;
    if !steps.is_empty() {
        connection.ensure_migrations_table(MIGRATION_TABLE).await.map_err(store)?;
    }
    for migration in schema::migrations() {
        if steps.iter().any(|step| step.version == migration.version) {
            connection.apply(MIGRATION_TABLE, &migration).await.map_err(|error| MigrateError::Failed {
                version: migration.version,
                description: migration.description.to_string(),
                message: message_of(&error),
            })?;
        }
    }
    connection.unlock().await.map_err(store)?;
    let _ = connection.close().await;
    Ok(MigrationReport { before, steps, dry_run })
}

async fn connect(url: &str) -> Result<PgConnection, MetadataError> {
    let options = options::parse(url, "liststore-migrate")?.options([("lock_timeout", LOCK_TIME_MAX.as_millis())]);
    timeout(CONNECT_TIME_MAX, PgConnection::connect_with(&options))
        .await
        .map_err(|_| unavailable("postgres gave no connection within 10 s"))?
        .map_err(|error| translate(&error))
}

/// The steps from what was found to what this build knows.
fn pending(found: &SchemaState) -> Result<Vec<Step>, MigrateError> {
    let applied = match found {
        SchemaState::Current { .. } => return Ok(Vec::new()),
        SchemaState::Missing { .. } => 0,
        SchemaState::Older { found, .. } => *found,
        SchemaState::Newer { .. } | SchemaState::Foreign { .. } => return Err(MigrateError::Refused(found.clone())),
    };
    Ok(schema::migrations()
        .into_iter()
        .filter(|migration| migration.version > applied)
        .map(|migration| Step { version: migration.version, description: migration.description.to_string() })
        .collect())
}

fn store(error: DriverError) -> MigrateError {
    match error {
        DriverError::Execute(error) | DriverError::ExecuteMigration(error, _) => MigrateError::Store(translate(&error)),
        other => MigrateError::Store(MetadataError::Internal { reason: other.to_string(), outcome_unknown: false }),
    }
}

fn message_of(error: &DriverError) -> String {
    match error {
        DriverError::Execute(error) | DriverError::ExecuteMigration(error, _) => error.to_string(),
        other => other.to_string(),
    }
}
