//! Bringing the schema up to date. Safe to run twice and by two at once: every statement names what
//! it makes IF NOT EXISTS, and where two nodes could each make a table of one name, its id is fixed.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use super::dialect::Dialect;
use super::found::FoundSchema;
use super::migrations::{self, Parameters};
use super::names::{BAGS, BUCKETS, SETS, TABLE};
use super::replicas::{check_replicas, replicas_in};
use super::state::SchemaState;
use super::tombstone_gc;
use crate::items::StoreError;
use crate::items::cql::OpenError;
use crate::items::cql::connect::datacenter::LocalDatacenter;
use crate::items::cql::connect::driver::{self, Completeness};
use crate::items::cql::connect::tls::{self, Tls};
use crate::items::cql::error::Failure;
use crate::items::cql::options::{Consistency, CqlOptions};
use crate::items::cql::query::{query, select};

/// How long one change of the schema may take; building an index on a full table goes on after it.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The steps of a migration, done or, in a dry run, planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    pub dialect: Dialect,
    pub datacenter: String,
    pub before: SchemaState,
    /// In order. Empty if the schema was up to date.
    pub steps: Vec<MigrationStep>,
    /// Differences from the settings that the operator must change.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStep {
    /// The file's name, or the purpose of the step.
    pub name: String,
    pub statements: Vec<String>,
}

/// Why the schema was not brought up to date. For the operator: it quotes the database.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MigrateError {
    #[error(transparent)]
    Options(#[from] OpenError),
    #[error("{}", reason(.0))]
    Cluster(#[from] StoreError),
    #[error("{0}")]
    Unfit(SchemaState),
    #[error("the cluster refused a step of {step}: {words}\n{statement}")]
    Refused { step: String, statement: String, words: String },
}

fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

/// Brings the schema up to date, or with `dry_run` only prints how.
pub async fn migrate(options: &CqlOptions, dry_run: bool) -> Result<MigrationReport, MigrateError> {
    options.validate()?;
    let tls = options.tls.as_ref().map(|tls| tls::load(tls, &options.contact_points)).transpose()?;
    migrate_with(options, tls.as_ref(), dry_run).await
}

async fn migrate_with(options: &CqlOptions, tls: Option<&Tls>, dry_run: bool) -> Result<MigrationReport, MigrateError> {
    let local = Arc::new(LocalDatacenter::of(options.datacenter.as_deref()));
    let session = driver::connect(options, tls, &local, Completeness::AllNodes).await?;
    let cluster = session.get_cluster_state();
    let dialect = Dialect::of(options.dialect, &cluster);
    let datacenter = local.in_cluster(&cluster).map_err(StoreError::from)?.to_owned();
    let wanted = options.replicas(&datacenter);
    let here = wanted.iter().find(|(name, _)| *name == datacenter).map_or(0, |(_, replicas)| *replicas);
    let replicas = replicas_in(&cluster, &options.keyspace, &datacenter);
    check_replicas(options, &cluster, &datacenter, replicas.unwrap_or(here))?;
    if replicas.is_none() {
        local.check_known(&cluster, wanted.iter().map(|(name, _)| name.as_str())).map_err(StoreError::from)?;
    }
    let found = FoundSchema::read(&session, &options.keyspace, options.read_consistency).await?;
    let before = found.state(dialect);
    if matches!(before, SchemaState::Newer { .. } | SchemaState::Foreign { .. } | SchemaState::TableDropped(_)) {
        return Err(MigrateError::Unfit(before));
    }
    let release = release(&session, dialect).await?;
    let parameters = Parameters {
        keyspace: options.keyspace.clone(),
        replicas: wanted.clone(),
        default_ttl_secs: options.default_ttl_secs,
        compaction: dialect.compaction(&release),
        tombstone_gc: dialect.tombstone_gc(replicas.unwrap_or(here)),
        tablets: dialect.tablets_clause(options.tablets, &release),
    };
    let steps = steps(dialect, &found, &parameters, options);
    if !dry_run {
        for step in &steps {
            for text in &step.statements {
                change(&session, options, step, text).await?;
            }
        }
    }
    let mut notes = notes(options, replicas, here);
    notes.extend(tombstone_gc::note(&session, dialect, &options.keyspace, replicas).await);
    Ok(MigrationReport { dialect, datacenter, before, steps, notes })
}

/// The steps, in order.
fn steps(dialect: Dialect, found: &FoundSchema, parameters: &Parameters, options: &CqlOptions) -> Vec<MigrationStep> {
    let mut steps: Vec<MigrationStep> = dialect
        .migrations()
        .iter()
        .filter(|migration| !found.applied.contains(&migration.version))
        .map(|migration| {
            let mut statements = migration.statements(parameters);
            statements.extend(migrations::record_of(parameters, migration));
            MigrationStep { name: migration.name.to_owned(), statements }
        })
        .collect();
    let rebuilt = found.applied.contains(&migrations::INDEX_FILE) && !found.columns.is_empty();
    if rebuilt && found.index_defect(dialect).is_some_and(|defect| defect.is_repaired_by_migrate()) {
        let statements = migrations::rebuild_of_index(parameters, dialect.migrations());
        steps.push(MigrationStep { name: "rebuild list_items_by_value".to_owned(), statements });
    }
    let wanted = i32::try_from(options.default_ttl_secs).unwrap_or(i32::MAX);
    let tables = [
        (TABLE, found.default_ttl_secs),
        (SETS, found.sets_default_ttl_secs),
        (BAGS, found.bags_default_ttl_secs),
        (BUCKETS, found.buckets_default_ttl_secs),
    ];
    let others = tables.into_iter().filter(|(_, secs)| secs.is_some_and(|secs| secs != wanted));
    // ScyllaDB: "TTL for a Table", docs.scylladb.com/manual/stable/cql/time-to-live.html.
    let alter = |table| format!("ALTER TABLE \"{}\".{table} WITH default_time_to_live = {wanted}", parameters.keyspace);
    let statements: Vec<_> = others.map(|(table, _)| alter(table)).collect();
    if !statements.is_empty() {
        steps.push(MigrationStep { name: "items.cql.default_ttl_secs".to_owned(), statements });
    }
    steps
}

/// Runs one statement, and waits until all nodes that are up agree on the schema: also where the
/// statement found nothing to do, since another migration may have done it on another node just now.
async fn change(session: &Session, options: &CqlOptions, step: &MigrationStep, text: &str) -> Result<(), MigrateError> {
    let refused = |words| MigrateError::Refused { step: step.name.clone(), statement: text.to_owned(), words };
    let mut change = query(text, options.write_consistency);
    change.set_request_timeout(Some(CHANGE_TIMEOUT));
    match session.query_unpaged(change, ()).await {
        Ok(_)
        | Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::AlreadyExists { .. }, _))) => {}
        Err(_) if has_added_column(session, text).await => {}
        Err(error) => return Err(refused(words(&error))),
    }
    session.await_schema_agreement().await.map(|_| ()).map_err(|_| refused(DISAGREEMENT.to_owned()))
}

