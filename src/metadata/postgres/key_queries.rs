//! The statements about API keys and the complete audit trail, as in `queries.rs`.

use sqlx::PgConnection;

use super::error::Failure;
use super::key_rows::{self, AuditRow, KeyRow};
use super::queries::{one_more, page, revision};
use super::rows;
use super::unnamed::Unnamed;
use crate::domain::{ApiKey, KeyId, Limit, Revision, Timestamp};
use crate::metadata::MetadataError;
use crate::metadata::keys::erasures::{Erasure, ErasureEntry};
use crate::metadata::keys::server_changes::{ServerChange, ServerChangeEntry};
use crate::metadata::keys::{AUDIT_SCANNED_MAX, AuditFilter, AuditPage, KeyHistoryEntry};

type Connection = PgConnection;

pub(super) async fn keys(connection: &mut Connection) -> Result<Vec<ApiKey>, Failure> {
    let found = sqlx::query_file_as!(KeyRow, "metadata_sql/queries/keys.sql").fetch_all(Unnamed(connection)).await?;
    let keys: Result<_, MetadataError> = found.into_iter().map(key_rows::key).collect();
    Ok(keys?)
}

pub(super) async fn put_key(connection: &mut Connection, key: &ApiKey) -> Result<(), Failure> {
    let (id, revision) = (key.id.as_str(), rows::number(key.revision.0));
    sqlx::query_file!("metadata_sql/queries/put_key.sql", id, key_rows::record(key)?, revision)
        .execute(Unnamed(connection))
        .await?;
    Ok(())
}

pub(super) async fn add_key_history(connection: &mut Connection, entry: &KeyHistoryEntry) -> Result<(), Failure> {
    sqlx::query_file!(
        "metadata_sql/queries/add_key_history.sql",
        rows::number(entry.revision.0),
        rows::nanos(entry.at)?,
        entry.by.as_str(),
        entry.by.behalf(),
        entry.action.as_str(),
        entry.id.as_str(),
        entry.name.as_str(),
        entry.before,
        entry.after,
    )
    .execute(Unnamed(connection))
    .await?;
    Ok(())
}

pub(super) async fn note_key_uses(connection: &mut Connection, uses: &[(KeyId, Timestamp)]) -> Result<(), Failure> {
    let ids: Vec<_> = uses.iter().map(|(id, _)| id.to_string()).collect();
    let moments: Result<Vec<_>, _> = uses.iter().map(|(_, at)| rows::nanos(*at)).collect();
    sqlx::query_file!("metadata_sql/queries/note_key_uses.sql", &ids[..], &moments?[..])
        .execute(Unnamed(connection))
        .await?;
    Ok(())
}

pub(super) async fn add_erasure(connection: &mut Connection, entry: &ErasureEntry) -> Result<(), Failure> {
    let ErasureEntry { revision, at, by, erasure: Erasure { action, target, .. } } = entry;
    sqlx::query_file!(
        "metadata_sql/queries/add_erasure.sql",
        rows::number(revision.0),
        rows::nanos(*at)?,
        by.as_str(),
        by.behalf(),
        action.as_str(),
        target.as_str(),
        key_rows::erasure_record(entry)?,
    )
    .execute(Unnamed(connection))
    .await?;
    Ok(())
}

pub(super) async fn add_server_change(connection: &mut Connection, entry: &ServerChangeEntry) -> Result<(), Failure> {
    let ServerChangeEntry { revision, at, by, change: ServerChange { action, target, before, after } } = entry;
    sqlx::query_file!(
        "metadata_sql/queries/add_server_change.sql",
        rows::number(revision.0),
        rows::nanos(*at)?,
        by.as_str(),
        by.behalf(),
        action.as_str(),
        target.as_str(),
        before.as_ref(),
        after.as_ref(),
    )
    .execute(Unnamed(connection))
    .await?;
    Ok(())
}

/// The number of changes after a revision that do not concern definitions.
pub(super) async fn other_changes(connection: &mut Connection, since: Revision) -> Result<u64, Failure> {
    let found = sqlx::query_file!("metadata_sql/queries/other_changes.sql", rows::number(since.0))
        .fetch_one(Unnamed(connection))
        .await?;
    Ok(found.changes.unsigned_abs())
}

pub(super) async fn audit(
    connection: &mut Connection,
    filter: &AuditFilter,
    before: Option<Revision>,
    page_size: Limit,
) -> Result<AuditPage, Failure> {
    // Each revision has at most one entry.
    let end = revision(connection).await?.0 + 1;
    let end = before.map_or(end, |before| before.0.min(end));
    let begin = end.saturating_sub(AUDIT_SCANNED_MAX as u64);
    // Nothing is later than the range of the tables.
    let nanos = |at: Timestamp| i64::try_from(at.as_nanos()).unwrap_or(i64::MAX);
    let found = sqlx::query_file_as!(
        AuditRow,
        "metadata_sql/queries/audit.sql",
        rows::number(end),
        filter.by.as_deref(),
        filter.target.as_deref(),
        filter.action.as_deref(),
        filter.since.map(nanos),
        filter.until.map(nanos),
        one_more(page_size),
        rows::number(begin),
    )
    .fetch_all(Unnamed(connection))
    .await?;
    let entries: Result<_, MetadataError> = found.into_iter().map(key_rows::audit_entry).collect();
    // The first revision is 1.
    let looked_at_from = (begin > 1).then_some(Revision(begin));
    Ok(AuditPage::of(page(entries?, page_size), looked_at_from))
}
