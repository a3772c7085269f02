//! What rows of the table share: headers, sets of errors, and the form of a reply.

use crate::service::descriptor::{Content, ReplyForm};
use crate::wire::parameters::{IF_MATCH, IF_NONE_MATCH, Parameter, REQUEST_ID, TIMEOUT, USER};
use crate::wire::{ErrorCode, Type};

pub const REQUEST: &[Parameter] = &[REQUEST_ID, TIMEOUT];
pub const CONDITIONAL: &[Parameter] = &[IF_NONE_MATCH, REQUEST_ID, TIMEOUT];
pub const CREATION: &[Parameter] = &[USER, REQUEST_ID, TIMEOUT];
pub const CHANGE: &[Parameter] = &[IF_MATCH, USER, REQUEST_ID, TIMEOUT];

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
pub const BODY: &[ErrorCode] =
    &[ErrorCode::InvalidJson, ErrorCode::LengthRequired, ErrorCode::PayloadTooLarge, ErrorCode::UnsupportedMediaType];

pub const fn json(status: u16, description: &'static str, body: Type) -> ReplyForm {
    ReplyForm { status, description, content: Some(Content::Json(body)), headers: &[] }
}
