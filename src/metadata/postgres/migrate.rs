//! `liststore migrate` and `liststore check` for Postgres.
//!
//! Migrations only go forward. All due ones run in one transaction, under its advisory lock. If two run at once, the
//! second waits and finds nothing to do. (A lock of the session would remain in a pooler's session.)

use std::time::{Duration, Instant};

use sqlx::migrate::{Migrate, MigrateError as DriverError, Migration};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::timeout;

use super::error::{Failure, translate, unavailable};
use super::hosts::Hosts;
use super::schema::{self, Inspection, MIGRATION_TABLE, SchemaState};
use crate::metadata::MetadataError;
use crate::metadata::postgres_url::PostgresUrl;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest wait of a starting server for a hanging Postgres.
const INSPECTION_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest wait of a migration for another one, or for a table in use.
const BEGIN_MIGRATION: &str = "BEGIN; SET LOCAL lock_timeout = '60s'";
/// An arbitrary number, the same for all.
const LOCK: &str = "SELECT pg_advisory_xact_lock(4927313804275921174)";

/// One migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub version: i64,
    pub description: String,
}

/// The state before a migration, and its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The database before the migration.
    pub before: Inspection,
    /// The applied migrations in their order; in a dry run, the due ones.
    pub steps: Vec<Step>,
    pub dry_run: bool,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum MigrateError {
    /// Newer than this build supports, or foreign. Nothing was done.
    #[error("{0}")]
    Refused(SchemaState),
    /// With Postgres's own text, for the operator who runs the migration.
    #[error("migration {version} ({description}) failed and was undone: {message}")]
    Failed { version: i64, description: String, message: String },
    #[error(transparent)]
    Store(#[from] MetadataError),
}

/// Connects and reads the state, for `liststore check`, and for `serve` before it starts. Changes nothing.
pub async fn inspect(url: &str) -> Result<Inspection, MetadataError> {
    let inspecting = async {
        let mut connection = connect(url).await?;
        let inspection = schema::inspect_separately(&mut connection).await.map_err(Failure::into_error)?;
        // The orderly end may fail without effect.
        let _ = connection.close().await;
        Ok(inspection)
    };
    timeout(INSPECTION_TIME_MAX, inspecting)
        .await
        .unwrap_or_else(|_| Err(unavailable("postgres did not respond within 5 s")))
}

/// The encryption mode of the URL, and its result, for `liststore check`.
pub fn tls(url: &str, inspection: &Inspection) -> Result<String, MetadataError> {
    let mode = PostgresUrl::parse(url).map_err(unavailable)?.tls;
    Ok(match &inspection.tls_version {
        Some(version) => format!("sslmode={mode}, encrypted by {version}"),
        None => format!("sslmode={mode}, not encrypted"),
    })
}

/// Migrates a database's schema, or lists the due steps.
pub async fn migrate(url: &str, dry_run: bool) -> Result<MigrationReport, MigrateError> {
    let mut connection = connect(url).await?;
    let driver = |error: sqlx::Error| MigrateError::Store(translate(&error));
    let mut transaction = connection.begin_with(BEGIN_MIGRATION).await.map_err(driver)?;
    if !dry_run {
        sqlx::raw_sql(LOCK).execute(&mut *transaction).await.map_err(driver)?;
    }
    let before = schema::inspect(&mut transaction).await.map_err(Failure::into_error)?;
    let steps = pending(&before.schema)?;
    if dry_run {
        return Ok(MigrationReport { steps, before, dry_run });
    }
    if !steps.is_empty() {
        transaction.ensure_migrations_table(MIGRATION_TABLE).await.map_err(store)?;
    }
    for migration in schema::migrations() {
        if steps.iter().any(|step| step.version == migration.version) {
            apply(&mut transaction, &migration).await.map_err(|error| MigrateError::Failed {
                version: migration.version,
                description: migration.description.to_string(),
                message: error.to_string(),
            })?;
        }
    }
    transaction.commit().await.map_err(driver)?;
    let _ = connection.close().await;
    Ok(MigrationReport { before, steps, dry_run })
}

/// In the same way as the driver, without leaving prepared statements.
async fn apply(transaction: &mut PgConnection, migration: &Migration) -> Result<(), sqlx::Error> {
    let began = Instant::now();
    sqlx::raw_sql(migration.sql.clone()).execute(&mut *transaction).await?;
    let checksum: String = migration.checksum.iter().map(|byte| format!("{byte:02x}")).collect();
    let listed = format!(
        "INSERT INTO {MIGRATION_TABLE} (version, description, success, checksum, execution_time) \
         VALUES ({}, '{}', TRUE, '\\x{checksum}', {})",
        migration.version,
        migration.description.replace('\'', "''"),
        began.elapsed().as_nanos(),
    );
    sqlx::raw_sql(AssertSqlSafe(listed)).execute(transaction).await.map(|_| ())
}

async fn connect(url: &str) -> Result<PgConnection, MetadataError> {
    let connected = Hosts::parse(url, "liststore-migrate")?.connect(CONNECT_TIME_MAX).await;
    connected.map(|(_, connection)| connection).map_err(|unconnected| unconnected.error)
}

/// The due steps from the found state to this build's schema.
fn pending(found: &SchemaState) -> Result<Vec<Step>, MigrateError> {
    let applied = match found {
        SchemaState::Current { .. } | SchemaState::NewerServed { .. } => return Ok(Vec::new()),
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
