//! Definitions as a YAML file, which may live beside the code that uses them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::client::Failure;
use crate::domain::{
    AheadMax, Bucket, Description, EntityType, FeatureId, FeatureName, Identity, IdentityKind, Invalid, Keep, Labels,
    MaxItems, Owner, Ttl, ValueType, VersionLabel,
};
use crate::wire;

/// The file, in the order of entity types and names.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    features: Vec<FeatureText>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeatureText {
    entity_type: String,
    name: String,
    value_type: String,
    ttl: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_items: Option<u64>,
    /// A duration, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp_ahead_max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep: Option<String>,
    /// The name of the period, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    owner: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// All but the default one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    versions: Vec<VersionText>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionText {
    version: String,
    ttl: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_items: Option<u64>,
    /// A duration, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp_ahead_max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep: Option<String>,
    /// The name of the period, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
}

/// A feature as a file, or a server, has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub value_type: ValueType,
    pub ttl: Ttl,
    pub max_items: Option<MaxItems>,
    pub timestamp_ahead_max: Option<AheadMax>,
    pub identity: Identity,
    pub bucket: Option<Bucket>,
    pub description: Description,
    pub owner: Owner,
    pub labels: Labels,
    /// All but the default one.
    pub versions: BTreeMap<VersionLabel, DeclaredVersion>,
}

/// A version other than the default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeclaredVersion {
    pub ttl: Ttl,
    pub max_items: Option<MaxItems>,
    pub timestamp_ahead_max: Option<AheadMax>,
    /// The feature's where the file does not say.
    pub identity: Identity,
    pub bucket: Option<Bucket>,
    pub description: Description,
}

/// Features by what identifies them.
pub(super) type Definitions = BTreeMap<FeatureId, Declared>;

impl FeatureText {
    fn of(feature: &wire::Feature) -> Self {
        let versions = feature.versions.iter().filter(|version| !version.version.is_empty());
        let version = |version: &wire::FeatureVersion| VersionText {
            version: version.version.clone(),
            ttl: version.ttl.clone(),
            max_items: version.max_items,
            timestamp_ahead_max: version.timestamp_ahead_max.map(|ahead_max| ahead_max.to_string()),
            // What a feature's versions have alike is said once.
            identity: (version.identity != feature.identity).then(|| version.identity.to_string()),
            keep: version.keep.filter(|_| version.keep != feature.keep).map(|keep| keep.to_string()),
            bucket: (version.bucket != feature.bucket).then(|| bucket_text(version.bucket)),
            description: version.description.clone(),
        };
        Self {
            entity_type: feature.entity_type.clone(),
            name: feature.name.clone(),
            value_type: feature.value_type.to_string(),
            ttl: feature.ttl.clone(),
            max_items: feature.max_items,
            timestamp_ahead_max: feature.timestamp_ahead_max.map(|ahead_max| ahead_max.to_string()),
            identity: feature.keep.map(|_| feature.identity.to_string()),
            keep: feature.keep.map(|keep| keep.to_string()),
            bucket: feature.bucket.map(|_| bucket_text(feature.bucket)),
            description: feature.description.clone(),
            owner: feature.owner.clone(),
            labels: feature.labels.clone(),
            versions: versions.map(version).collect(),
        }
    }

