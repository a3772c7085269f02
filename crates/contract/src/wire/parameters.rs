//! The parameters of operations: the values that a path, a query or a header can have in addition to the body.

use utoipa::PartialSchema;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

use super::texts::{self, EntityId, IndexName, JobIdText, KeyIdText, Label, Millis, Name, TimestampText};
use crate::domain::{Author, Limit};

/// A parameter of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    pub name: &'static str,
    pub description: &'static str,
    pub schema: fn() -> RefOr<Schema>,
    pub example: Option<&'static str>,
    pub may_be_empty: bool,
    /// Whether it may be given several times.
    pub repeats: bool,
}

impl Parameter {
    const fn new(name: &'static str, description: &'static str, schema: fn() -> RefOr<Schema>) -> Self {
        Self { name, description, schema, example: None, may_be_empty: false, repeats: false }
    }

    const fn with_example(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }
}

/// The values of variable segments of a path, by their names in its template.
pub const PATH: [Parameter; 8] = [
    Parameter::new("index", "The index's name, percent-encoded.", IndexName::schema).with_example("by_country"),
    Parameter::new("key_id", "The public part of the key.", KeyIdText::schema).with_example("4k7p2m9x0qzr"),
    Parameter::new("job_id", "The job's ID.", JobIdText::schema).with_example("01a204fa8a3770468e3f40d93b3ec28c"),
    Parameter::new("entity_type", "The kind of the entity.", Name::schema).with_example("user"),
    Parameter::new("feature", "The feature's name.", Name::schema).with_example("story_presented"),
    Parameter::new("name", "The feature's name.", Name::schema).with_example("story_presented"),
    Parameter::new(
        "entity_id",
        "The entity: 1 to 512 bytes of UTF-8 without NUL, not `.` or `..`, percent-encoded.",
        EntityId::schema,
    )
    .with_example("u-123"),
    Parameter::new(
        "version",
        "The label, percent-encoded. An empty label (the path ends with a slash) is the default version.",
        Label::schema,
    )
    .with_example("v2"),
];

/// The feature version of a list.
pub const VERSION: Parameter = Parameter {
    may_be_empty: true,
    ..Parameter::new("version", "The feature version. Empty or absent means the default version.", Label::schema)
        .with_example("v2")
};
pub const MIN_TIMESTAMP: Parameter =
    Parameter::new("min_timestamp", "Inclusive: RFC 3339, or nanoseconds since the Unix epoch.", TimestampText::schema)
        .with_example("2024-08-29T16:44:05.43Z");
pub const MAX_TIMESTAMP: Parameter =
    Parameter::new("max_timestamp", "Inclusive: RFC 3339, or nanoseconds since the Unix epoch.", TimestampText::schema)
        .with_example("2024-08-30T00:00:00Z");
pub const AS_OF: Parameter = Parameter::new(
    "as_of",
    "Shows the list as of this time: items up to then that have not expired or been removed since. RFC 3339, or \
     nanoseconds since the Unix epoch; not in the future.",
    TimestampText::schema,
)
.with_example("2024-08-30T00:00:00Z");
pub const LIMIT: Parameter =
    Parameter::new("limit", "Maximum number of items; default 100. May change between pages.", || {
        whole_number(Limit::ITEMS_MAX)
    })
    .with_example("50");
pub const ORDER: Parameter =
    Parameter::new("order", "Which end of the list comes first; default `newest`.", texts::Order::schema)
        .with_example("oldest");
pub const COUNT_MAX: Parameter =
    Parameter::new("max", "Maximum count; default 10000.", || whole_number(Limit::COUNT_MAX)).with_example("1000");
pub const PAGE_TOKEN: Parameter = Parameter::new(
    "page_token",
    "The `next_page_token` of the previous page, with the same path and parameters.",
    not_empty,
);
pub const PAGE_SIZE: Parameter =
    Parameter::new("page_size", "Maximum number of entries; default 100.", || whole_number(Limit::PAGE_SIZE_MAX))
        .with_example("50");
pub const ENTITY_TYPE: Parameter =
    Parameter::new("entity_type", "Only features of this entity type.", Name::schema).with_example("user");
pub const TEXT: Parameter = Parameter::new(
    "q",
    "Only features with this text in their name, description or owner, ignoring ASCII case.",
    not_empty,
)
.with_example("story");
/// The same of entity types.
pub const TYPE_TEXT: Parameter = Parameter {
    description: "Only entity types with this text in their name, description or owner, ignoring ASCII case.",
    ..TEXT
};
/// The lists that are returned with bags.
pub const JOINED_LISTS: Parameter = Parameter::new(
    "lists",
    "Features whose lists to include, at most 16, each with an optional maximum number of newest items (default 100). \
     Reads the default version.",
    texts::JoinedLists::schema,
)
.with_example("story_presented:10,purchase:5");

