//! The bodies of requests.

use std::path::PathBuf;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{self, Others};
use super::members::{many, parsed};
use super::refused::{Mistake, Refused};
use super::{ItemInput, Problem, add_body, texts};
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{
    ADD_ITEMS_MAX, Description, EntityType, FeatureName, Invalid, Labels, Owner, ValueType, VersionLabel,
};

/// Items to add, all or none.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}]}))]
#[serde(deny_unknown_fields)]
pub struct AddItemsInput<'a> {
    #[serde(borrow, deserialize_with = "many::<ADD_ITEMS_MAX, _, _>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<ItemInput<'a>>,
}

/// The definition of a new feature. Its `ttl` is required.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entity_type": "user", "name": "story_presented", "value_type": "string", "ttl": "30d"}))]
#[serde(deny_unknown_fields)]
pub struct FeatureInput {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: EntityType,
    #[serde(deserialize_with = "feature_name")]
    #[schema(value_type = texts::Name, inline)]
    pub name: FeatureName,
    #[schema(value_type = texts::ValueType)]
    pub value_type: ValueType,
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 200, pattern = "^[^\\x00]*$", required = false)]
    pub owner: Option<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Labels, inline, required = false)]
    pub labels: Option<Labels>,
}

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ttl": "7d", "owner": "feed team"}))]
#[serde(deny_unknown_fields)]
pub struct FeaturePatch {
    // The properties of the default version.
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 200, pattern = "^[^\\x00]*$", required = false)]
    pub owner: Option<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Labels, inline, required = false)]
    pub labels: Option<Labels>,
}

/// The definition of a new version. Properties that are absent default to the feature's.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"version": "v2", "ttl": "7d"}))]
#[serde(deny_unknown_fields)]
pub struct VersionInput {
    #[schema(value_type = texts::Label, inline)]
    pub version: VersionLabel,
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
}

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ttl": "14d"}))]
#[serde(deny_unknown_fields)]
pub struct VersionPatch {
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
}

/// The destination of a backup.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"dir": "/var/backups/liststore/2024-08-29"}))]
#[serde(deny_unknown_fields)]
pub struct BackupInput {
    /// An absolute path on the server's machine: an empty directory, or a new one in an existing directory.
    #[serde(deserialize_with = "absolute")]
    #[schema(value_type = String, pattern = "^/")]
    pub dir: PathBuf,
}

/// Why these cannot be changed, in addition to [`GivenProperties::FIXED`].
const FIXED_OF_FEATURE: [(&str, &str); 3] = [
    ("value_type", "the value type of a feature cannot be changed: create another feature"),
    ("entity_type", "the entity type of a feature cannot be changed: create another feature"),
    ("name", "a feature cannot be renamed: create another feature"),
];
const VALUE_TYPE_OF_VERSION: (&str, &str) = (
    "value_type",
    "all versions have the value type of their feature, which cannot be changed: create another feature",
);
const FIXED_OF_VERSION: [(&str, &str); 2] =
    [VALUE_TYPE_OF_VERSION, ("version", "a version cannot be renamed: create another version")];

impl<'a> AddItemsInput<'a> {
    /// Items of one add.
    pub const ITEMS_MAX: usize = crate::domain::ADD_ITEMS_MAX;

    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        add_body::parse(body).map(|items| Self { items })
    }
}

fn feature_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FeatureName, D::Error> {
    parsed(deserializer, FeatureName::new)
}

impl FeatureInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let (input, properties): (Self, GivenProperties) = with_properties(body, VersionProperties::NAMES, &[])?;
        if properties.ttl.is_none() {
            let missing = Refused { place: "ttl".to_owned(), mistake: Mistake::Missing };
            return Err(missing.into_problem(Others::default()));
        }
        Ok(Self { properties, ..input })
    }
}

/// Reads a body whose properties stand next to its own members.
fn with_properties<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    passed: &[&str],
    fixed: &[(&'static str, &'static str)],
) -> Result<(T, GivenProperties), Problem> {
    let own = body::read_among(body, Others { passed, fixed })?;
    Ok((own, body::read(body)?))
}

