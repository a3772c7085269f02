//! The stored forms of definitions and history entries: JSON that is parsed back through the
//! domain's constructors, so that a damaged or edited record is found out and never believed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::{
    AheadMax, Bucket, Description, EntityType, Feature, FeatureId, FeatureName, FeatureVersion, Generation, Identity,
    IdentityKind, Index, Invalid, Keep, Labels, MaxItems, Owner, Revision, Timestamp, Ttl, ValueType, VersionLabel,
};
use crate::metadata::index_record::IndexRecord;
use crate::metadata::keys::record::{Broken, author};
use crate::metadata::{Action, HistoryEntry, MetadataError, audit};

/// Parts of a key are joined by NUL, which no name or label can hold.
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

/// One record on its way back: what is needed to say where it is broken.
#[derive(Clone, Copy)]
struct Source<'a> {
    table: &'static str,
    key: &'a str,
}

impl Source<'_> {
    fn parsed<T>(self, column: &'static str, outcome: Result<T, Invalid>) -> Result<T, MetadataError> {
        outcome.map_err(|_| broken(self.table, column, self.key))
    }

    fn ahead_max(self, column: &'static str, secs: Option<u64>) -> Result<Option<AheadMax>, MetadataError> {
        self.parsed(column, secs.map(AheadMax::from_secs).transpose())
    }

    fn json<T: for<'de> Deserialize<'de>>(self, record: &[u8]) -> Result<T, MetadataError> {
        serde_json::from_slice(record).map_err(|_| broken(self.table, "record", self.key))
    }

    fn feature_id(self, entity_type: Option<&str>, name: Option<&str>) -> Result<FeatureId, MetadataError> {
        let entity_type = self.parsed("entity_type", EntityType::new(entity_type.unwrap_or_default()))?;
        let name = self.parsed("name", name.map_or_else(|| FeatureName::new(""), FeatureName::stored))?;
        Ok(FeatureId { entity_type, name })
    }
}

fn write(record: &impl Serialize) -> Result<Vec<u8>, MetadataError> {
    let reason = "cannot serialize a definition";
    serde_json::to_vec(record).map_err(|_| MetadataError::Internal { reason: reason.into(), outcome_unknown: false })
}

#[derive(Serialize, Deserialize)]
struct VersionRecord {
    version: String,
    ttl_secs: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_items: Option<u64>,
    /// 0 where timestamps may be any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp_ahead_max_secs: Option<u64>,
    description: String,
    created_at_nanos: u64,
    generation: u64,
    ttl_max_secs: u64,
    revision: u64,
    /// That of items where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<IndexRecord>,
}

#[derive(Serialize, Deserialize)]
struct FeatureRecord {
    value_type: String,
    ttl_secs: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_items: Option<u64>,
    /// 0 where timestamps may be any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp_ahead_max_secs: Option<u64>,
    description: String,
    owner: String,
    labels: BTreeMap<String, String>,
    versions: Vec<VersionRecord>,
    created_at_nanos: u64,
    updated_at_nanos: u64,
    ttl_max_secs: u64,
    revision: u64,
}

pub fn write_feature(feature: &Feature) -> Result<Vec<u8>, MetadataError> {
    let version_of = |version: &FeatureVersion| VersionRecord {
        version: version.version.as_str().to_owned(),
        ttl_secs: version.ttl.as_secs(),
        max_items: version.max_items.map(MaxItems::as_u64),
        timestamp_ahead_max_secs: version.timestamp_ahead_max.map(AheadMax::as_secs),
        description: version.description.as_str().to_owned(),
        created_at_nanos: version.created_at.as_nanos(),
        generation: version.generation.as_u64(),
        ttl_max_secs: version.ttl_max.as_secs(),
        revision: version.revision.0,
        identity: version.identity.is_set().then(|| version.identity.kind().to_string()),
        keep: version.identity.keep().map(|keep| keep.to_string()),
        bucket: version.bucket.map(|bucket| bucket.to_string()),
        index: version.index.as_ref().map(IndexRecord::from),
    };
    write(&FeatureRecord {
        value_type: feature.value_type.as_str().to_owned(),
        ttl_secs: feature.ttl.as_secs(),
        max_items: feature.max_items.map(MaxItems::as_u64),
        timestamp_ahead_max_secs: feature.timestamp_ahead_max.map(AheadMax::as_secs),
        description: feature.description.as_str().to_owned(),
        owner: feature.owner.as_str().to_owned(),
        labels: feature.labels.as_map().clone(),
        versions: feature.versions.iter().map(version_of).collect(),
        created_at_nanos: feature.created_at.as_nanos(),
        updated_at_nanos: feature.updated_at.as_nanos(),
        ttl_max_secs: feature.ttl_max.as_secs(),
        revision: feature.revision.0,
    })
}

