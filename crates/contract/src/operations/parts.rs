//! Shared parts of rows: headers, sets of errors, and the forms of replies.

use crate::row::{Content, ReplyForm};
use crate::wire::parameters::{BAG_IF_NONE_MATCH, IF_MATCH, IF_NONE_MATCH, Parameter, REQUEST_ID, TIMEOUT, USER};
use crate::wire::{BagStored, EntityType, ErrorCode, Feature, FeatureVersion, Index, Job, Key, Type};

pub const CONDITIONAL: &[Parameter] = &[IF_NONE_MATCH, REQUEST_ID, TIMEOUT];
pub const CREATION: &[Parameter] = &[USER, REQUEST_ID, TIMEOUT];
pub const CHANGE: &[Parameter] = &[IF_MATCH, USER, REQUEST_ID, TIMEOUT];
pub const BAG_CHANGE: &[Parameter] = &[IF_MATCH, BAG_IF_NONE_MATCH, REQUEST_ID, TIMEOUT];

pub const ANY: &[ErrorCode] = &[
    ErrorCode::InvalidArgument,
    ErrorCode::Unauthenticated,
    ErrorCode::PermissionDenied,
    ErrorCode::ExpectationFailed,
    ErrorCode::UnknownHost,
    ErrorCode::RateLimited,
    ErrorCode::Internal,
    ErrorCode::Overloaded,
    ErrorCode::MetadataUnavailable,
    ErrorCode::IssuerUnavailable,
    ErrorCode::DeadlineExceeded,
];
/// A browser must not be made to write by a page of another site.
pub const WRITE: &[ErrorCode] = &[ErrorCode::CrossSite];
pub const LIST: &[ErrorCode] = &[
    ErrorCode::FeatureNotFound,
    ErrorCode::VersionNotFound,
    ErrorCode::StoreUnavailable,
    ErrorCode::TooManyTombstones,
    ErrorCode::Draining,
];
/// The errors of every operation on bags of a type.
pub const BAGS: &[ErrorCode] =
    &[ErrorCode::EntityTypeNotFound, ErrorCode::StoreUnavailable, ErrorCode::TooManyTombstones, ErrorCode::Draining];
pub const BODY: &[ErrorCode] =
    &[ErrorCode::InvalidJson, ErrorCode::LengthRequired, ErrorCode::PayloadTooLarge, ErrorCode::UnsupportedMediaType];

pub const ETAG_OF_FEATURE: (&str, &str) = ("ETag", "The feature's entity tag.");
pub const ETAG_OF_VERSION: (&str, &str) = ("ETag", "The version's entity tag.");
pub const ETAG_OF_ENTITY_TYPE: (&str, &str) = ("ETag", "The entity type's entity tag.");
pub const ETAG_OF_INDEX: (&str, &str) = ("ETag", "The index's entity tag. An index that is being dropped has none.");
pub const ETAG_OF_BAG: (&str, &str) = ("ETag", "The bag's entity tag, which changes with every update.");

pub const FEATURE: ReplyForm =
    ReplyForm { headers: &[ETAG_OF_FEATURE], ..json(200, "The feature.", Type::of::<Feature>()) };
pub const FEATURE_VERSION: ReplyForm =
    ReplyForm { headers: &[ETAG_OF_VERSION], ..json(200, "The version.", Type::of::<FeatureVersion>()) };
pub const ENTITY_TYPE_REPLY: ReplyForm =
    ReplyForm { headers: &[ETAG_OF_ENTITY_TYPE], ..json(200, "The entity type.", Type::of::<EntityType>()) };
pub const INDEX: ReplyForm = ReplyForm { headers: &[ETAG_OF_INDEX], ..json(200, "The index.", Type::of::<Index>()) };
pub const STORED: ReplyForm = ReplyForm {
    headers: &[ETAG_OF_BAG],
    ..json(200, "Stored; the previous bag was replaced.", Type::of::<BagStored>())
};
pub const JOB: ReplyForm = json(200, "The job.", Type::of::<Job>());
pub const KEY: ReplyForm = json(200, "The key.", Type::of::<Key>());

pub const fn json(status: u16, description: &'static str, body: Type) -> ReplyForm {
    ReplyForm { status, description, content: Some(Content::Json(body)), headers: &[] }
}