    fn parse(self) -> Result<(FeatureId, Declared), Invalid> {
        let id = FeatureId { entity_type: EntityType::new(&self.entity_type)?, name: FeatureName::new(&self.name)? };
        let parse_identity = |identity: Option<String>, keep: Option<String>, inherited| {
            let kind = identity.as_deref().map(IdentityKind::parse).transpose()?;
            Identity::of(kind, keep.as_deref().map(Keep::parse).transpose()?, inherited)
        };
        let own_identity = parse_identity(self.identity, self.keep, Identity::Item)?;
        let own_bucket = parse_bucket(self.bucket.as_deref(), None, own_identity)?;
        let mut versions = BTreeMap::new();
        for text in self.versions {
            let VersionText { version, ttl, max_items, timestamp_ahead_max, identity, keep, bucket, description } =
                text;
            let label = VersionLabel::new(&version)?;
            let identity = parse_identity(identity, keep, own_identity)?;
            let declared = DeclaredVersion {
                ttl: Ttl::parse(&ttl)?,
                max_items: max_items.map(MaxItems::new).transpose()?,
                timestamp_ahead_max: timestamp_ahead_max.as_deref().map(AheadMax::parse).transpose()?,
                identity,
                bucket: parse_bucket(bucket.as_deref(), own_bucket, identity)?,
                description: Description::new(description)?,
            };
            if label.is_default() || versions.insert(label, declared).is_some() {
                return Err(Invalid::argument(format!(
                    "the version {version:?} is a duplicate, or the default version, whose ttl is the feature's"
                )));
            }
        }
        let declared = Declared {
            value_type: ValueType::parse(&self.value_type)?,
            ttl: Ttl::parse(&self.ttl)?,
            max_items: self.max_items.map(MaxItems::new).transpose()?,
            timestamp_ahead_max: self.timestamp_ahead_max.as_deref().map(AheadMax::parse).transpose()?,
            identity: own_identity,
            bucket: own_bucket,
            description: Description::new(self.description)?,
            owner: Owner::new(self.owner)?,
            labels: Labels::new(self.labels)?,
            versions,
        };
        Ok((id, declared))
    }
}

const NO_BUCKET: &str = "none";

fn bucket_text(bucket: Option<Bucket>) -> String {
    bucket.map_or(NO_BUCKET, Bucket::as_str).to_owned()
}

fn parse_bucket(text: Option<&str>, inherited: Option<Bucket>, identity: Identity) -> Result<Option<Bucket>, Invalid> {
    let bucket = match text {
        None => inherited,
        Some(NO_BUCKET) => None,
        Some(text) => Some(Bucket::parse(text)?),
    };
    Bucket::of(bucket, identity)
}

/// The text of a file with these features.
pub(super) fn write(features: &[wire::Feature]) -> Result<String, Failure> {
    let file = File { features: features.iter().map(FeatureText::of).collect() };
    serde_saphyr::to_string(&file).map_err(|error| Failure::failed(format!("cannot write YAML: {error}")))
}

/// The features of a file, or why it makes no sense.
pub(super) fn read(text: &str) -> Result<Definitions, Failure> {
    let file: File = serde_saphyr::from_str_with_options(text, options(text.len()))
        .map_err(|error| Failure::failed(format!("cannot read the file: {error}")))?;
    parse(file.features)
}

/// A file has as many features as its server: what it may have grows with its length, and not with what its
/// aliases stand for.
fn options(bytes: usize) -> serde_saphyr::Options {
    let usual = serde_saphyr::Budget::default();
    let (max_events, max_nodes) = (usual.max_events.max(bytes), usual.max_nodes.max(bytes));
    serde_saphyr::options! { budget: serde_saphyr::budget! { max_events: max_events, max_nodes: max_nodes } }
}

/// The features that a server has.
pub(super) fn of_server(features: &[wire::Feature]) -> Result<Definitions, Failure> {
    parse(features.iter().map(FeatureText::of).collect())
}

fn parse(features: Vec<FeatureText>) -> Result<Definitions, Failure> {
    let mut definitions = Definitions::new();
    for feature in features {
        let name = format!("{}.{}", feature.entity_type, feature.name);
        let (id, declared) = feature.parse().map_err(|error| Failure::failed(format!("{name}: {error}")))?;
        if definitions.insert(id, declared).is_some() {
            return Err(Failure::failed(format!("duplicate feature {name}")));
        }
    }
    Ok(definitions)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn a_file_may_have_as_many_features_as_there_are() {
        const FEATURES: usize = 15_000;
        let mut text = "features:\n".to_owned();
        for n in 0..FEATURES {
            let labels = "{team: feed, tier: '1', on: call}";
            let feature = format!("{{entity_type: user, name: f{n}, value_type: string, ttl: 30d, labels: {labels}}}");
            writeln!(text, "- {feature}").unwrap();
        }
        assert_eq!(read(&text).unwrap().len(), FEATURES);
    }

    #[test]
    fn a_short_file_does_not_stand_for_a_long_one() {
        let mut text = "a0: &a0 {version: v, ttl: 1d}\n".to_owned();
        for n in 1..9 {
            let ten = vec![format!("*a{}", n - 1); 10].join(", ");
            writeln!(text, "a{n}: &a{n} [{ten}]").unwrap();
        }
        text.push_str("features: *a8\n");
        assert!(read(&text).is_err());
    }
}