/// Whether a statement adds a column that the table has.
async fn has_added_column(session: &Session, text: &str) -> bool {
    let Some((keyspace, table, column)) = added_column(text) else { return false };
    let found =
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ? AND column_name = ?";
    let found = select::<(String,)>(session, found, (keyspace, table, column), Consistency::One).await;
    found.is_ok_and(|found| !found.is_empty())
}

/// The keyspace, the table and the column of `ALTER TABLE "keyspace".table ADD column type`.
fn added_column(text: &str) -> Option<(&str, &str, &str)> {
    let (name, added) = text.strip_prefix("ALTER TABLE \"")?.split_once(" ADD ")?;
    let (keyspace, table) = name.split_once("\".")?;
    Some((keyspace, table, added.split(' ').next()?))
}

const DISAGREEMENT: &str = "the nodes do not agree on the schema: check that all nodes are up, and run this again";

fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(_, words)) => words.clone(),
        ExecutionError::SchemaAgreementError(_) => DISAGREEMENT.to_owned(),
        other => reason(&Failure::of(other, true).error),
    }
}

async fn release(session: &Session, dialect: Dialect) -> Result<String, StoreError> {
    let rows: Vec<(String,)> = select(session, dialect.release_query(), (), Consistency::One).await?;
    Ok(rows.into_iter().next().map(|(release,)| release).unwrap_or_default())
}

fn notes(options: &CqlOptions, replicas: Option<u32>, wanted: u32) -> Vec<String> {
    let Some(replicas) = replicas.filter(|replicas| *replicas != wanted) else {
        return Vec::new();
    };
    let setting = if options.replication.is_empty() { "replication_factor" } else { "replication" };
    vec![format!(
        "the keyspace {} has {replicas} replicas but items.cql.{setting} is {wanted}: change one of them (ALTER \
         KEYSPACE, then a full repair)",
        options.keyspace
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_added_columns_are_searched_for() {
        let column = added_column("ALTER TABLE \"Lists\".list_bags ADD states BLOB");
        assert_eq!(column, Some(("Lists", "list_bags", "states")));
        for other in ["ALTER TABLE \"Lists\".list_bags WITH default_time_to_live = 7", "CREATE TABLE \"a\".b (ADD INT)"]
        {
            assert_eq!(added_column(other), None);
        }
    }
}