/// The feature that a key of a table names.
pub fn read_feature_id(table: &'static str, key: &str) -> Result<FeatureId, MetadataError> {
    let (entity_type, name) = key.split_once(SEPARATOR).unzip();
    Source { table, key }.feature_id(entity_type, name)
}

pub fn read_feature(key: &str, record: &[u8]) -> Result<Feature, MetadataError> {
    let source = Source { table: "features", key };
    let id = read_feature_id(source.table, key)?;
    let record: FeatureRecord = source.json(record)?;
    let versions = record.versions.into_iter().map(|v| read_version(source, v)).collect::<Result<Vec<_>, _>>()?;
    let ordered = versions.is_sorted_by(|a, b| a.version < b.version);
    if !ordered || versions.first().is_none_or(|first| !first.version.is_default()) {
        return Err(broken(source.table, "versions", key));
    }
    Ok(Feature {
        id,
        value_type: source.parsed("value_type", ValueType::parse(&record.value_type))?,
        ttl: source.parsed("ttl_secs", Ttl::from_secs(record.ttl_secs))?,
        max_items: source.parsed("max_items", record.max_items.map(MaxItems::new).transpose())?,
        timestamp_ahead_max: source.ahead_max("timestamp_ahead_max_secs", record.timestamp_ahead_max_secs)?,
        description: source.parsed("description", Description::new(record.description))?,
        owner: source.parsed("owner", Owner::new(record.owner))?,
        labels: source.parsed("labels", Labels::new(record.labels))?,
        versions,
        created_at: source.parsed("created_at_nanos", Timestamp::from_nanos(record.created_at_nanos))?,
        updated_at: source.parsed("updated_at_nanos", Timestamp::from_nanos(record.updated_at_nanos))?,
        ttl_max: source.parsed("ttl_max_secs", Ttl::from_secs(record.ttl_max_secs))?,
        revision: Revision(record.revision),
    })
}

