//! Every statement of the store, each in a separate file in `metadata_sql/queries/`. The build checks them against the
//! real schema (from `.sqlx` without a database).
//!
//! To change a query: edit its file, then run `scripts/prepare-sqlx`.

use serde_json::Value as Json;
use sqlx::PgConnection;

use super::error::Failure;
use super::rows::{self, FeatureRow, HistoryRow};
use super::unnamed::Unnamed;
use crate::definition::Feature;
use crate::domain::{EntityType, FeatureId, Generation, Limit, Revision, VersionLabel};
use crate::metadata::jobs::{self, Job};
use crate::metadata::{FeatureFilter, HistoryEntry, LastGeneration, MetadataError, Page};

type Connection = PgConnection;

pub(super) async fn revision(connection: &mut Connection) -> Result<Revision, Failure> {
    let row = sqlx::query_file!("metadata_sql/queries/revision.sql").fetch_one(Unnamed(connection)).await?;
    Ok(rows::present_revision(row.revision)?)
}

/// Locks the revision until the transaction ends, and takes the next one.
pub(super) async fn next_revision(connection: &mut Connection) -> Result<Revision, Failure> {
    let row = sqlx::query_file!("metadata_sql/queries/next_revision.sql").fetch_one(Unnamed(connection)).await?;
    Ok(rows::present_revision(row.revision)?)
}

pub(super) async fn feature(connection: &mut Connection, id: &FeatureId) -> Result<Option<Feature>, Failure> {
    let (entity_type, name) = (id.entity_type.as_str(), id.name.as_str());
    let found = sqlx::query_file_as!(FeatureRow, "metadata_sql/queries/feature.sql", entity_type, name)
        .fetch_all(Unnamed(connection))
        .await?;
    Ok(rows::features(found)?.pop())
}

/// `filter.text` is matched literally, with ASCII case ignored.
pub(super) async fn features(
    connection: &mut Connection,
    filter: &FeatureFilter,
    after: Option<&FeatureId>,
    page_size: Limit,
) -> Result<Page<Feature>, Failure> {
    let found = sqlx::query_file_as!(
        FeatureRow,
        "metadata_sql/queries/features.sql",
        filter.entity_type.as_ref().map(|entity_type| entity_type.as_str()),
        filter.text.as_ref().map(|text| text.to_ascii_lowercase()),
        after.map(|id| id.entity_type.as_str()),
        after.map(|id| id.name.as_str()),
        one_more(page_size),
        filter.of_bags,
    )
    .fetch_all(Unnamed(connection))
    .await?;
    Ok(page(rows::features(found)?, page_size))
}

pub(super) async fn definitions(connection: &mut Connection) -> Result<Vec<Feature>, Failure> {
    let found =
        sqlx::query_file_as!(FeatureRow, "metadata_sql/queries/definitions.sql").fetch_all(Unnamed(connection)).await?;
    Ok(rows::features(found)?)
}

/// The features that changed after a revision, and the total number of changes. At most `limit` features.
pub(super) async fn changes(
    connection: &mut Connection,
    since: Revision,
    limit: i64,
) -> Result<(Vec<FeatureId>, u64), Failure> {
    let found = sqlx::query_file!("metadata_sql/queries/changes.sql", rows::number(since.0), limit)
        .fetch_all(Unnamed(connection))
        .await?;
    let count = found.iter().map(|row| row.changes.unsigned_abs()).sum();
    let ids: Result<_, MetadataError> = found.iter().map(|row| rows::changed_id(&row.entity_type, &row.name)).collect();
    Ok((ids?, count))
}

pub(super) async fn changed_features(connection: &mut Connection, since: Revision) -> Result<Vec<Feature>, Failure> {
    let found = sqlx::query_file_as!(FeatureRow, "metadata_sql/queries/changed_features.sql", rows::number(since.0))
        .fetch_all(Unnamed(connection))
        .await?;
    Ok(rows::features(found)?)
}

pub(super) async fn last_generation(
    connection: &mut Connection,
    id: &FeatureId,
    label: &VersionLabel,
) -> Result<Option<Generation>, Failure> {
    let found = sqlx::query_file!(
        "metadata_sql/queries/last_generation.sql",
        id.entity_type.as_str(),
        id.name.as_str(),
        label.as_str(),
    )
    .fetch_optional(Unnamed(connection))
    .await?;
    Ok(found.map(|row| rows::last_generation(id, label, row.last_generation)).transpose()?)
}

/// In the order of names, then of labels.
pub(super) async fn generations(
    connection: &mut Connection,
    entity_type: &EntityType,
) -> Result<Vec<LastGeneration>, Failure> {
    let found = sqlx::query_file!("metadata_sql/queries/generations.sql", entity_type.as_str())
        .fetch_all(Unnamed(connection))
        .await?;
    let rows = found.iter().map(|row| rows::generation_of(entity_type, &row.name, &row.version, row.last_generation));
    let generations: Result<_, MetadataError> = rows.collect();
    Ok(generations?)
}

pub(super) async fn put_generation(
    connection: &mut Connection,
    id: &FeatureId,
    label: &VersionLabel,
    generation: Generation,
) -> Result<(), Failure> {
    sqlx::query_file!(
        "metadata_sql/queries/put_generation.sql",
        id.entity_type.as_str(),
        id.name.as_str(),
        label.as_str(),
        rows::number(generation.as_u64()),
    )
    .execute(Unnamed(connection))
    .await?;
    Ok(())
}