/// Reads a change, which cannot have the `fixed` members.
fn change_with_properties<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    fixed: &[(&'static str, &'static str)],
) -> Result<(T, GivenProperties), Problem> {
    let fixed = [GivenProperties::FIXED, fixed].concat();
    let names = VersionProperties::NAMES.iter().copied();
    let changeable: Vec<&str> = names.filter(|name| fixed.iter().all(|(fixed, _)| fixed != name)).collect();
    with_properties(body, &changeable, &fixed)
}

impl FeaturePatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let (patch, properties): (Self, _) = change_with_properties(body, &FIXED_OF_FEATURE)?;
        Ok(Self { properties, ..patch })
    }

    pub fn is_empty(&self) -> bool {
        let Self { properties, description, owner, labels } = self;
        properties.is_empty() && description.is_none() && owner.is_none() && labels.is_none()
    }
}

impl From<GivenProperties> for FeaturePatch {
    fn from(properties: GivenProperties) -> Self {
        Self { properties, ..Self::default() }
    }
}

impl VersionInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let (input, properties): (Self, _) = with_properties(body, VersionProperties::NAMES, &[VALUE_TYPE_OF_VERSION])?;
        Ok(Self { properties, ..input })
    }
}

impl VersionPatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let (patch, properties): (Self, _) = change_with_properties(body, &FIXED_OF_VERSION)?;
        Ok(Self { properties, ..patch })
    }

    pub fn is_empty(&self) -> bool {
        let Self { properties, description } = self;
        properties.is_empty() && description.is_none()
    }
}

impl From<GivenProperties> for VersionPatch {
    fn from(properties: GivenProperties) -> Self {
        Self { properties, ..Self::default() }
    }
}

impl BackupInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        body::read(body)
    }
}

fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    parsed(deserializer, |text| {
        let dir = PathBuf::from(text);
        if !dir.is_absolute() || text.contains('\0') {
            return Err(Invalid::argument("dir must be an absolute path on the server's machine"));
        }
        Ok(dir)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;
    use crate::domain::{AheadMax, MaxItems, Timestamp, Ttl};

    /// The body that a client writes. The server must read the same.
    fn sent(body: &impl Serialize) -> Vec<u8> {
        serde_json::to_vec(body).unwrap()
    }

    #[test]
    fn what_a_client_writes_the_server_reads_as_the_same() {
        let labels = Labels::new(BTreeMap::from([("team".to_owned(), "feed \"1\"".to_owned())])).unwrap();
        let properties = json!({"ttl": "1h30m", "max_items": 100_000, "timestamp_ahead_max": "none", "identity": "key",
                                "keep": "oldest", "bucket": "week"});
        let properties = GivenProperties::of_members(properties.as_object().unwrap()).unwrap();
        let input = FeatureInput {
            entity_type: EntityType::new("user").unwrap(),
            name: FeatureName::new("seen").unwrap(),
            value_type: ValueType::Json,
            properties: properties.clone(),
            description: Some(Description::new("é\n").unwrap()),
            owner: None,
            labels: Some(labels),
        };
        let read = FeatureInput::read(&sent(&input)).unwrap();
        assert_eq!((read.entity_type, read.name), (input.entity_type, input.name));
        assert_eq!((read.value_type, read.properties), (input.value_type, properties));
        assert_eq!((read.description, read.owner, read.labels), (input.description, input.owner, input.labels));

        let patch = FeaturePatch::from(GivenProperties { ttl: Ttl::parse("1d").ok(), ..GivenProperties::default() });
        assert_eq!(sent(&patch), br#"{"ttl":"1d"}"#);
        assert_eq!(FeaturePatch::read(&sent(&patch)).unwrap().properties, patch.properties);
        assert!(FeaturePatch::read(b"{}").unwrap().is_empty() && VersionPatch::read(b"{}").unwrap().is_empty());

        let patch = FeaturePatch::from(GivenProperties { max_items: Some(None), ..GivenProperties::default() });
        assert_eq!(sent(&patch), br#"{"max_items":null}"#);
        assert_eq!(FeaturePatch::read(&sent(&patch)).unwrap().properties, patch.properties);

        let version = VersionLabel::new("a/b").unwrap();
        let properties =
            GivenProperties { timestamp_ahead_max: Some(None), bucket: Some(None), ..GivenProperties::default() };
        let version = VersionInput { version, properties, description: None };
        let read = VersionInput::read(&sent(&version)).unwrap();
        assert_eq!((read.version, read.properties), (version.version, version.properties));

        let timestamp = Timestamp::from_nanos(9_999_999_999_999_999_999).unwrap();
        let items =
            AddItemsInput { items: vec![ItemInput { timestamp, value: "12345678901234567890", key: Some("\"k\"") }] };
        assert_eq!(AddItemsInput::read(&sent(&items)).unwrap(), items);
    }

    #[test]
    fn the_most_items_of_a_list_are_a_number_within_bounds_or_null() {
        for bad in ["0", "100001", "-1", "1.5", "\"5\"", "true", "[1]"] {
            let body = format!("{{\"max_items\":{bad}}}");
            let refused = VersionPatch::read(body.as_bytes()).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("max_items"), "{bad}");
            assert!(refused.detail.contains("1 to 100000"), "{}", refused.detail);
        }
        let read = |body: &[u8]| VersionPatch::read(body).unwrap().properties.max_items;
        assert_eq!(read(br#"{"max_items":100000}"#), Some(Some(MaxItems::MAX)));
        assert_eq!((read(br#"{"max_items":null}"#), read(b"{}")), (Some(None), None));
    }

    #[test]
    fn how_far_ahead_is_a_duration_or_none_or_null() {
        for bad in ["\"\"", "\"1 day\"", "\"0s\"", "\"7301d\"", "\"None\"", "86400", "true", "[\"1d\"]"] {
            let body = format!("{{\"timestamp_ahead_max\":{bad}}}");
            let refused = VersionPatch::read(body.as_bytes()).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("timestamp_ahead_max"), "{bad}");
        }
        let read = |body: &[u8]| VersionPatch::read(body).unwrap().properties.timestamp_ahead_max;
        assert_eq!(read(br#"{"timestamp_ahead_max":"24h"}"#), Some(Some(AheadMax::DAY)));
        assert_eq!(read(br#"{"timestamp_ahead_max":"none"}"#), Some(Some(AheadMax::Unbounded)));
        assert_eq!((read(br#"{"timestamp_ahead_max":null}"#), read(b"{}")), (Some(None), None));
    }

    #[test]
    fn the_schema_of_an_add_has_its_bounds() {
        let schema = serde_json::to_value(AddItemsInput::schema()).unwrap();
        assert_eq!(schema["properties"]["items"]["maxItems"], json!(AddItemsInput::ITEMS_MAX));
    }

    #[test]
    fn what_never_changes_is_refused_with_its_reason() {
        for (field, refused) in [
            ("value_type", FeaturePatch::read(br#"{"value_type":"json"}"#).unwrap_err()),
            ("name", FeaturePatch::read(br#"{"name":"x"}"#).unwrap_err()),
            ("version", VersionPatch::read(br#"{"version":"x"}"#).unwrap_err()),
            ("identity", FeaturePatch::read(br#"{"identity":"key"}"#).unwrap_err()),
            ("keep", FeaturePatch::read(br#"{"keep":"oldest"}"#).unwrap_err()),
            ("identity", VersionPatch::read(br#"{"identity":"value"}"#).unwrap_err()),
            ("bucket", FeaturePatch::read(br#"{"bucket":"day"}"#).unwrap_err()),
            ("bucket", VersionPatch::read(br#"{"bucket":null}"#).unwrap_err()),
            ("keep", VersionPatch::read(br#"{"keep":"newest"}"#).unwrap_err()),
            ("value_type", VersionInput::read(br#"{"version":"x","value_type":"json"}"#).unwrap_err()),
        ] {
            assert_eq!(refused.field.as_deref(), Some(field));
            assert!(refused.detail.contains("cannot be"), "{}", refused.detail);
        }
    }
}
