//! The bodies of requests.

use std::path::PathBuf;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::object::{Object, whole_number};
use super::{ItemInput, Problem, add_body, text, texts};
use crate::domain::{
    AheadMax, AheadMaxInput, Bucket, BucketInput, Description, EntityType, FeatureName, IdentityKind, Invalid, Keep,
    Labels, MaxItems, MaxItemsInput, Owner, Ttl, ValueType, VersionLabel,
};

/// Items to add, all or none.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}]}))]
#[serde(deny_unknown_fields)]
pub struct AddItemsInput<'a> {
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<ItemInput<'a>>,
}

/// The definition of a new feature.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"entity_type": "user", "name": "story_presented", "value_type": "string", "ttl": "30d"}))]
#[serde(deny_unknown_fields)]
pub struct FeatureInput {
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: EntityType,
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::Name, inline)]
    pub name: FeatureName,
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::ValueType)]
    pub value_type: ValueType,
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::Ttl, inline)]
    pub ttl: Ttl,
    /// Maximum number of newest items that a list shows; `null` for all.
    #[serde(serialize_with = "max_items", skip_serializing_if = "MaxItemsInput::is_absent")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000, required = false)]
    pub max_items: MaxItemsInput,
    /// Maximum lead of an added item's timestamp over the server's clock, such as `1d`; `none` for no limit, `null` for
    /// the server's setting.
    #[serde(serialize_with = "ahead_max", skip_serializing_if = "AheadMaxInput::is_absent")]
    #[schema(value_type = Option<texts::AheadMax>, required = false)]
    pub timestamp_ahead_max: AheadMaxInput,
    /// What identifies an item; default `item`.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Identity, required = false)]
    pub identity: Option<IdentityKind>,
    /// Which item of a value or key is kept; default `newest`.
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Keep, required = false)]
    pub keep: Option<Keep>,
    /// The period of the items in one partition of a list on ScyllaDB and Cassandra; `null` for none. Cannot be
    /// changed.
    #[serde(serialize_with = "bucket", skip_serializing_if = "BucketInput::is_absent")]
    #[schema(value_type = Option<texts::Bucket>, required = false)]
    pub bucket: BucketInput,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 200, pattern = "^[^\\x00]*$", required = false)]
    pub owner: Option<Owner>,
    #[serde(serialize_with = "labels", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Labels, inline, required = false)]
    pub labels: Option<Labels>,
}

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({"ttl": "7d", "owner": "feed team"}))]
#[serde(deny_unknown_fields)]
pub struct FeaturePatch {
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub ttl: Option<Ttl>,
    /// Maximum number of newest items that a list shows; `null` for all.
    #[serde(serialize_with = "max_items", skip_serializing_if = "MaxItemsInput::is_absent")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000, required = false)]
    pub max_items: MaxItemsInput,
    /// Maximum lead of an added item's timestamp over the server's clock, such as `1d`; `none` for no limit, `null` for
    /// the server's setting.
    #[serde(serialize_with = "ahead_max", skip_serializing_if = "AheadMaxInput::is_absent")]
    #[schema(value_type = Option<texts::AheadMax>, required = false)]
    pub timestamp_ahead_max: AheadMaxInput,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 200, pattern = "^[^\\x00]*$", required = false)]
    pub owner: Option<Owner>,
    #[serde(serialize_with = "labels", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Labels, inline, required = false)]
    pub labels: Option<Labels>,
}

/// The definition of a new version. `ttl`, `max_items`, `timestamp_ahead_max`, `identity`, `keep` and `bucket` default
/// to the feature's.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"version": "v2", "ttl": "7d"}))]
#[serde(deny_unknown_fields)]
pub struct VersionInput {
    #[serde(serialize_with = "text::serialize")]
    #[schema(value_type = texts::Label, inline)]
    pub version: VersionLabel,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub ttl: Option<Ttl>,
    /// Maximum number of newest items that a list shows; `null` for all.
    #[serde(serialize_with = "max_items", skip_serializing_if = "MaxItemsInput::is_absent")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000, required = false)]
    pub max_items: MaxItemsInput,
    /// Maximum lead of an added item's timestamp over the server's clock, such as `1d`; `none` for no limit, `null` for
    /// the server's setting.
    #[serde(serialize_with = "ahead_max", skip_serializing_if = "AheadMaxInput::is_absent")]
    #[schema(value_type = Option<texts::AheadMax>, required = false)]
    pub timestamp_ahead_max: AheadMaxInput,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Identity, required = false)]
    pub identity: Option<IdentityKind>,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Keep, required = false)]
    pub keep: Option<Keep>,
    /// The period of the items in one partition of a list on ScyllaDB and Cassandra; `null` for none. Cannot be
    /// changed.
    #[serde(serialize_with = "bucket", skip_serializing_if = "BucketInput::is_absent")]
    #[schema(value_type = Option<texts::Bucket>, required = false)]
    pub bucket: BucketInput,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
}

