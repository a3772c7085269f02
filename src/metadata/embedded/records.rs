//! The stored forms of definitions and history entries: JSON, read through the domain's constructors, which refuse a
//! damaged or edited record.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::definition::Feature;
use crate::domain::{EntityType, FeatureId, FeatureName, Generation, Invalid, Revision, Timestamp, VersionLabel};
use crate::metadata::keys::record::{Broken, author};
use crate::metadata::{Action, HistoryEntry, MetadataError, audit};

/// Joins parts of a key. No name or label can contain NUL.
const SEPARATOR: char = '\0';

pub fn feature_key(id: &FeatureId) -> String {
    format!("{}{SEPARATOR}{}", id.entity_type, id.name)
}

pub fn version_key(id: &FeatureId, version: &VersionLabel) -> String {
    format!("{}{SEPARATOR}{version}", feature_key(id))
}

/// A record that breaks an invariant.
fn broken(table: &'static str, column: &'static str, key: &str) -> MetadataError {
    MetadataError::DatabaseInconsistency { table, column, key: key.replace(SEPARATOR, ".") }
}

/// A record being read, with the names for an error.
#[derive(Clone, Copy)]
struct Source<'a> {
    table: &'static str,
    key: &'a str,
}

impl Source<'_> {
    fn parsed<T>(self, column: &'static str, outcome: Result<T, Invalid>) -> Result<T, MetadataError> {
        outcome.map_err(|_| broken(self.table, column, self.key))
    }

    fn json<T: for<'de> Deserialize<'de>>(self, record: &[u8]) -> Result<T, MetadataError> {
        serde_json::from_slice(record).map_err(|error| self.unreadable(&error))
    }

    /// The whole record is malformed. The log has the reason.
    fn unreadable(self, error: &dyn fmt::Display) -> MetadataError {
        tracing::error!(%error, table = self.table, key = self.key.replace(SEPARATOR, "."), "cannot read a record");
        broken(self.table, "record", self.key)
    }

    fn feature_id(self, entity_type: Option<&str>, name: Option<&str>) -> Result<FeatureId, MetadataError> {
        let entity_type = self.parsed("entity_type", EntityType::new(entity_type.unwrap_or_default()))?;
        let name = self.parsed("name", name.map_or_else(|| FeatureName::new(""), FeatureName::stored))?;
        Ok(FeatureId { entity_type, name })
    }
}

fn write(record: &impl Serialize) -> Result<Vec<u8>, MetadataError> {
    serde_json::to_vec(record).map_err(unwritable)
}

fn unwritable(_: serde_json::Error) -> MetadataError {
    MetadataError::Internal { reason: "cannot serialize a definition".to_owned(), outcome_unknown: false }
}

pub fn write_feature(feature: &Feature) -> Result<Vec<u8>, MetadataError> {
    feature.to_document().map_err(unwritable)
}

/// The feature that a key of a table names.
pub fn read_feature_id(table: &'static str, key: &str) -> Result<FeatureId, MetadataError> {
    let (entity_type, name) = key.split_once(SEPARATOR).unzip();
    Source { table, key }.feature_id(entity_type, name)
}

pub fn read_feature(key: &str, record: &[u8]) -> Result<Feature, MetadataError> {
    let source = Source { table: "features", key };
    let id = read_feature_id(source.table, key)?;
    let feature = Feature::of_document(record).map_err(|error| source.unreadable(&error))?;
    if feature.id == id { Ok(feature) } else { Err(broken(source.table, "name", key)) }
}

pub fn read_generation(key: &str, generation: u64) -> Result<((FeatureId, VersionLabel), Generation), MetadataError> {
    let source = Source { table: "generations", key };
    let mut parts = key.splitn(3, SEPARATOR);
    let id = source.feature_id(parts.next(), parts.next())?;
    let version = parts.next().ok_or_else(|| broken(source.table, "version", key))?;
    let version = source.parsed("version", VersionLabel::new(version))?;
    Ok(((id, version), source.parsed("generation", Generation::new(generation))?))
}

#[derive(Serialize, Deserialize)]
struct HistoryRecord {
    /// The format of `before` and `after`.
    format: u64,
    at_nanos: u64,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_behalf_of: Option<String>,
    action: Action,
    version: Option<String>,
    before: Option<serde_json::Value>,
    after: Option<serde_json::Value>,
}

