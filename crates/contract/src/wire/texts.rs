//! The schemas of texts and numbers with a special form.
//!
//! Patterns are valid in both ECMA-262 and RE2, without look-ahead, so that generated clients can use them in any
//! language. Patterns of replies have no backslash: openapi-generator 7.14 escapes it twice in Go.

use std::borrow::Cow;

use serde_json::json;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::domain;

/// 1 to 128 characters, but neither `.` nor `..`.
const NAME: &str = r"^([A-Za-z0-9_-]|[.][A-Za-z0-9_-]|[.][.][A-Za-z0-9_.-])[A-Za-z0-9_.-]*$";
/// 0 to 64 characters, but neither `.` nor `..`.
const LABEL: &str = r"^(([A-Za-z0-9_/:-]|[.][A-Za-z0-9_/:-]|[.][.][A-Za-z0-9_./:-])[A-Za-z0-9_./:-]*)?$";
/// The same, of 1 character at least.
const INDEX_NAME: &str = r"^([A-Za-z0-9_/:-]|[.][A-Za-z0-9_/:-]|[.][.][A-Za-z0-9_./:-])[A-Za-z0-9_./:-]*$";
/// `*`, or two names, of which each may end with a star, and be only a star. A slash is between names with dots.
const SCOPE: &str =
    r"^([*]|([A-Za-z0-9_-]+[*]?|[*])[.]([A-Za-z0-9_-]+[*]?|[*])|([A-Za-z0-9_.-]+[*]?|[*])/([A-Za-z0-9_.-]+[*]?|[*]))$";
/// RFC 6901, section 3.
const POINTER: &str = r"^(/([^/~]|~[01])*)+$";
/// 1 to 512 bytes without NUL, but neither `.` nor `..`.
const ENTITY_ID: &str = r"^([^.\x00]|\.[^.\x00]|\.\.[^\x00])[^\x00]*$";
/// Whole numbers with units, the largest first.
const TTL: &str = r"^(0*[1-9][0-9]*y([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?|([0-9]+y)?0*[1-9][0-9]*w([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?|([0-9]+y)?([0-9]+w)?0*[1-9][0-9]*d([0-9]+h)?([0-9]+m)?([0-9]+s)?|([0-9]+y)?([0-9]+w)?([0-9]+d)?0*[1-9][0-9]*h([0-9]+m)?([0-9]+s)?|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?0*[1-9][0-9]*m([0-9]+s)?|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?0*[1-9][0-9]*s)$";
/// The same, or `none`.
fn ahead_max_pattern() -> String {
    format!("^(none|{})$", TTL.trim_start_matches('^').trim_end_matches('$'))
}

const TIMESTAMP: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{9}Z$";
/// RFC 3339 with up to nine decimals, or digits.
const TIMESTAMP_INPUT: &str =
    r"^([0-9]{1,19}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))$";

/// Text for people: anything except NUL, which databases reject. (Derived schemas require a literal.)
const NO_NUL: &str = r"^[^\x00]*$";

/// The type of a feature's values. Cannot be changed.
pub struct ValueType;

impl PartialSchema for ValueType {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("The type of a feature's values. Cannot be changed."))
            .enum_values(Some(domain::ValueType::ALL.map(domain::ValueType::as_str)))
            .into()
    }
}

impl ToSchema for ValueType {}

/// A role of a key.
pub struct Role;

impl PartialSchema for Role {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("A named bundle of permissions."))
            .enum_values(Some(domain::Role::ALL.map(domain::Role::as_str)))
            .into()
    }
}

impl ToSchema for Role {}

/// Which end of a list comes first.
pub struct Order;

impl PartialSchema for Order {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("Which end of the list comes first; default `newest`."))
            .enum_values(Some(domain::Order::ALL.map(domain::Order::as_str)))
            .into()
    }
}

impl ToSchema for Order {}

/// Of which requests the log has a line.
pub struct AccessLog;

impl PartialSchema for AccessLog {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("Which requests are logged: none, those with a status of 400 or above, or all."))
            .enum_values(Some(domain::AccessLog::ALL.map(domain::AccessLog::as_str)))
            .into()
    }
}

impl ToSchema for AccessLog {}
/// What identifies an item of a list. Cannot be changed.
pub struct Identity;

impl PartialSchema for Identity {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some(
                "What identifies an item: its timestamp and value (item), or a value (value) or key (key) that occurs \
                 once per list. Cannot be changed.",
            ))
            .enum_values(Some(domain::IdentityKind::ALL.map(domain::IdentityKind::as_str)))
            .into()
    }
}

impl ToSchema for Identity {}

/// Of which period a partition of a list holds the items. It never changes.
pub struct Bucket;

