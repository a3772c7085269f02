//! The bodies of requests and answers, as the OpenAPI document describes them.
//!
//! Small answers are rendered from these types. Definitions are rendered from the domain's types,
//! and pages of items without any: tests hold every answer to what is written here.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// What a name may be made of.
const NAME: &str = r"^(?!\.{1,2}$)[A-Za-z0-9_.\-]{1,128}$";
/// What a version label may be made of.
const LABEL: &str = r"^(?!\.{1,2}$)[A-Za-z0-9_./:\-]{0,64}$";
/// Whole numbers with units, the largest first.
const TTL: &str = r"^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$";
const TIMESTAMP: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z$";
/// RFC 3339 with up to nine decimals, or digits.
const TIMESTAMP_INPUT: &str =
    r"^([0-9]{1,19}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+\-][0-9]{2}:[0-9]{2}))$";

/// A page of items, newest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is rendered straight from stored bytes")]
pub struct ItemPage {
    items: Vec<Item>,
    /// There exactly when at least one more item was there at that moment.
    #[schema(pattern = "^[A-Za-z0-9_\\-]+$", required = false)]
    next_page_token: String,
}

/// An item of a list.
#[derive(ToSchema)]
#[schema(example = json!({"timestamp": "2024-08-29T16:44:05.430000000Z", "value": "story-17"}))]
#[expect(dead_code, reason = "describes what is rendered straight from stored bytes")]
pub struct Item {
    #[schema(inline)]
    timestamp: Timestamp,
    /// The JSON of the feature's value type.
    value: serde_json::Value,
}

/// Items to add, all or none.
#[derive(ToSchema)]
#[schema(example = json!({"items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}]}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct AddItems {
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<NewItem>,
}

/// An item to add.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct NewItem {
    #[schema(inline)]
    timestamp: TimestampInput,
    /// The JSON of the feature's value type: `bytes` as standard Base64, `int64` as a number or a
    /// decimal string. At most 64,000 bytes as it is stored.
    value: serde_json::Value,
}

/// What became of an add: together as many items as were sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"added": 1, "already_expired": 0}))]
pub struct Added {
    pub added: usize,
    pub already_expired: usize,
}

/// A value whose items are to go.
#[derive(ToSchema)]
#[schema(example = json!({"value": "story-17"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct RemoveItems {
    value: serde_json::Value,
}

/// How many visible items were removed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"removed": 1}))]
pub struct Removed {
    pub removed: u64,
}

/// Where a backup is to go.
#[derive(ToSchema)]
#[schema(example = json!({"dir": "/var/backups/liststore/2024-08-29"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct NewBackup {
    /// An absolute path on the server's machine: of an empty directory, or of one to be made in a
    /// directory that is there.
    #[schema(pattern = "^/")]
    dir: String,
}

/// A backup that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct Backup {
    pub dir: String,
    pub data_files: u64,
    pub data_bytes: u64,
    /// Of the data files, those that were copied, since hard links to them could not be made.
    pub copied_files: u64,
    pub log_segments: u64,
    pub log_bytes: u64,
    /// Whether the definitions are in it. They are not where they live in Postgres: dump that
    /// database after this backup.
    pub definitions: bool,
    pub seconds: f64,
}

/// The type of a feature's values. It never changes.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes the domain's type, which knows no OpenAPI")]
pub enum ValueType {
    String,
    Int64,
    Double,
    Bool,
    Bytes,
    Json,
}

/// Text for people: anything but NUL, which is no database text. (Derived schemas take a literal.)
const NO_NUL: &str = "^[^\\u0000]*$";

