//! Conversions of rows to domain types and back: the only place where the database's types become ours.
//!
//! A row that breaks an invariant is an error that names its table, column and key, never a panic.

use serde_json::Value as Json;

use crate::definition::Feature;
use crate::domain::{EntityType, FeatureId, FeatureName, Generation, Invalid, Revision, Timestamp, VersionLabel};
use crate::metadata::keys::record::author;
use crate::metadata::{Action, HistoryEntry, LastGeneration, MetadataError};

const FEATURE: &str = "list_feature";
const HISTORY: &str = "list_feature_history";

/// A feature, with its document as text.
#[derive(Debug)]
pub(super) struct FeatureRow {
    pub entity_type: String,
    pub name: String,
    pub definition: String,
}

#[derive(Debug)]
pub(super) struct HistoryRow {
    pub revision: i64,
    pub changed_at_ns: i64,
    pub changed_by: String,
    pub on_behalf_of: Option<String>,
    pub action: String,
    pub version: Option<String>,
    pub before: Option<Json>,
    pub after: Option<Json>,
}

/// The place of a value, for an error.
pub(super) struct RowName<'a> {
    pub table: &'static str,
    pub key: &'a (dyn Fn() -> String + 'a),
}

impl RowName<'_> {
    pub(super) fn broken(&self, column: &'static str) -> MetadataError {
        MetadataError::DatabaseInconsistency { table: self.table, column, key: (self.key)() }
    }

    pub(super) fn valid<T>(&self, column: &'static str, value: Result<T, Invalid>) -> Result<T, MetadataError> {
        value.map_err(|_| self.broken(column))
    }

    pub(super) fn unsigned(&self, column: &'static str, number: i64) -> Result<u64, MetadataError> {
        u64::try_from(number).map_err(|_| self.broken(column))
    }

    pub(super) fn timestamp(&self, column: &'static str, nanos: i64) -> Result<Timestamp, MetadataError> {
        self.valid(column, Timestamp::from_nanos(self.unsigned(column, nanos)?))
    }

    pub(super) fn revision(&self, column: &'static str, number: i64) -> Result<Revision, MetadataError> {
        self.unsigned(column, number).map(Revision)
    }
}

pub(super) fn features(rows: Vec<FeatureRow>) -> Result<Vec<Feature>, MetadataError> {
    rows.into_iter().map(feature).collect()
}

fn feature(row: FeatureRow) -> Result<Feature, MetadataError> {
    let FeatureRow { entity_type, name, definition } = row;
    let at = RowName { table: FEATURE, key: &|| format!("{entity_type}.{name}") };
    let feature = Feature::of_document(definition.as_bytes()).map_err(|error| {
        tracing::error!(%error, entity_type, name, "cannot read a definition");
        at.broken("definition")
    })?;
    let is_named = feature.id.entity_type.as_str() == entity_type && feature.id.name.as_str() == name;
    if is_named { Ok(feature) } else { Err(at.broken("name")) }
}

fn generation(at: &RowName<'_>, column: &'static str, number: i64) -> Result<Generation, MetadataError> {
    at.valid(column, Generation::new(at.unsigned(column, number)?))
}

pub(super) fn last_generation(id: &FeatureId, label: &VersionLabel, number: i64) -> Result<Generation, MetadataError> {
    let key = || format!("{id} \"{label}\"");
    generation(&RowName { table: "list_feature_generation", key: &key }, "last_generation", number)
}

pub(super) fn generation_of(
    entity_type: &EntityType,
    name: &str,
    label: &str,
    number: i64,
) -> Result<LastGeneration, MetadataError> {
    let key = || format!("{entity_type}.{name} \"{label}\"");
    let at = RowName { table: "list_feature_generation", key: &key };
    let name = at.valid("name", FeatureName::stored(name))?;
    let version = at.valid("version", VersionLabel::new(label))?;
    let id = FeatureId { entity_type: entity_type.clone(), name };
    let generation = last_generation(&id, &version, number)?;
    Ok(LastGeneration { id, version, generation })
}

pub(super) fn present_revision(number: i64) -> Result<Revision, MetadataError> {
    RowName { table: "metadata_revision", key: &|| "the only row".to_owned() }.revision("revision", number)
}

pub(super) fn changed_id(entity_type: &str, name: &str) -> Result<FeatureId, MetadataError> {
    let key = || format!("{entity_type}.{name}");
    let at = RowName { table: HISTORY, key: &key };
    Ok(FeatureId {
        entity_type: at.valid("entity_type", EntityType::new(entity_type))?,
        name: at.valid("name", FeatureName::stored(name))?,
    })
}

pub(super) fn history_entry(row: HistoryRow) -> Result<HistoryEntry, MetadataError> {
    let key = || row.revision.to_string();
    let at = RowName { table: HISTORY, key: &key };
    Ok(HistoryEntry {
        revision: at.revision("revision", row.revision)?,
        at: at.timestamp("changed_at_ns", row.changed_at_ns)?,
        by: author(row.changed_by, row.on_behalf_of).map_err(|_| at.broken("changed_by"))?,
        action: action_named(&row.action).ok_or_else(|| at.broken("action"))?,
        version: row.version.map(|label| at.valid("version", VersionLabel::new(&label))).transpose()?,
        before: row.before,
        after: row.after,
    })
}

fn action_named(text: &str) -> Option<Action> {
    Action::ALL.into_iter().find(|action| action.as_str() == text)
}

/// The document of a feature, as text.
pub(super) fn document(feature: &Feature) -> Result<String, MetadataError> {
    let document = feature.to_document().ok().and_then(|document| String::from_utf8(document).ok());
    document.ok_or_else(|| MetadataError::Internal {
        reason: "cannot serialize a definition".to_owned(),
        outcome_unknown: false,
    })
}

/// Nanoseconds as the tables hold them: up to 2^63 - 1, which is in the year 2262.
pub(super) fn nanos(at: Timestamp) -> Result<i64, MetadataError> {
    i64::try_from(at.as_nanos()).map_err(|_| MetadataError::Internal {
        reason: "the clock is past the year 2262, the last year that the tables support".to_owned(),
        outcome_unknown: false,
    })
}

/// Revisions and generations count single changes from 0, so they never approach the limit.
pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
