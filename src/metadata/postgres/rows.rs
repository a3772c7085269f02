//! From rows to domain types and back: the one place where the database's types become ours.
//!
//! A row that breaks an invariant is an error that names its table, column and key, never a panic.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::domain::{
    AheadMax, Bucket, Description, EntityType, Feature, FeatureId, FeatureName, FeatureVersion, Generation, Identity,
    IdentityKind, Index, Invalid, Keep, Labels, MaxItems, Owner, Revision, Timestamp, Ttl, ValueType, VersionLabel,
};
use crate::metadata::index_record::IndexRecord;
use crate::metadata::keys::record::author;
use crate::metadata::{Action, HistoryEntry, LastGeneration, MetadataError};

const FEATURE: &str = "list_feature";
const VERSION: &str = "list_feature_version";
const HISTORY: &str = "list_feature_history";

/// A feature with one of its versions: what every query for features returns, ordered by feature,
/// then by version. A feature that has lost all versions comes once, with none.
#[derive(Debug)]
pub(super) struct FeatureRow {
    pub entity_type: String,
    pub name: String,
    pub value_type: String,
    pub ttl_secs: i32,
    pub max_items: Option<i32>,
    /// 0 where timestamps may be any time.
    pub timestamp_ahead_max_secs: Option<i32>,
    pub ttl_max_secs: i32,
    pub description: String,
    pub owner: String,
    pub labels: Json,
    pub created_at_ns: i64,
    pub updated_at_ns: i64,
    pub revision: i64,
    pub version: Option<String>,
    pub version_ttl_secs: Option<i32>,
    pub version_max_items: Option<i32>,
    pub version_timestamp_ahead_max_secs: Option<i32>,
    pub version_ttl_max_secs: Option<i32>,
    pub version_description: Option<String>,
    pub version_generation: Option<i64>,
    pub version_created_at_ns: Option<i64>,
    pub version_revision: Option<i64>,
    pub version_identity: Option<String>,
    /// Null where the identity is that of items.
    pub version_keep: Option<String>,
    /// Null where a list is one partition.
    pub version_bucket: Option<String>,
    pub version_index: Option<Json>,
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

/// Where a value stands, for the error if it makes no sense.
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