impl PartialSchema for Bucket {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some(
                "The period (UTC) of the items in one partition of a list on ScyllaDB and Cassandra. Other stores \
                 ignore it. Cannot be changed.",
            ))
            .enum_values(Some(domain::Bucket::ALL.map(domain::Bucket::as_str)))
            .into()
    }
}

impl ToSchema for Bucket {}

/// The same in a request, where `null` stands for none.
pub struct BucketOrNull;

impl PartialSchema for BucketOrNull {
    fn schema() -> RefOr<Schema> {
        let buckets = domain::Bucket::ALL.map(|bucket| json!(bucket.as_str()));
        ObjectBuilder::new()
            .schema_type(text_or_null())
            .description(Some(
                "The period of the items in one partition of a list on ScyllaDB and Cassandra; `null` for none. Cannot \
                 be changed.",
            ))
            .enum_values(Some(buckets.into_iter().chain([json!(null)])))
            .into()
    }
}

impl ToSchema for BucketOrNull {}

/// How integers are written. Its schema stands in place: in Go, constants of two named types would have one name.
pub struct Int64As;

impl PartialSchema for Int64As {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some(
                "How values of the type `int64` are written: as a JSON number (`number`) or as a string of decimal \
                 digits (`string`); default `number`, and for a further version the feature's. Many clients read numbers \
                 as doubles, which changes integers beyond 2^53.",
            ))
            .enum_values(Some(domain::Int64As::ALL.map(domain::Int64As::as_str)))
            .into()
    }
}

impl ToSchema for Int64As {}

/// Which item of a member stays.
pub struct Keep;

impl PartialSchema for Keep {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("Which item of a value or key is kept. Cannot be changed."))
            .enum_values(Some(domain::Keep::ALL.map(domain::Keep::as_str)))
            .into()
    }
}

impl ToSchema for Keep {}

/// One type with null: generators make an optional text of it, while a choice between two schemas becomes a class.
fn text_or_null() -> SchemaType {
    SchemaType::Array(vec![Type::String, Type::Null])
}

/// An empty pattern is none.
fn text(chars: (usize, usize), pattern: &str, description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .min_length(Some(chars.0))
        .max_length(Some(chars.1))
        .pattern((!pattern.is_empty()).then_some(pattern))
        .description(Some(description))
        .examples([json!(example)])
        .into()
}

/// Texts with a special form.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident => $chars:expr, $pattern:expr, $description:literal, $example:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                text($chars, $pattern, $description, $example)
            }
        }

        impl ToSchema for $name {}
    )*};
}

texts! {
    /// An entity type or a feature's name.
    Name => (1, 128), NAME, "1 to 128 characters of A-Z a-z 0-9 _ . -, not \".\" or \"..\".", "story_presented";
    /// The label of a version.
    Label => (0, 64), LABEL, "0 to 64 characters of A-Z a-z 0-9 _ . / : -, not \".\" or \"..\"; empty is the default version.", "v2";
    /// The name of an index.
    IndexName => (1, 64), INDEX_NAME, "1 to 64 characters of A-Z a-z 0-9 _ . / : -, not \".\" or \"..\".", "by_country";
    /// A JSON Pointer to a property.
    Pointer => (1, 512), POINTER, "A JSON Pointer (RFC 6901) to a property.", "/country";
    /// An entity.
    EntityId => (1, 512), ENTITY_ID, "1 to 512 bytes of UTF-8 without NUL, not \".\" or \"..\".", "u-123";
    /// The same in a reply. A pattern against NUL needs a backslash.
    EntityIdShown => (1, 512), "", "1 to 512 bytes of UTF-8 without NUL, not \".\" or \"..\".", "u-123";
    /// What identifies a keyed item.
    MemberKey => (1, 512), "", "Identifies an item if the feature has the identity key (and only then): 1 \
                                           to 512 bytes of UTF-8 without NUL.", "u-123";
    /// The public part of an API key.
    KeyIdText => (12, 12), "^[0-9a-z]{12}$", "12 characters of 0-9 a-z.", "4k7p2m9x0qzr";
    /// What names a job.
    JobIdText => (32, 32), "^[0-9a-f]{32}$", "32 digits of 0-9 a-f.", "01a204fa8a3770468e3f40d93b3ec28c";
    /// What an API key is called.
    KeyName => (1, 64), r"^[A-Za-z0-9_.-]+$", "1 to 64 characters of A-Z a-z 0-9 _ . -.", "feed";
    /// Features that a key is limited to.
    Scope => (1, 259), SCOPE, "*, or an entity type and a feature, such as user.*, customer.purchase or user.story_*. \
                               Use a slash instead of the dot if a name contains dots.", "user.*";
    /// A time to live.
    Ttl => (2, domain::Ttl::CHARS_MAX), TTL, "From 1s to 7300d. Normalised on output, largest unit first.", "30d";
    /// How far a timestamp may be ahead of the server's clock.
    AheadMax => (2, domain::Ttl::CHARS_MAX), &ahead_max_pattern(), "From 1s to 7300d, or none for any time; on output normalised, the largest unit first.", "2d";
    /// A moment, as it may be sent in a text.
    TimestampText => (1, 35), TIMESTAMP_INPUT, "RFC 3339 with up to nine decimals and any offset, or nanoseconds since the Unix epoch as digits.", "2024-08-29T16:44:05.43Z";
    /// The moment of an expiry, as it is returned.
    ExpiryEstimate => (30, 30), TIMESTAMP, "Estimated time at which the last items leave the store. Items with future \
                                            timestamps live correspondingly longer.", "2024-09-28T16:44:10.430000000Z";
    /// A moment, as it is returned.
    Timestamp => (30, 30), TIMESTAMP, "RFC 3339 in UTC with nine decimals.", "2024-08-29T16:44:05.430000000Z";
}

