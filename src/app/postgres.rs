//! The metadata store on Postgres: converts settings, and checks and migrates the schema. `without_postgres.rs`
//! replaces this file in a program without the store.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::StartError;
use super::steps::Migration;
use crate::config::{MetadataSettings, PostgresSettings, Secret};
use crate::metadata::MetadataStore;
use crate::metadata::postgres::{self, PostgresOptions, PostgresStore};

pub(super) async fn open(
    settings: &MetadataSettings,
    registry: &Registry,
) -> Result<Arc<dyn MetadataStore>, StartError> {
    let options = options(settings)?;
    // The start waits for an unavailable Postgres and for a migration, but refuses a wrong schema.
    if let Ok(found) = postgres::inspect(&options.url).await
        && !found.schema.is_served()
        && !found.schema.awaits_migration()
    {
        return Err(failed(found.schema));
    }
    Ok(Arc::new(PostgresStore::open(&options, registry).map_err(failed)?))
}

/// Describes the database in one line.
pub(super) async fn check(settings: &MetadataSettings) -> Result<String, StartError> {
    let url = options(settings)?.url;
    let found = postgres::inspect(&url).await.map_err(failed)?;
    let tls = postgres::tls(&url, &found).map_err(failed)?;
    let line = format!("postgres {}, database \"{}\", {tls}: {}", found.server_version, found.database, found.schema);
    if found.schema.is_served() { Ok(line) } else { Err(failed(line)) }
}

/// Migrates the schema and returns a line for each step.
pub(super) async fn migrate(settings: &MetadataSettings, how: Migration) -> Result<Vec<String>, StartError> {
    let report = postgres::migrate(&options(settings)?.url, how.is_dry_run()).await.map_err(failed)?;
    let steps = report.steps.iter().map(|step| format!("{:04} {}", step.version, step.description)).collect();
    Ok(how.lines("metadata", "postgres schema", steps))
}

/// A name of the configured database that distinguishes it from others and contains no secret.
pub(super) fn database_named(settings: &MetadataSettings) -> Result<String, StartError> {
    Ok(postgres::database_named(&options(settings)?.url))
}

/// Reads the URL from its file, if it is in one.
fn options(settings: &MetadataSettings) -> Result<PostgresOptions, StartError> {
    let PostgresSettings { url, url_file, connections_max } = &settings.postgres;
    let url = match url_file {
        Some(path) => postgres::read_url(path).map_err(failed)?,
        // The settings were refused earlier if this store has no URL.
        None => url.as_ref().map(Secret::expose).unwrap_or_default().to_owned(),
    };
    Ok(PostgresOptions {
        url,
        url_file: url_file.clone(),
        connections_max: *connections_max,
        poll_interval: Duration::from_secs(settings.poll_interval_secs),
    })
}

fn failed(error: impl std::fmt::Display) -> StartError {
    StartError::Metadata(error.to_string())
}