/// The changes. Absent fields remain unchanged.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({"ttl": "14d"}))]
#[serde(deny_unknown_fields)]
pub struct VersionPatch {
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = texts::Ttl, inline, required = false)]
    pub ttl: Option<Ttl>,
    /// Maximum number of newest items that a list shows; `null` for all.
    #[serde(serialize_with = "max_items", skip_serializing_if = "MaxItemsInput::is_absent")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000, required = false)]
    pub max_items: MaxItemsInput,
    /// Maximum lead of an added item's timestamp over the server's clock, such as `1d`; `none` for no limit, `null` for
    /// the server's setting.
    #[serde(serialize_with = "ahead_max", skip_serializing_if = "AheadMaxInput::is_absent")]
    #[schema(value_type = Option<texts::AheadMax>, required = false)]
    pub timestamp_ahead_max: AheadMaxInput,
    #[serde(serialize_with = "text::serialize_some", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, max_length = 2000, pattern = "^[^\\x00]*$", required = false)]
    pub description: Option<Description>,
}

/// The destination of a backup.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"dir": "/var/backups/liststore/2024-08-29"}))]
#[serde(deny_unknown_fields)]
pub struct BackupInput {
    /// An absolute path on the server's machine: an empty directory, or a new one in an existing directory.
    #[schema(value_type = String, pattern = "^/")]
    pub dir: PathBuf,
}

pub(super) fn labels<S: Serializer>(labels: &Option<Labels>, serializer: S) -> Result<S::Ok, S::Error> {
    labels.as_ref().map(Labels::as_map).serialize(serializer)
}

fn max_items<S: Serializer>(input: &MaxItemsInput, serializer: S) -> Result<S::Ok, S::Error> {
    input.over(None).map(MaxItems::as_u64).serialize(serializer)
}

fn ahead_max<S: Serializer>(input: &AheadMaxInput, serializer: S) -> Result<S::Ok, S::Error> {
    input.over(None).serialize(serializer)
}

fn bucket<S: Serializer>(input: &BucketInput, serializer: S) -> Result<S::Ok, S::Error> {
    input.over(None).map(Bucket::as_str).serialize(serializer)
}

/// `null` says that there are to be none.
fn read_bucket(object: &Object<'_>) -> Result<BucketInput, Problem> {
    if object.raw("bucket") == Some("null") {
        return Ok(BucketInput::None);
    }
    Ok(object.optional("bucket", Bucket::parse)?.map_or(BucketInput::Absent, BucketInput::By))
}

/// `null` says that there is to be no bound.
fn read_max_items(object: &Object<'_>) -> Result<MaxItemsInput, Problem> {
    const NAME: &str = "max_items";
    let Some(raw) = object.raw(NAME) else { return Ok(MaxItemsInput::Absent) };
    if raw == "null" {
        return Ok(MaxItemsInput::Unbounded);
    }
    let items = whole_number(raw).ok_or_else(|| {
        let detail = format!("{NAME} must be a whole number from {} to {}, or null", MaxItems::MIN, MaxItems::MAX);
        Problem::argument(NAME, detail)
    })?;
    MaxItems::new(items).map(MaxItemsInput::AtMost).map_err(|invalid| Problem::from(invalid).at(NAME))
}

/// `null` leaves the bound to the server's setting.
fn read_ahead_max(object: &Object<'_>) -> Result<AheadMaxInput, Problem> {
    const NAME: &str = "timestamp_ahead_max";
    if object.raw(NAME) == Some("null") {
        return Ok(AheadMaxInput::OfServer);
    }
    Ok(object.optional(NAME, AheadMax::parse)?.map_or(AheadMaxInput::Absent, AheadMaxInput::Own))
}

/// Why these cannot be changed.
const FIXED_OF_FEATURE: [(&str, &str); 6] = [
    FIXED_VALUE_TYPE,
    FIXED_IDENTITY,
    FIXED_KEEP,
    FIXED_BUCKET,
    ("entity_type", "the entity type of a feature cannot be changed: create another feature"),
    ("name", "a feature cannot be renamed: create another feature"),
];
const FIXED_VALUE_TYPE: (&str, &str) =
    ("value_type", "the value type of a feature cannot be changed: create another feature");