/// What a feature is created from.
#[derive(ToSchema)]
#[schema(example = json!({"entity_type": "user", "name": "story_presented", "value_type": "string", "ttl": "30d"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct NewFeature {
    #[schema(inline)]
    entity_type: Name,
    #[schema(inline)]
    name: Name,
    value_type: ValueType,
    #[schema(inline)]
    ttl: Ttl,
    #[schema(max_length = 2000, pattern = "^[^\\u0000]*$", required = false)]
    description: String,
    #[schema(max_length = 200, pattern = "^[^\\u0000]*$", required = false)]
    owner: String,
    #[schema(inline, required = false)]
    labels: Labels,
}

/// What is to change; absent fields stay.
#[derive(ToSchema)]
#[schema(example = json!({"ttl": "7d", "owner": "feed team"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct FeaturePatch {
    #[schema(inline, required = false)]
    ttl: Ttl,
    #[schema(max_length = 2000, pattern = "^[^\\u0000]*$", required = false)]
    description: String,
    #[schema(max_length = 200, pattern = "^[^\\u0000]*$", required = false)]
    owner: String,
    #[schema(inline, required = false)]
    labels: Labels,
}

/// A list feature with all its versions, the default one first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the domain's type, which knows no OpenAPI")]
pub struct Feature {
    #[schema(inline)]
    entity_type: Name,
    #[schema(inline)]
    name: Name,
    value_type: ValueType,
    #[schema(inline)]
    ttl: Ttl,
    description: String,
    owner: String,
    #[schema(inline)]
    labels: Labels,
    #[schema(min_items = 1)]
    versions: Vec<FeatureVersion>,
    #[schema(inline)]
    created_at: Timestamp,
    #[schema(inline)]
    updated_at: Timestamp,
}

/// What a version is created from. Without a `ttl` it copies the feature's present one.
#[derive(ToSchema)]
#[schema(example = json!({"version": "v2", "ttl": "7d"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct NewVersion {
    #[schema(inline)]
    version: Label,
    #[schema(inline, required = false)]
    ttl: Ttl,
    #[schema(max_length = 2000, pattern = "^[^\\u0000]*$", required = false)]
    description: String,
}

/// What is to change; absent fields stay.
#[derive(ToSchema)]
#[schema(example = json!({"ttl": "14d"}))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes a body that is read by a parser of its own")]
pub struct VersionPatch {
    #[schema(inline, required = false)]
    ttl: Ttl,
    #[schema(max_length = 2000, pattern = "^[^\\u0000]*$", required = false)]
    description: String,
}

/// A version of a feature.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the domain's type, which knows no OpenAPI")]
pub struct FeatureVersion {
    #[schema(inline)]
    version: Label,
    #[schema(inline)]
    ttl: Ttl,
    description: String,
    #[schema(inline)]
    created_at: Timestamp,
}

/// A page of features, ordered by entity type, then by name.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the domain's type, which knows no OpenAPI")]
pub struct FeaturePage {
    features: Vec<Feature>,
    #[schema(pattern = "^[A-Za-z0-9_\\-]+$", required = false)]
    next_page_token: String,
}

/// What a deletion leaves behind.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"items_expire_by": "2024-09-28T16:44:10.430000000Z"}))]
pub struct Deleted {
    /// When the last items are gone from the store: an estimate. An item dated in the future lives
    /// as much longer.
    pub items_expire_by: String,
}

/// A page of an audit trail, newest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what another type renders")]
pub struct HistoryPage {
    history: Vec<Change>,
    #[schema(pattern = "^[A-Za-z0-9_\\-]+$", required = false)]
    next_page_token: String,
}