/// The same in a request, where `null` leaves it to the server.
pub struct AheadMaxOrNull;

impl PartialSchema for AheadMaxOrNull {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(text_or_null())
            .min_length(Some(2))
            .max_length(Some(domain::Ttl::CHARS_MAX))
            .pattern(Some(ahead_max_pattern()))
            .description(Some(
                "Maximum lead of an added item's timestamp over the server's clock, such as `1d`; `none` for no limit, \
                 `null` for the server's setting.",
            ))
            .into()
    }
}

impl ToSchema for AheadMaxOrNull {}

/// A moment, as it may be sent.
///
/// The schema has no type. A choice between two types becomes a class in most languages, and one named `Timestamp`
/// does not compile in Java. Without a type, clients pass a string or an integer as it is.
pub struct TimestampInput;

impl PartialSchema for TimestampInput {
    fn schema() -> RefOr<Schema> {
        const MAX: usize = 9_999_999_999_999_999_999;
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .min_length(Some(1))
            .max_length(Some(35))
            .pattern(Some(TIMESTAMP_INPUT))
            .minimum(Some(0_usize))
            .maximum(Some(MAX))
            .description(Some(
                "A string with RFC 3339 (up to nine decimals, any offset) or with the digits of the nanoseconds since \
                 the Unix epoch, or an integer of these nanoseconds. Use a string if your language reads numbers as \
                 doubles.",
            ))
            .examples([json!("2024-08-29T16:44:05.43Z")])
            .into()
    }
}

impl ToSchema for TimestampInput {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Timestamp")
    }
}

/// A moment of a batch: an invalid one is a problem of its request only, so the schema allows any text.
pub struct AnyTimestamp;

impl PartialSchema for AnyTimestamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .description(Some("As in other requests. An invalid one is a problem of its request only."))
            .examples([json!("2024-08-29T16:44:05.43Z")])
            .into()
    }
}

impl ToSchema for AnyTimestamp {}

/// A bound of a removal. It has a type, so that a removal without it is another form in Python, too.
pub struct RemovalBound;

impl PartialSchema for RemovalBound {
    fn schema() -> RefOr<Schema> {
        const MAX: usize = 9_223_372_036_854_775_807;
        let integer = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0_usize))
            .maximum(Some(MAX))
            .description(Some("Nanoseconds since the Unix epoch. Send later times as digits."));
        OneOfBuilder::new()
            .item(TimestampText::schema())
            .item(integer)
            .description(Some("Inclusive: RFC 3339, or nanoseconds since the Unix epoch."))
            .into()
    }
}

impl ToSchema for RemovalBound {}

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

/// The largest number of lists that are returned with one bag.
pub const JOINED_LISTS_MAX: usize = 16;

/// Lists that are returned with a bag.
pub struct JoinedLists;

impl PartialSchema for JoinedLists {
    fn schema() -> RefOr<Schema> {
        let list = "[A-Za-z0-9_.-]{1,128}(:[0-9]{1,5})?";
        let more = JOINED_LISTS_MAX - 1;
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .pattern(Some(format!("^{list}(,{list}){{0,{more}}}$")))
            .into()
    }
}

/// Whole milliseconds.
pub struct Millis;

impl PartialSchema for Millis {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            // Without a format, which would set an end: any number that is too large means no limit.
            .schema_type(SchemaType::Type(Type::Integer))
            .minimum(Some(1_usize))
            .into()
    }
}

impl ToSchema for Millis {}
