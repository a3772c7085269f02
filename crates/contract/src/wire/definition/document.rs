//! The documents of features, their versions and indexes, which the metadata stores hold unchanged.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::VersionProperties;
use crate::domain::index::Pointer;
use crate::domain::{
    Description, FeatureId, FeatureKey, FormatError, Formats, Generation, Index, IndexSpec, Invalid, Labels, Owner,
    Retention, Revision, Timestamp, Ttl, ValueType, VersionLabel,
};

/// The formats of these documents in every store.
pub const FORMATS: Formats<Upgrade> = Formats::new(&[]);

/// Brings the document of a feature to the next format.
pub type Upgrade = fn(&mut Json);

/// Why a stored document is not read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("{0}")]
    Format(FormatError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// A version of a list feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureVersion {
    pub version: VersionLabel,
    #[serde(flatten)]
    pub properties: VersionProperties,
    /// Of a version of bags: the index that its lists are the entries of. Its specification never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Index>,
    pub description: Description,
    pub created_at: Timestamp,
    pub generation: Generation,
    /// The longest TTL that this creation of the version ever had.
    pub ttl_max: Ttl,
    /// The version's own entity tag.
    pub revision: Revision,
}

impl FeatureVersion {
    /// Which items this version's lists show.
    pub fn retention(&self) -> Retention {
        self.properties.retention()
    }

    /// The feature key of this version's lists.
    pub fn key(&self, id: &FeatureId) -> FeatureKey {
        let key = FeatureKey::new(id, &self.version, self.generation);
        key.with_identity(self.properties.identity()).with_bucket(self.properties.bucket)
    }
}

/// A list feature, or an entity type with bags, with all its versions, ordered by label in byte order: the default
/// version first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    #[serde(flatten)]
    pub id: FeatureId,
    pub value_type: ValueType,
    pub description: Description,
    pub owner: Owner,
    pub labels: Labels,
    pub versions: Vec<FeatureVersion>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The longest TTL that any version of this creation of the feature ever had, deleted ones too.
    pub ttl_max: Ttl,
    /// The feature's entity tag: it changes with every change to the feature or to its versions.
    pub revision: Revision,
}

impl Feature {
    /// The default version's properties, which later versions inherit.
    pub fn properties(&self) -> VersionProperties {
        self.versions.first().map(|first| first.properties.clone()).unwrap_or_default()
    }

    pub fn version(&self, label: &VersionLabel) -> Option<&FeatureVersion> {
        self.versions.iter().find(|v| v.version == *label)
    }

    /// The document, with the number of its format.
    pub fn to_document(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Stored { format: FORMATS.present(), feature: self })
    }

    /// Reads the document in any of its formats.
    pub fn of_document(document: &[u8]) -> Result<Self, Unreadable> {
        Self::of_formats(&FORMATS, document)
    }

    fn of_formats(formats: &Formats<Upgrade>, document: &[u8]) -> Result<Self, Unreadable> {
        let Head { format } = serde_json::from_slice(document)?;
        let upgrades = formats.upgrades_from(format).map_err(Unreadable::Format)?;
        let feature: Self = if upgrades.is_empty() {
            serde_json::from_slice(document)?
        } else {
            let mut document = serde_json::from_slice(document)?;
            upgrades.iter().for_each(|upgrade| upgrade(&mut document));
            serde_json::from_value(document)?
        };
        Ok(feature.checked()?)
    }

    /// Refuses a document that no change makes.
    fn checked(mut self) -> Result<Self, Invalid> {
        let is_ordered = self.versions.is_sorted_by(|a, b| a.version < b.version);
        if !is_ordered || self.versions.first().is_none_or(|first| !first.version.is_default()) {
            return Err(Invalid::argument("the default version must come first, and the other versions in order"));
        }
        for version in &mut self.versions {
            version.properties = version.properties.clone().checked().map_err(|error| error.invalid)?;
        }
        Ok(self)
    }
}

/// The beginning of a document.
#[derive(Deserialize)]
struct Head {
    format: u64,
}

#[derive(Serialize)]
struct Stored<'f> {
    format: u64,
    #[serde(flatten)]
    feature: &'f Feature,
}

/// The form of an index in documents.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexForm {
    properties: Vec<Pointer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order_by: Option<Pointer>,
    ready: bool,
}