/// How the values of items are written.
pub const INT64_AS: Parameter = Parameter::new(
    "int64_as",
    "How to write values of the type `int64`: `number` or `string` (decimal digits); default as the feature version is \
     defined. Ask for `string` if your JSON reader holds numbers in doubles.",
    texts::Int64As::schema,
)
.with_example("string");

/// The values that bags are found by, each as JSON.
pub const VALUE: Parameter = Parameter {
    repeats: true,
    ..Parameter::new(
        "value",
        "One value for each property of the index, in order: the JSON text of a string (with quotation marks), number, \
         `true`, `false` or `null`. `1` and `\"1\"` differ; `1` and `1.0` are equal.",
        texts_once_or_more,
    )
};
pub const MIN: Parameter = Parameter::new(
    "min",
    "Inclusive bound of the index order: a number or an RFC 3339 time; without `order_by`, a timestamp.",
    not_empty,
)
.with_example("2024-08-29T16:44:05.43Z");
pub const MAX: Parameter = Parameter { name: "max", ..MIN };
pub const BAGS_LIMIT: Parameter =
    Parameter { name: "limit", description: "Maximum number of bags; default 100.", ..PAGE_SIZE };

pub const AUDIT_BY: Parameter =
    Parameter::new("by", "Only changes by or on behalf of this name.", not_empty).with_example("key:feed");
pub const AUDIT_TARGET: Parameter = Parameter::new(
    "target",
    "Only changes of this target: a feature (`user.story_presented`), an entity type (`user`), a key (`key:feed`), a \
     part of a server (`pool`, `log`, `backup`) or a job (`job:01a204fa8a3770468e3f40d93b3ec28c`).",
    not_empty,
)
.with_example("user.story_presented");
pub const AUDIT_ACTION: Parameter =
    Parameter::new("action", "Only changes of this kind.", not_empty).with_example("create_key");
/// Whether the revocation of a key extends to the keys that it created.
pub const CREATED_KEYS: Parameter = Parameter::new(
    "created_keys",
    "Also revokes the keys that this key created, directly or through another key; default `false`.",
    boolean,
)
.with_example("true");
pub const SINCE: Parameter = Parameter::new(
    "since",
    "Inclusive: RFC 3339, or nanoseconds since the Unix epoch, by the clock of the server that made the change.",
    TimestampText::schema,
)
.with_example("2024-08-29T16:44:05.43Z");
pub const UNTIL: Parameter = Parameter { name: "until", ..SINCE };

pub const REQUEST_ID: Parameter = Parameter::new(
    "X-Request-Id",
    "1 to 128 visible ASCII characters, not a key or token; otherwise the server creates a new ID. Returned with the \
     response and logged with the request.",
    any_text,
);
pub const TIMEOUT: Parameter = Parameter::new(
    "Liststore-Timeout-Ms",
    "Shortens the operation's deadline, in milliseconds; never lengthens it.",
    Millis::schema,
)
.with_example("500");
pub const USER: Parameter =
    Parameter::new("Liststore-User", "The user's name, for the audit trail.", || text(Some((1, Author::CHARS_MAX))))
        .with_example("alice");
pub const IF_MATCH: Parameter =
    Parameter::new("If-Match", "Only if the current entity tag is one of these (RFC 9110, section 13.1.1).", any_text)
        .with_example("\"17\"");

pub const IF_NONE_MATCH: Parameter = Parameter::new(
    "If-None-Match",
    "Entity tags of responses that the caller has. If the current tag is among them, the response is 304 (RFC 9110, \
     section 13.1.2).",
    any_text,
)
.with_example("W/\"5e1f0c7a9b3d2468\"");

/// The same of bags, on which writes depend, too.
pub const BAG_IF_NONE_MATCH: Parameter = Parameter::new(
    "If-None-Match",
    "Entity tags, or `*` (RFC 9110, section 13.1.2). For a get: 304 if the bag has one of them. For a write: applied \
     only if the bag has none of them or, for `*`, if there is no bag.",
    any_text,
)
.with_example("*");

fn text(chars: Option<(usize, usize)>) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .min_length(chars.map(|(min, _)| min))
        .max_length(chars.map(|(_, max)| max))
        .into()
}

fn boolean() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::Boolean)).into()
}

fn any_text() -> RefOr<Schema> {
    text(None)
}

fn not_empty() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).min_length(Some(1)).into()
}

fn texts_once_or_more() -> RefOr<Schema> {
    ArrayBuilder::new().items(text(None)).min_items(Some(1)).into()
}

fn whole_number(max: usize) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Integer))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(1_usize))
        .maximum(Some(max))
        .into()
}