const FIXED_IDENTITY: (&str, &str) = (
    "identity",
    "the identity of a version cannot be changed: create another version with the new identity, and move the items \
     with liststore export and import",
);
const FIXED_KEEP: (&str, &str) = (
    "keep",
    "keep cannot be changed: create another version with the new keep, and move the items with liststore export and \
     import",
);
const FIXED_BUCKET: (&str, &str) = (
    "bucket",
    "the bucket of a version cannot be changed: create another version with the new bucket, and move the items with \
     liststore copy --version and --to-version",
);
const VALUE_TYPE_OF_VERSION: (&str, &str) = (
    "value_type",
    "all versions have the value type of their feature, which cannot be changed: create another feature",
);
const FIXED_OF_VERSION: [(&str, &str); 5] = [
    VALUE_TYPE_OF_VERSION,
    FIXED_IDENTITY,
    FIXED_KEEP,
    FIXED_BUCKET,
    ("version", "a version cannot be renamed: create another version"),
];

impl<'a> AddItemsInput<'a> {
    /// Items of one add.
    pub const ITEMS_MAX: usize = crate::domain::ADD_ITEMS_MAX;

    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        add_body::parse(body).map(|items| Self { items })
    }
}

impl FeatureInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let known = [
            "entity_type",
            "name",
            "value_type",
            "ttl",
            "max_items",
            "timestamp_ahead_max",
            "identity",
            "keep",
            "bucket",
            "description",
            "owner",
            "labels",
        ];
        let object = Object::read(body, &known, &[])?;
        let (identity, keep) = identity(&object)?;
        Ok(Self {
            identity,
            keep,
            bucket: read_bucket(&object)?,
            entity_type: object.required("entity_type", EntityType::new)?,
            name: object.required("name", FeatureName::new)?,
            value_type: object.required("value_type", ValueType::parse)?,
            ttl: object.required("ttl", Ttl::parse)?,
            max_items: read_max_items(&object)?,
            timestamp_ahead_max: read_ahead_max(&object)?,
            description: object.optional("description", |text| Description::new(text))?,
            owner: object.optional("owner", |text| Owner::new(text))?,
            labels: object.optional_map("labels", Labels::new)?,
        })
    }
}

impl FeaturePatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let known = ["ttl", "max_items", "timestamp_ahead_max", "description", "owner", "labels"];
        let object = Object::read(body, &known, &FIXED_OF_FEATURE)?;
        Ok(Self {
            ttl: object.optional("ttl", Ttl::parse)?,
            max_items: read_max_items(&object)?,
            timestamp_ahead_max: read_ahead_max(&object)?,
            description: object.optional("description", |text| Description::new(text))?,
            owner: object.optional("owner", |text| Owner::new(text))?,
            labels: object.optional_map("labels", Labels::new)?,
        })
    }

    pub fn is_empty(&self) -> bool {
        let Self { ttl, max_items, timestamp_ahead_max, description, owner, labels } = self;
        let bounds = max_items.is_absent() && timestamp_ahead_max.is_absent();
        ttl.is_none() && bounds && description.is_none() && owner.is_none() && labels.is_none()
    }
}

impl VersionInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let known = ["version", "ttl", "max_items", "timestamp_ahead_max", "identity", "keep", "bucket", "description"];
        let object = Object::read(body, &known, &[VALUE_TYPE_OF_VERSION])?;
        let (identity, keep) = identity(&object)?;
        Ok(Self {
            identity,
            keep,
            bucket: read_bucket(&object)?,
            version: object.required("version", VersionLabel::new)?,
            ttl: object.optional("ttl", Ttl::parse)?,
            max_items: read_max_items(&object)?,
            timestamp_ahead_max: read_ahead_max(&object)?,
            description: object.optional("description", |text| Description::new(text))?,
        })
    }
}

impl VersionPatch {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object =
            Object::read(body, &["ttl", "max_items", "timestamp_ahead_max", "description"], &FIXED_OF_VERSION)?;
        Ok(Self {
            ttl: object.optional("ttl", Ttl::parse)?,
            max_items: read_max_items(&object)?,
            timestamp_ahead_max: read_ahead_max(&object)?,
            description: object.optional("description", |text| Description::new(text))?,
        })
    }

    pub fn is_empty(&self) -> bool {
        let Self { ttl, max_items, timestamp_ahead_max, description } = self;
        ttl.is_none() && max_items.is_absent() && timestamp_ahead_max.is_absent() && description.is_none()
    }
}

impl BackupInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let object = Object::read(body, &["dir"], &[])?;
        Ok(Self { dir: object.required("dir", absolute)? })
    }
}

/// What is said of the identity of items.
fn identity(object: &Object<'_>) -> Result<(Option<IdentityKind>, Option<Keep>), Problem> {
    Ok((object.optional("identity", IdentityKind::parse)?, object.optional("keep", Keep::parse)?))
}