impl Serialize for Index {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { spec, is_ready } = self;
        let (properties, order_by) = (spec.properties().to_vec(), spec.order_by().cloned());
        IndexForm { properties, order_by, ready: *is_ready }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let IndexForm { properties, order_by, ready } = IndexForm::deserialize(deserializer)?;
        let spec = IndexSpec::new(properties, order_by).map_err(serde::de::Error::custom)?;
        Ok(Self { spec: Arc::new(spec), is_ready: ready })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores hold this. A change of it is another format, and needs an upgrade in [`FORMATS`].
    const FEATURE: &str = r#"{"format":1,"entity_type":"user","name":"seen","value_type":"json","description":"d","owner":"o","labels":{"k":"v"},"versions":[{"version":"","ttl":"1m","max_items":9,"timestamp_ahead_max":"1h","identity":"item","bucket":"week","description":"","created_at":"1970-01-01T00:00:00.000000001Z","generation":2,"ttl_max":"1m10s","revision":3},{"version":"v","ttl":"5s","timestamp_ahead_max":"none","identity":"key","keep":"oldest","description":"x","created_at":"1970-01-01T00:00:00.000000002Z","generation":1,"ttl_max":"6s","revision":4}],"created_at":"1970-01-01T00:00:00.000000001Z","updated_at":"2286-11-20T17:46:39.999999999Z","ttl_max":"1m30s","revision":4}"#;

    const BAGS: &str = r#"{"format":1,"entity_type":"user","name":"","value_type":"json","description":"","owner":"","labels":{},"versions":[{"version":"","ttl":"1d","identity":"item","description":"","created_at":"1970-01-01T00:00:00.000000000Z","generation":1,"ttl_max":"1d","revision":1},{"version":"by","ttl":"1d","identity":"item","index":{"properties":["/a","/b"],"order_by":"/c","ready":true},"description":"","created_at":"1970-01-01T00:00:00.000000000Z","generation":1,"ttl_max":"1d","revision":2}],"created_at":"1970-01-01T00:00:00.000000000Z","updated_at":"1970-01-01T00:00:00.000000000Z","ttl_max":"1d","revision":2}"#;

    fn read(text: &str) -> Option<Feature> {
        Feature::of_document(text.as_bytes()).ok()
    }

    #[test]
    fn the_first_format_never_changes() {
        assert_eq!(FORMATS.present(), 1);
        for text in [FEATURE, BAGS] {
            let written = read(text).unwrap().to_document().unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), text);
        }
    }

    #[test]
    fn an_older_document_is_upgraded_and_a_newer_one_is_refused() {
        const LATER: Formats<Upgrade> = Formats::new(&[|feature| feature["owner"] = "nobody".into()]);
        let read = |number: &str| {
            let text = FEATURE.replacen("\"format\":1", &format!("\"format\":{number}"), 1);
            Feature::of_formats(&LATER, text.as_bytes()).map(|feature| feature.owner.to_string())
        };
        assert_eq!(read("1").unwrap(), "nobody");
        assert_eq!(read("2").unwrap(), "o");
        assert!(matches!(read("3"), Err(Unreadable::Format(FormatError::Newer { found: 3, known: 2 }))));
        assert!(matches!(read("0"), Err(Unreadable::Format(FormatError::Unknown))));
    }

    #[test]
    fn documents_that_no_change_produces_are_refused() {
        for (good, bad) in [
            ("\"user\"", "\"us#er\""),
            ("\"seen\"", "\"a b\""),
            ("\"json\"", "\"blob\""),
            ("\"ttl\":\"1m\"", "\"ttl\":\"0s\""),
            ("\"max_items\":9", "\"max_items\":0"),
            ("\"1h\"", "\"7301d\""),
            ("\"d\"", "\"\\u0000\""),
            ("\"k\"", "\"\""),
            ("\"version\":\"\"", "\"version\":\"w\""),
            ("\"version\":\"v\"", "\"version\":\"\""),
            ("\"version\":\"v\"", "\"version\":\"#\""),
            ("\"generation\":1", "\"generation\":0"),
            ("\"identity\":\"key\"", "\"identity\":\"keys\""),
            ("\"identity\":\"key\"", "\"identity\":\"item\""),
            ("\"oldest\"", "\"older\""),
            ("\"week\"", "\"hour\""),
            ("\"keep\":\"oldest\"", "\"keep\":\"oldest\",\"bucket\":\"day\""),
            ("2286", "2287"),
            ("\"revision\":4}", "\"revision\":4"),
        ] {
            let damaged = FEATURE.replacen(good, bad, 1);
            assert_ne!(damaged, FEATURE, "{good}");
            assert_eq!(read(&damaged), None, "{bad}");
        }
        assert_eq!(read(&BAGS.replace("[\"/a\",\"/b\"]", "[]")), None);
    }
}