pub fn write_entry(entry: &HistoryEntry) -> Result<Vec<u8>, MetadataError> {
    write(&HistoryRecord {
        format: audit::format(),
        at_nanos: entry.at.as_nanos(),
        by: entry.by.as_str().to_owned(),
        on_behalf_of: entry.by.behalf().map(str::to_owned),
        action: entry.action,
        version: entry.version.as_ref().map(|version| version.as_str().to_owned()),
        before: entry.before.clone(),
        after: entry.after.clone(),
    })
}

pub fn read_entry(key: &str, revision: u64, record: &[u8]) -> Result<HistoryEntry, MetadataError> {
    let source = Source { table: "history", key };
    let record: HistoryRecord = source.json(record)?;
    if record.format == 0 || record.format > audit::format() {
        return Err(broken(source.table, "format", key));
    }
    Ok(HistoryEntry {
        revision: Revision(revision),
        at: source.parsed("at_nanos", Timestamp::from_nanos(record.at_nanos))?,
        by: author(record.by, record.on_behalf_of).map_err(|Broken(column)| broken(source.table, column, key))?,
        action: record.action,
        version: record.version.map(|version| source.parsed("version", VersionLabel::new(&version))).transpose()?,
        before: record.before,
        after: record.after,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FEATURE: &str = r#"{"format":1,"entity_type":"user","name":"f","value_type":"json","description":"d","owner":"o","labels":{},"versions":[{"version":"","ttl":"1m","identity":"item","description":"","created_at":"1970-01-01T00:00:00.000000001Z","generation":2,"ttl_max":"1m","revision":3}],"created_at":"1970-01-01T00:00:00.000000001Z","updated_at":"1970-01-01T00:00:00.000000001Z","ttl_max":"1m","revision":3}"#;

    fn column_of(outcome: Result<Feature, MetadataError>) -> &'static str {
        match outcome {
            Err(MetadataError::DatabaseInconsistency { table: "features", column, .. }) => column,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn features_round_trip() {
        let feature = read_feature("user\0f", FEATURE.as_bytes()).unwrap();
        assert_eq!(feature_key(&feature.id), "user\0f");
        assert_eq!(write_feature(&feature).unwrap(), FEATURE.as_bytes());
    }

    #[test]
    fn a_broken_feature_is_named() {
        for (good, bad) in
            [("\"json\"", "\"blob\""), ("\"format\":1", "\"format\":2"), ("\"revision\":3}", "\"revision\":3")]
        {
            let damaged = FEATURE.replacen(good, bad, 1);
            assert_ne!(damaged, FEATURE, "{good}");
            assert_eq!(column_of(read_feature("user\0f", damaged.as_bytes())), "record", "{bad}");
        }
        assert_eq!(column_of(read_feature("user\0g", FEATURE.as_bytes())), "name");
        assert_eq!(column_of(read_feature("us#er\0f", FEATURE.as_bytes())), "entity_type");
        assert_eq!(column_of(read_feature("user\0a b", FEATURE.as_bytes())), "name");
        let bags = FEATURE.replace("\"f\"", "\"\"");
        assert!(read_feature("user\0", bags.as_bytes()).unwrap().id.is_of_bags());
    }

    #[test]
    fn broken_generations_and_entries_are_named() {
        assert!(read_generation("user\0f\0", 1).is_ok());
        for (key, number) in [("user\0f\0v", 0), ("user\0f", 1), ("user", 1), ("\0f\0v", 1), ("user\0f\0v#", 1)] {
            assert!(read_generation(key, number).is_err(), "{key:?} {number}");
        }
        let entry =
            r#"{"format":1,"at_nanos":1,"by":"x","action":"create_feature","version":null,"before":null,"after":{}}"#;
        assert!(read_entry("user\0f", 1, entry.as_bytes()).is_ok());
        for (good, bad) in
            [("\"x\"", "\"\""), ("create_feature", "created"), ("null", "\"#\""), ("\"format\":1", "\"format\":2")]
        {
            assert!(read_entry("user\0f", 1, entry.replacen(good, bad, 1).as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_refused_or_valid(at in 0..FEATURE.len(), byte: u8, cut: bool) {
            let mut bytes = FEATURE.as_bytes().to_vec();
            bytes[at] = byte;
            bytes.truncate(if cut { at } else { bytes.len() });
            if let Ok(feature) = read_feature("user\0f", &bytes) {
                let written = write_feature(&feature).unwrap();
                prop_assert_eq!(read_feature("user\0f", &written).unwrap(), feature);
            }
        }
    }
}