fn read_version(source: Source<'_>, record: VersionRecord) -> Result<FeatureVersion, MetadataError> {
    let kind = record.identity.as_deref().map(IdentityKind::parse).transpose();
    let keep = source.parsed("versions.keep", record.keep.as_deref().map(Keep::parse).transpose())?;
    let identity = kind.and_then(|kind| Identity::of(kind, keep, Identity::Item));
    let identity = source.parsed("versions.identity", identity)?;
    let bucket = record.bucket.as_deref().map(Bucket::parse).transpose();
    Ok(FeatureVersion {
        version: source.parsed("versions.version", VersionLabel::new(&record.version))?,
        identity,
        bucket: source.parsed("versions.bucket", bucket.and_then(|bucket| Bucket::of(bucket, identity)))?,
        index: source.parsed("versions.index", record.index.map(Index::try_from).transpose())?,
        ttl: source.parsed("versions.ttl_secs", Ttl::from_secs(record.ttl_secs))?,
        max_items: source.parsed("versions.max_items", record.max_items.map(MaxItems::new).transpose())?,
        timestamp_ahead_max: source.ahead_max("versions.timestamp_ahead_max_secs", record.timestamp_ahead_max_secs)?,
        description: source.parsed("versions.description", Description::new(record.description))?,
        created_at: source.parsed("versions.created_at_nanos", Timestamp::from_nanos(record.created_at_nanos))?,
        generation: source.parsed("versions.generation", Generation::new(record.generation))?,
        ttl_max: source.parsed("versions.ttl_max_secs", Ttl::from_secs(record.ttl_max_secs))?,
        revision: Revision(record.revision),
    })
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
    /// Of `before` and `after`.
    format: u32,
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
        format: audit::FORMAT,
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
    if record.format != audit::FORMAT {
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

    const FEATURE: &str = r#"{"value_type":"json","ttl_secs":60,"max_items":9,"timestamp_ahead_max_secs":0,"description":"d","owner":"o","labels":{"k":"v"},
        "versions":[{"version":"","ttl_secs":60,"max_items":9,"timestamp_ahead_max_secs":3600,"description":"","created_at_nanos":1,"generation":2,"ttl_max_secs":70,
        "revision":3,"bucket":"week"},{"version":"v","ttl_secs":5,"description":"x","created_at_nanos":2,"generation":1,
        "ttl_max_secs":6,"revision":4,"identity":"key","keep":"oldest"}],"created_at_nanos":1,"updated_at_nanos":2,"ttl_max_secs":90,"revision":4}"#;

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
        let written = write_feature(&feature).unwrap();
        assert_eq!(read_feature("user\0f", &written).unwrap(), feature);
    }

    #[test]
    fn every_broken_part_of_a_feature_is_named() {
        for (column, good, bad) in [
            ("value_type", "\"json\"", "\"blob\""),
            ("ttl_secs", "\"ttl_secs\":60", "\"ttl_secs\":0"),
            ("max_items", "\"max_items\":9,\"timestamp_ahead_max_secs\":0", "\"max_items\":0"),
            ("timestamp_ahead_max_secs", "ahead_max_secs\":0", "ahead_max_secs\":630720001"),
            ("versions.timestamp_ahead_max_secs", "ahead_max_secs\":3600", "ahead_max_secs\":630720001"),
            ("versions.max_items", "\"max_items\":9,\"timestamp_ahead_max_secs\":3600", "\"max_items\":100001"),
            ("description", "\"d\"", "\"\\u0000\""),
            ("owner", "\"o\"", "\"\\u0000\""),
            ("labels", "\"k\"", "\"\""),
            ("versions", "\"version\":\"\"", "\"version\":\"w\""),
            ("versions", "\"version\":\"v\"", "\"version\":\"\""),
            ("versions.version", "\"version\":\"v\"", "\"version\":\"#\""),
            ("versions.generation", "\"generation\":1", "\"generation\":0"),
            ("versions.ttl_secs", "\"ttl_secs\":5", "\"ttl_secs\":630720001"),
            ("versions.identity", "\"identity\":\"key\"", "\"identity\":\"keys\""),
            ("versions.identity", "\"identity\":\"key\"", "\"identity\":\"item\""),
            ("versions.keep", "\"oldest\"", "\"older\""),
            ("versions.bucket", "\"week\"", "\"hour\""),
            ("versions.bucket", "\"keep\":\"oldest\"", "\"keep\":\"oldest\",\"bucket\":\"day\""),
            ("ttl_max_secs", "\"ttl_max_secs\":90", "\"ttl_max_secs\":0"),
            ("updated_at_nanos", "\"updated_at_nanos\":2", "\"updated_at_nanos\":10000000000000000000"),
            ("record", "{\"value_type\"", "{\"value_typ\""),
            ("record", "\"revision\":4}", "\"revision\":4"),
        ] {
            let damaged = FEATURE.replacen(good, bad, 1);
            assert_ne!(damaged, FEATURE, "{good}");
            assert_eq!(column_of(read_feature("user\0f", damaged.as_bytes())), column, "{bad}");
        }
        assert_eq!(column_of(read_feature("us#er\0f", FEATURE.as_bytes())), "entity_type");
        assert_eq!(column_of(read_feature("user\0a b", FEATURE.as_bytes())), "name");
        assert!(read_feature("user\0", FEATURE.as_bytes()).unwrap().id.is_of_bags());
    }

    #[test]
    fn broken_generations_and_entries_are_named() {
        assert!(read_generation("user\0f\0", 1).is_ok());
        for (key, number) in [("user\0f\0v", 0), ("user\0f", 1), ("user", 1), ("\0f\0v", 1), ("user\0f\0v#", 1)] {
            assert!(read_generation(key, number).is_err(), "{key:?} {number}");
        }
        let entry = r#"{"at_nanos":1,"by":"x","action":"create_feature","version":null,"before":null,"after":{}}"#;
        assert!(read_entry("user\0f", 1, entry.as_bytes()).is_ok());
        for (good, bad) in [("\"x\"", "\"\""), ("create_feature", "created"), ("null", "\"#\"")] {
            assert!(read_entry("user\0f", 1, entry.replacen(good, bad, 1).as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_refused_or_means_what_it_says(at in 0..FEATURE.len(), byte: u8, cut: bool) {
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