    pub(super) fn present<T>(&self, column: &'static str, value: Option<T>) -> Result<T, MetadataError> {
        value.ok_or_else(|| self.broken(column))
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

    pub(super) fn ttl(&self, column: &'static str, secs: i32) -> Result<Ttl, MetadataError> {
        self.valid(column, Ttl::from_secs(self.unsigned(column, i64::from(secs))?))
    }

    fn max_items(&self, column: &'static str, items: Option<i32>) -> Result<Option<MaxItems>, MetadataError> {
        let Some(items) = items else { return Ok(None) };
        self.valid(column, MaxItems::new(self.unsigned(column, i64::from(items))?)).map(Some)
    }

    fn ahead_max(&self, column: &'static str, secs: Option<i32>) -> Result<Option<AheadMax>, MetadataError> {
        let Some(secs) = secs else { return Ok(None) };
        self.valid(column, AheadMax::from_secs(self.unsigned(column, i64::from(secs))?)).map(Some)
    }
}

/// Joins rows into features with their versions, in the order in which they come.
pub(super) fn features(rows: Vec<FeatureRow>) -> Result<Vec<Feature>, MetadataError> {
    let mut features: Vec<Feature> = Vec::new();
    for row in rows {
        let known = features
            .last_mut()
            .filter(|f| f.id.name.as_str() == row.name && f.id.entity_type.as_str() == row.entity_type);
        match known {
            Some(feature) => feature.versions.push(version(&row)?),
            None => features.push(feature(row)?),
        }
    }
    match features.iter().find(|feature| feature.versions.first().is_none_or(|first| !first.version.is_default())) {
        Some(feature) => Err(RowName { table: VERSION, key: &|| feature.id.to_string() }.broken("version")),
        None => Ok(features),
    }
}

fn feature(row: FeatureRow) -> Result<Feature, MetadataError> {
    let first = version(&row)?;
    let key = format!("{}.{}", row.entity_type, row.name);
    let at = RowName { table: FEATURE, key: &|| key.clone() };
    let labels = serde_json::from_value(row.labels).map_err(|_| at.broken("labels"))?;
    Ok(Feature {
        id: FeatureId {
            entity_type: at.valid("entity_type", EntityType::new(&row.entity_type))?,
            name: at.valid("name", FeatureName::stored(&row.name))?,
        },
        value_type: at.valid("value_type", ValueType::parse(&row.value_type))?,
        ttl: at.ttl("ttl_secs", row.ttl_secs)?,
        max_items: at.max_items("max_items", row.max_items)?,
        timestamp_ahead_max: at.ahead_max("timestamp_ahead_max_secs", row.timestamp_ahead_max_secs)?,
        description: at.valid("description", Description::new(row.description))?,
        owner: at.valid("owner", Owner::new(row.owner))?,
        labels: at.valid("labels", Labels::new(labels))?,
        versions: vec![first],
        created_at: at.timestamp("created_at_ns", row.created_at_ns)?,
        updated_at: at.timestamp("updated_at_ns", row.updated_at_ns)?,
        ttl_max: at.ttl("ttl_max_secs", row.ttl_max_secs)?,
        revision: at.revision("revision", row.revision)?,
    })
}

fn version(row: &FeatureRow) -> Result<FeatureVersion, MetadataError> {
    let label = row.version.as_deref();
    let key = || format!("{}.{} \"{}\"", row.entity_type, row.name, label.unwrap_or_default());
    let at = RowName { table: VERSION, key: &key };
    let description = at.present("description", row.version_description.as_ref())?;
    let kind = at.present("identity", row.version_identity.as_deref())?;
    let kind = at.valid("identity", IdentityKind::parse(kind))?;
    let keep = at.valid("keep", row.version_keep.as_deref().map(Keep::parse).transpose())?;
    let identity = at.valid("keep", Identity::of(Some(kind), keep, Identity::Item))?;
    let bucket = row.version_bucket.as_deref().map(Bucket::parse).transpose();
    Ok(FeatureVersion {
        version: at.valid("version", VersionLabel::new(at.present("version", label)?))?,
        ttl: at.ttl("ttl_secs", at.present("ttl_secs", row.version_ttl_secs)?)?,
        max_items: at.max_items("max_items", row.version_max_items)?,
        timestamp_ahead_max: at.ahead_max("timestamp_ahead_max_secs", row.version_timestamp_ahead_max_secs)?,
        identity,
        bucket: at.valid("bucket", bucket.and_then(|bucket| Bucket::of(bucket, identity)))?,
        index: index(&at, row.version_index.as_ref())?,
        description: at.valid("description", Description::new(description.as_str()))?,
        created_at: at.timestamp("created_at_ns", at.present("created_at_ns", row.version_created_at_ns)?)?,
        generation: generation(&at, "generation", at.present("generation", row.version_generation)?)?,
        ttl_max: at.ttl("ttl_max_secs", at.present("ttl_max_secs", row.version_ttl_max_secs)?)?,
        revision: at.revision("revision", at.present("revision", row.version_revision)?)?,
    })
}

fn index(at: &RowName<'_>, stored: Option<&Json>) -> Result<Option<Index>, MetadataError> {
    let Some(stored) = stored else { return Ok(None) };
    let record = IndexRecord::deserialize(stored).map_err(|_| at.broken("index"))?;
    at.valid("index", Index::try_from(record)).map(Some)
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

const ACTIONS: [Action; 9] = [
    Action::CreateFeature,
    Action::UpdateFeature,
    Action::DeleteFeature,
    Action::CreateVersion,
    Action::UpdateVersion,
    Action::DeleteVersion,
    Action::CreateEntityType,
    Action::UpdateEntityType,
    Action::DeleteEntityType,
];

fn action_named(text: &str) -> Option<Action> {
    ACTIONS.into_iter().find(|action| action.as_str() == text)
}

/// Nanoseconds as the tables hold them: up to 2^63 - 1, which is in the year 2262.
pub(super) fn nanos(at: Timestamp) -> Result<i64, MetadataError> {
    i64::try_from(at.as_nanos()).map_err(|_| MetadataError::Internal {
        reason: "the clock is past the year 2262, the last year that the tables support".to_owned(),
        outcome_unknown: false,
    })
}

/// Revisions and generations count single changes from 0: they never come near the limit.
pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// At most 100,000.
pub(super) fn items(max_items: MaxItems) -> i32 {
    i32::try_from(max_items.as_u64()).unwrap_or(i32::MAX)
}

/// At most 630,720,000 s; 0 for no bound.
pub(super) fn ahead_secs(ahead_max: AheadMax) -> i32 {
    i32::try_from(ahead_max.as_secs()).unwrap_or(i32::MAX)
}

/// A TTL is at most 630,720,000 s.
pub(super) fn secs(ttl: Ttl) -> i32 {
    i32::try_from(ttl.as_secs()).unwrap_or(i32::MAX)
}
