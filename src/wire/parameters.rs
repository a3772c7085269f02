//! The parameters of operations: what a path, a query or a header may say beside the body.

use utoipa::PartialSchema;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

use super::texts::{self, EntityId, IndexName, JobIdText, KeyIdText, Label, Millis, Name, TimestampText};
use crate::domain::{Author, Limit};

/// A parameter that an operation takes.
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

/// What variable segments of a path may be, by their names in its template.
pub const PATH: [Parameter; 8] = [
    Parameter::new("index", "The index's name, percent-encoded.", IndexName::schema).with_example("by_country"),
    Parameter::new("key_id", "The public part of the key.", KeyIdText::schema).with_example("4k7p2m9x0qzr"),
    Parameter::new("job_id", "The job's id, as it was answered.", JobIdText::schema)
        .with_example("01a204fa8a3770468e3f40d93b3ec28c"),
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
        "The label, percent-encoded; empty (the path ends with a slash) is the default version.",
        Label::schema,
    )
    .with_example("v2"),
];

/// The feature version of a list.
pub const VERSION: Parameter = Parameter {
    may_be_empty: true,
    ..Parameter::new("version", "The feature version; empty, or left out, is the default one.", Label::schema)
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
    "The list as a get at this moment would have shown it, as far as that is known still: items up to this moment that \
     have neither expired nor been removed since. RFC 3339, or nanoseconds since the Unix epoch; not in the future.",
    TimestampText::schema,
)
.with_example("2024-08-30T00:00:00Z");
pub const LIMIT: Parameter =
    Parameter::new("limit", "At most so many items; 100 if left out. May change during a walk.", || {
        whole_number(Limit::ITEMS_MAX)
    })
    .with_example("50");
pub const ORDER: Parameter =
    Parameter::new("order", "Which end of the list comes first; `newest` if left out.", texts::Order::schema)
        .with_example("oldest");
pub const COUNT_MAX: Parameter =
    Parameter::new("max", "Counts no further than this; 10000 if left out.", || whole_number(Limit::COUNT_MAX))
        .with_example("1000");
pub const PAGE_TOKEN: Parameter = Parameter::new(
    "page_token",
    "Goes on after the page that gave it as `next_page_token`, with the same path and parameters.",
    not_empty,
);
pub const PAGE_SIZE: Parameter =
    Parameter::new("page_size", "At most so many entries; 100 if left out.", || whole_number(Limit::PAGE_SIZE_MAX))
        .with_example("50");
pub const ENTITY_TYPE: Parameter =
    Parameter::new("entity_type", "Only features of this entity type.", Name::schema).with_example("user");
pub const TEXT: Parameter = Parameter::new(
    "q",
    "Only features with this text in their name, description or owner; ASCII case is ignored.",
    not_empty,
)
.with_example("story");
/// The same of entity types.
pub const TYPE_TEXT: Parameter = Parameter {
    description: "Only entity types with this text in their name, description or owner; ASCII case is ignored.",
    ..TEXT
};
/// The lists that come along with bags.
pub const JOINED_LISTS: Parameter = Parameter::new(
    "lists",
    "Features whose lists of the entity come along, at most 16, each with how many of its newest items at most (100 if \
     left out), of the default version.",
    texts::JoinedLists::schema,
)
.with_example("story_presented:10,purchase:5");

/// The values that bags are found by, each as JSON.
pub const VALUE: Parameter = Parameter {
    repeats: true,
    ..Parameter::new(
        "value",
        "Once for each property of the index, in their order: the JSON text of a string (in its quotation marks), number, \
         `true`, `false` or `null`. `1` and `\"1\"` are two values, `1` and `1.0` one.",
        texts_once_or_more,
    )
};
pub const MIN: Parameter = Parameter::new(
    "min",
    "Inclusive: of what the index is ordered by, a number or a time in RFC 3339; without `order_by`, a timestamp.",
    not_empty,
)
.with_example("2024-08-29T16:44:05.43Z");
pub const MAX: Parameter = Parameter { name: "max", ..MIN };
pub const BAGS_LIMIT: Parameter =
    Parameter { name: "limit", description: "At most so many bags; 100 if left out.", ..PAGE_SIZE };

pub const AUDIT_BY: Parameter =
    Parameter::new("by", "Only changes by, or on behalf of, whoever goes by this name.", not_empty)
        .with_example("key:feed");
pub const AUDIT_TARGET: Parameter = Parameter::new(
    "target",
    "Only changes of this: a feature, as `user.story_presented`, an entity type, as `user`, a key, as `key:feed`, or a part \
     of a server: `pool`, `log`, `backup`, or a job, as `job:01a204fa8a3770468e3f40d93b3ec28c`.",
    not_empty,
)
.with_example("user.story_presented");
pub const AUDIT_ACTION: Parameter =
    Parameter::new("action", "Only changes of this kind.", not_empty).with_example("create_key");
/// Whether the revocation of a key extends to the keys that it created.
pub const CREATED_KEYS: Parameter = Parameter::new(
    "created_keys",
    "Whether to revoke the keys that this key created too, and the keys that those created; `false` if left out.",
    boolean,
)
.with_example("true");
pub const SINCE: Parameter = Parameter::new(
    "since",
    "Inclusive: RFC 3339, or nanoseconds since the Unix epoch; by the clock of the server that made a change.",
    TimestampText::schema,
)
.with_example("2024-08-29T16:44:05.43Z");
pub const UNTIL: Parameter = Parameter { name: "until", ..SINCE };

pub const REQUEST_ID: Parameter = Parameter::new(
    "X-Request-Id",
    "1 to 128 visible ASCII characters, and no key or token; else a new one is made. Returned with the answer, and on \
     every line that the log has of the request.",
    any_text,
);
pub const TIMEOUT: Parameter = Parameter::new(
    "Liststore-Timeout-Ms",
    "Shortens the operation's deadline, in milliseconds; never lengthens it.",
    Millis::schema,
)
.with_example("500");
pub const USER: Parameter =
    Parameter::new("Liststore-User", "Who asks, for the audit trail.", || text(Some((1, Author::CHARS_MAX))))
        .with_example("alice");
pub const IF_MATCH: Parameter =
    Parameter::new("If-Match", "Only if the present entity tag is one of these (RFC 9110, section 13.1.1).", any_text)
        .with_example("\"17\"");

pub const IF_NONE_MATCH: Parameter = Parameter::new(
    "If-None-Match",
    "Entity tags that the caller has the answer of: if the present one is among them, 304 is all that is said (RFC \
     9110, section 13.1.2).",
    any_text,
)
.with_example("W/\"5e1f0c7a9b3d2468\"");

/// The same of bags, on which writes depend, too.
pub const BAG_IF_NONE_MATCH: Parameter = Parameter::new(
    "If-None-Match",
    "Entity tags, or `*` (RFC 9110, section 13.1.2). Of a get: if the bag has one of them, 304 is all that is said. Of a \
     write: it is made only if there is no bag with one of them, or none at all.",
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