/// A change to a feature or to one of its versions.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what another type renders")]
pub struct Change {
    #[schema(inline)]
    at: Timestamp,
    /// The `Liststore-User` of the request, or `anonymous`.
    by: String,
    action: Action,
    /// The version that was created, changed or deleted.
    #[schema(required = false)]
    version: String,
    /// The feature or version before the change; absent for a creation.
    #[schema(required = false)]
    before: Definition,
    /// The feature or version since the change; absent for a deletion.
    #[schema(required = false)]
    after: Definition,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the control plane's type, which knows no OpenAPI")]
pub enum Action {
    CreateFeature,
    UpdateFeature,
    DeleteFeature,
    CreateVersion,
    UpdateVersion,
    DeleteVersion,
}

/// A feature or a version, as it was then.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the domain's type, which knows no OpenAPI")]
pub enum Definition {
    Feature(Feature),
    Version(FeatureVersion),
}

/// Problem details (RFC 9457).
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what another type renders")]
pub struct Problem {
    /// `urn:liststore:problem:` and the code.
    r#type: String,
    title: String,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// Stable: what to branch on.
    code: String,
    /// For people: what would have been accepted, or what to do.
    detail: String,
    /// Whether the same request may succeed later, unchanged.
    retryable: bool,
    /// The member, parameter or header to blame, such as `items[3].timestamp`.
    #[schema(required = false)]
    field: String,
    /// There, and true, when a write may have been carried out all the same, now or later.
    #[schema(required = false)]
    outcome_unknown: bool,
}

/// Health: the worst of its checks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "pass", "checks": {"item_store": "pass", "catalog": "pass"}}))]
pub struct Health {
    pub status: Check,
    pub checks: BTreeMap<&'static str, Check>,
    /// Why a check does not pass, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<&'static str, String>,
}

/// Ordered from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    Pass,
    Warn,
    Fail,
}

fn text(pattern: &str, description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .pattern(Some(pattern))
        .description(Some(description))
        .examples([json!(example)])
        .into()
}

/// Texts that have a form of their own.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident => $pattern:expr, $description:literal, $example:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                text($pattern, $description, $example)
            }
        }

        impl ToSchema for $name {}
    )*};
}

texts! {
    /// An entity type or a feature's name.
    Name => NAME, "1 to 128 characters of A-Z a-z 0-9 _ . -, not \".\" or \"..\".", "story_presented";
    /// The label of a version.
    Label => LABEL, "0 to 64 characters of A-Z a-z 0-9 _ . / : -, not \".\" or \"..\"; empty is the default version.", "v2";
    /// A time to live.
    Ttl => TTL, "From 1s to 7300d; on output normalised, the largest unit first.", "30d";
    /// A moment, as it may be sent in a text.
    TimestampText => TIMESTAMP_INPUT, "RFC 3339 with up to nine decimals and any offset, or nanoseconds since the Unix epoch as digits.", "2024-08-29T16:44:05.43Z";
    /// A moment, as it is returned.
    Timestamp => TIMESTAMP, "RFC 3339 in UTC with nine decimals.", "2024-08-29T16:44:05.430000000Z";
}

/// A moment, as it may be sent.
pub struct TimestampInput;

impl PartialSchema for TimestampInput {
    fn schema() -> RefOr<Schema> {
        const MAX: usize = 9_999_999_999_999_999_999;
        let integer = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .minimum(Some(0_usize))
            .maximum(Some(MAX))
            .description(Some("Nanoseconds since the Unix epoch."));
        OneOfBuilder::new().item(TimestampText::schema()).item(integer).into()
    }
}

impl ToSchema for TimestampInput {}

/// Labels of a feature.
pub struct Labels;

impl PartialSchema for Labels {
    fn schema() -> RefOr<Schema> {
        let string = |min: usize, max: usize| {
            ObjectBuilder::new()
                .schema_type(SchemaType::Type(Type::String))
                .min_length(Some(min))
                .max_length(Some(max))
                .pattern(Some(NO_NUL))
                .build()
        };
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Object))
            .max_properties(Some(64))
            .property_names(Some(Schema::from(string(1, 63))))
            .additional_properties(Some(Schema::from(string(0, 255))))
            .examples([json!({"team": "feed"})])
            .into()
    }
}

impl ToSchema for Labels {}

/// Whole milliseconds: with no upper bound, unlike any integer format.
pub struct Millis;

impl PartialSchema for Millis {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer)).minimum(Some(1_usize)).into()
    }
}

impl ToSchema for Millis {}
