//! Conversions of rows of API keys and of the audit trail to domain types and back, as in `rows.rs`.

use serde_json::Value as Json;

use super::rows::{self, HistoryRow, RowName};
use crate::domain::{ApiKey, FeatureId, KeyId, KeyName};
use crate::metadata::MetadataError;
use crate::metadata::keys::erasures::{self, ErasureEntry};
use crate::metadata::keys::record::{self, Broken};
use crate::metadata::keys::server_changes::{ServerAction, ServerChange, ServerChangeEntry};
use crate::metadata::keys::{AuditEntry, KeyAction, KeyHistoryEntry};

const KEY: &str = "api_key";
const KEY_HISTORY: &str = "api_key_history";

#[derive(Debug)]
pub(super) struct KeyRow {
    pub id: String,
    pub record: Json,
    pub last_used_at_ns: Option<i64>,
    pub revision: i64,
}

/// An entry of any audit trail. It concerns a feature if it has an entity type, and a key if it has a key's ID. It
/// concerns an erasure if it has its record, and otherwise a server.
#[derive(Debug)]
pub(super) struct AuditRow {
    pub revision: i64,
    pub changed_at_ns: i64,
    pub changed_by: String,
    pub on_behalf_of: Option<String>,
    pub action: String,
    pub entity_type: Option<String>,
    pub name: String,
    pub version: Option<String>,
    pub key_id: Option<String>,
    pub before: Option<Json>,
    pub after: Option<Json>,
    pub erasure: Option<Json>,
}

pub(super) fn key(row: KeyRow) -> Result<ApiKey, MetadataError> {
    let KeyRow { id, record, last_used_at_ns, revision } = row;
    let place = || id.clone();
    let at = RowName { table: KEY, key: &place };
    let key = record::read(record.to_string().as_bytes()).map_err(|Broken(part)| at.broken(part))?;
    if key.id.as_str() != id || key.revision != at.revision("revision", revision)? {
        return Err(at.broken("record"));
    }
    let last_used_at = last_used_at_ns.map(|nanos| at.timestamp("last_used_at_ns", nanos)).transpose()?;
    Ok(ApiKey { last_used_at, ..key })
}

pub(super) fn record(key: &ApiKey) -> Result<Json, MetadataError> {
    let text = record::write(key).and_then(|text| serde_json::from_str(&text));
    text.map_err(|_| MetadataError::Internal { reason: "cannot serialize a key".to_owned(), outcome_unknown: false })
}

pub(super) fn erasure_record(entry: &ErasureEntry) -> Result<Json, MetadataError> {
    let text = erasures::write(entry).and_then(|text| serde_json::from_str(&text));
    let reason = "cannot serialize an erasure".to_owned();
    text.map_err(|_| MetadataError::Internal { reason, outcome_unknown: false })
}

fn erasure_entry(revision: i64, record: &Json) -> Result<AuditEntry, MetadataError> {
    let place = || revision.to_string();
    let at = RowName { table: "erasure_history", key: &place };
    let entry = erasures::read(at.revision("revision", revision)?, record.to_string().as_bytes());
    entry.map(AuditEntry::Erasure).map_err(|Broken(part)| at.broken(part))
}

fn server_entry(row: AuditRow) -> Result<AuditEntry, MetadataError> {
    let place = || row.revision.to_string();
    let at = RowName { table: "server_history", key: &place };
    let action = ServerAction::named(&row.action);
    Ok(AuditEntry::Server(ServerChangeEntry {
        revision: at.revision("revision", row.revision)?,
        at: at.timestamp("changed_at_ns", row.changed_at_ns)?,
        by: record::author(row.changed_by.clone(), row.on_behalf_of.clone()).map_err(|_| at.broken("changed_by"))?,
        change: ServerChange {
            action: action.ok_or_else(|| at.broken("action"))?,
            target: row.name.clone(),
            before: row.before.clone(),
            after: row.after.clone(),
        },
    }))
}

pub(super) fn audit_entry(row: AuditRow) -> Result<AuditEntry, MetadataError> {
    if let Some(record) = &row.erasure {
        return erasure_entry(row.revision, record);
    }
    let Some(key_id) = &row.key_id else {
        let Some(entity_type) = row.entity_type.as_deref() else { return server_entry(row) };
        let id: FeatureId = rows::changed_id(entity_type, &row.name)?;
        let AuditRow { revision, changed_at_ns, changed_by, on_behalf_of, action, version, before, after, .. } = row;
        let entry = HistoryRow { revision, changed_at_ns, changed_by, on_behalf_of, action, version, before, after };
        return rows::history_entry(entry).map(|entry| AuditEntry::Feature(id, entry));
    };
    let place = || row.revision.to_string();
    let at = RowName { table: KEY_HISTORY, key: &place };
    let action = KeyAction::ALL.into_iter().find(|action| action.as_str() == row.action);
    Ok(AuditEntry::Key(KeyHistoryEntry {
        revision: at.revision("revision", row.revision)?,
        at: at.timestamp("changed_at_ns", row.changed_at_ns)?,
        by: record::author(row.changed_by.clone(), row.on_behalf_of.clone()).map_err(|_| at.broken("changed_by"))?,
        action: action.ok_or_else(|| at.broken("action"))?,
        id: at.valid("key_id", KeyId::new(key_id))?,
        name: at.valid("key_name", KeyName::new(&row.name))?,
        before: row.before.clone(),
        after: row.after.clone(),
    }))
}