fn absolute(text: &str) -> Result<PathBuf, Invalid> {
    let dir = PathBuf::from(text);
    if !dir.is_absolute() || text.contains('\0') {
        return Err(Invalid::argument("dir must be an absolute path on the server's machine"));
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;
    use crate::domain::Timestamp;

    /// What a client writes of a body, which the server must read as the same.
    fn sent(body: &impl Serialize) -> Vec<u8> {
        serde_json::to_vec(body).unwrap()
    }

    #[test]
    fn what_a_client_writes_the_server_reads_as_the_same() {
        let labels = Labels::new(BTreeMap::from([("team".to_owned(), "feed \"1\"".to_owned())])).unwrap();
        let input = FeatureInput {
            entity_type: EntityType::new("user").unwrap(),
            name: FeatureName::new("seen").unwrap(),
            value_type: ValueType::Json,
            ttl: Ttl::parse("90m").unwrap(),
            max_items: MaxItemsInput::AtMost(MaxItems::MAX),
            timestamp_ahead_max: AheadMaxInput::Own(AheadMax::Unbounded),
            identity: Some(IdentityKind::Key),
            keep: Some(Keep::Oldest),
            bucket: BucketInput::By(Bucket::Week),
            description: Some(Description::new("é\n").unwrap()),
            owner: None,
            labels: Some(labels),
        };
        let read = FeatureInput::read(&sent(&input)).unwrap();
        assert_eq!((read.entity_type, read.name), (input.entity_type, input.name));
        assert_eq!((read.value_type, read.ttl, read.max_items), (input.value_type, input.ttl, input.max_items));
        assert_eq!(read.timestamp_ahead_max, input.timestamp_ahead_max);
        assert_eq!((read.identity, read.keep, read.bucket), (input.identity, input.keep, input.bucket));
        assert_eq!((read.description, read.owner, read.labels), (input.description, input.owner, input.labels));

        let patch = FeaturePatch { ttl: Ttl::parse("1d").ok(), ..FeaturePatch::default() };
        assert_eq!(sent(&patch), br#"{"ttl":"1d"}"#);
        assert_eq!(FeaturePatch::read(&sent(&patch)).unwrap().ttl, patch.ttl);
        assert!(FeaturePatch::read(b"{}").unwrap().is_empty() && VersionPatch::read(b"{}").unwrap().is_empty());

        let patch = FeaturePatch { max_items: MaxItemsInput::Unbounded, ..FeaturePatch::default() };
        assert_eq!(sent(&patch), br#"{"max_items":null}"#);
        assert_eq!(FeaturePatch::read(&sent(&patch)).unwrap().max_items, patch.max_items);

        let version = VersionLabel::new("a/b").unwrap();
        let version = VersionInput {
            version,
            ttl: None,
            max_items: MaxItemsInput::Absent,
            timestamp_ahead_max: AheadMaxInput::OfServer,
            identity: None,
            keep: None,
            bucket: BucketInput::None,
            description: None,
        };
        let read = VersionInput::read(&sent(&version)).unwrap();
        assert_eq!((read.version, read.bucket), (version.version, version.bucket));
        assert_eq!(read.timestamp_ahead_max, version.timestamp_ahead_max);

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
        let read = |body: &[u8]| VersionPatch::read(body).unwrap().max_items;
        assert_eq!(read(br#"{"max_items":100000}"#), MaxItemsInput::AtMost(MaxItems::MAX));
        assert_eq!((read(br#"{"max_items":null}"#), read(b"{}")), (MaxItemsInput::Unbounded, MaxItemsInput::Absent));
    }

    #[test]
    fn how_far_ahead_is_a_duration_or_none_or_null() {
        for bad in ["\"\"", "\"1 day\"", "\"0s\"", "\"7301d\"", "\"None\"", "86400", "true", "[\"1d\"]"] {
            let body = format!("{{\"timestamp_ahead_max\":{bad}}}");
            let refused = VersionPatch::read(body.as_bytes()).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("timestamp_ahead_max"), "{bad}");
        }
        let read = |body: &[u8]| VersionPatch::read(body).unwrap().timestamp_ahead_max;
        assert_eq!(read(br#"{"timestamp_ahead_max":"24h"}"#), AheadMaxInput::Own(AheadMax::DAY));
        assert_eq!(read(br#"{"timestamp_ahead_max":"none"}"#), AheadMaxInput::Own(AheadMax::Unbounded));
        assert_eq!(
            (read(br#"{"timestamp_ahead_max":null}"#), read(b"{}")),
            (AheadMaxInput::OfServer, AheadMaxInput::Absent)
        );
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