pub(super) async fn put_feature(connection: &mut Connection, feature: &Feature) -> Result<(), Failure> {
    sqlx::query_file!(
        "metadata_sql/queries/put_feature.sql",
        feature.id.entity_type.as_str(),
        feature.id.name.as_str(),
        rows::document(feature)?,
    )
    .execute(Unnamed(connection))
    .await?;
    Ok(())
}

pub(super) async fn delete_feature(connection: &mut Connection, id: &FeatureId) -> Result<(), Failure> {
    sqlx::query_file!("metadata_sql/queries/delete_feature.sql", id.entity_type.as_str(), id.name.as_str())
        .execute(Unnamed(connection))
        .await?;
    Ok(())
}

pub(super) async fn add_history(
    connection: &mut Connection,
    id: &FeatureId,
    entry: &HistoryEntry,
) -> Result<(), Failure> {
    sqlx::query_file!(
        "metadata_sql/queries/add_history.sql",
        rows::number(entry.revision.0),
        rows::nanos(entry.at)?,
        entry.by.as_str(),
        entry.by.behalf(),
        entry.action.as_str(),
        id.entity_type.as_str(),
        id.name.as_str(),
        entry.version.as_ref().map(VersionLabel::as_str),
        entry.before,
        entry.after,
    )
    .execute(Unnamed(connection))
    .await?;
    Ok(())
}

/// `None` if no such feature ever existed.
pub(super) async fn history(
    connection: &mut Connection,
    id: &FeatureId,
    before: Option<Revision>,
    page_size: Limit,
) -> Result<Option<Page<HistoryEntry>>, Failure> {
    let (entity_type, name) = (id.entity_type.as_str(), id.name.as_str());
    let found = sqlx::query_file_as!(
        HistoryRow,
        "metadata_sql/queries/history.sql",
        entity_type,
        name,
        before.map_or(i64::MAX, |revision| rows::number(revision.0)),
        one_more(page_size),
    )
    .fetch_all(Unnamed(&mut *connection))
    .await?;
    if found.is_empty() {
        let known = sqlx::query_file!("metadata_sql/queries/has_history.sql", entity_type, name)
            .fetch_one(Unnamed(connection))
            .await?;
        if !known.exists {
            return Ok(None);
        }
    }
    let entries: Result<_, MetadataError> = found.into_iter().map(rows::history_entry).collect();
    Ok(Some(page(entries?, page_size)))
}

/// Stores a state of a job. Returns whether it did: not if the job has changed since it was read.
pub(super) async fn put_job(connection: &mut Connection, job: &Job) -> Result<bool, Failure> {
    let text = jobs::write(job).and_then(|text| serde_json::from_str(&text));
    let reason = || "cannot serialize a job".to_owned();
    let record: Json = text.map_err(|_| MetadataError::Internal { reason: reason(), outcome_unknown: false })?;
    let (id, number) = (job.id.to_string(), rows::number(job.number));
    let kept =
        sqlx::query_file!("metadata_sql/queries/put_job.sql", id, number, record).execute(Unnamed(connection)).await?;
    Ok(kept.rows_affected() > 0)
}

/// Notifies all servers of a new revision, once the transaction commits.
pub(super) async fn notify(connection: &mut Connection, revision: Revision) -> Result<(), Failure> {
    sqlx::query_file!("metadata_sql/queries/notify.sql", revision.0.to_string()).execute(Unnamed(connection)).await?;
    Ok(())
}

/// The server at the other end, and whether a migration ever ran there.
pub(super) struct ServerRow {
    pub database: String,
    pub server_version: String,
    pub server_version_number: i32,
    pub encoding: String,
    pub has_migrations: bool,
    pub has_compatibility: bool,
    /// Such as `TLSv1.3`, as Postgres reports it; `None` without encryption.
    pub tls_version: Option<String>,
}

pub(super) async fn server(connection: &mut Connection) -> Result<ServerRow, Failure> {
    Ok(sqlx::query_file_as!(ServerRow, "metadata_sql/queries/server.sql").fetch_one(Unnamed(connection)).await?)
}

/// The oldest schema whose servers can work with this one.
pub(super) async fn served_from(connection: &mut Connection) -> Result<i64, Failure> {
    Ok(sqlx::query_file!("metadata_sql/queries/compatibility.sql").fetch_one(Unnamed(connection)).await?.served_from)
}

/// The applied migrations: number and checksum, in order.
pub(super) async fn migrations(connection: &mut Connection) -> Result<Vec<(i64, Vec<u8>)>, Failure> {
    let found = sqlx::query_file!("metadata_sql/queries/migrations.sql").fetch_all(Unnamed(connection)).await?;
    Ok(found.into_iter().map(|row| (row.version, row.checksum)).collect())
}

/// One more than the page size, to detect whether more follows.
pub(super) fn one_more(page_size: Limit) -> i64 {
    i64::try_from(page_size.get()).unwrap_or(i64::MAX - 1) + 1
}

pub(super) fn page<T>(mut entries: Vec<T>, page_size: Limit) -> Page<T> {
    let more = entries.len() > page_size.get();
    entries.truncate(page_size.get());
    Page { entries, more }
}
