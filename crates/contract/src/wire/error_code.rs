//! The error codes of the API: one table, which answers, the OpenAPI document, `docs/reference/errors.md` and the
//! tests follow. A code is stable: clients branch on it.

use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Why a request was refused or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    MalformedRequest,
    InvalidJson,
    InvalidArgument,
    InvalidTimestamp,
    InvalidPageToken,
    ValueTypeMismatch,
    IdentityMismatch,
    Unauthenticated,
    LocalOnly,
    CrossSite,
    PermissionDenied,
    FeatureNotFound,
    VersionNotFound,
    EntityTypeNotFound,
    IndexNotFound,
    BagNotFound,
    KeyNotFound,
    JobNotFound,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    FeatureExists,
    VersionExists,
    EntityTypeExists,
    IndexExists,
    DefaultVersion,
    KeyExists,
    KeyRevoked,
    KeyExpired,
    TooManyKeys,
    JobIsOver,
    TooManyIndexes,
    TooManyJobs,
    BackupDirNotEmpty,
    BackupRunning,
    PoolResizing,
    LengthRequired,
    EtagMismatch,
    PayloadTooLarge,
    BagTooLarge,
    ResponseTooLarge,
    LookupTooLarge,
    AggregateTooLarge,
    UnsupportedMediaType,
    ExpectationFailed,
    UnknownHost,
    TtlTooLong,
    TimestampTooFarAhead,
    TooManyEntries,
    OutOfRange,
    RateLimited,
    HeadTooLarge,
    Internal,
    BackupFailed,
    BackupUnsupported,
    TransferCodingUnsupported,
    Overloaded,
    StoreUnavailable,
    TooManyTombstones,
    MetadataUnavailable,
    IssuerUnavailable,
    Draining,
    DeadlineExceeded,
    HttpVersionUnsupported,
}

/// The fixed properties of a code.
#[derive(Debug, Clone, Copy)]
pub struct CodeRow {
    pub code: ErrorCode,
    pub name: &'static str,
    /// Of HTTP.
    pub status: u16,
    pub title: &'static str,
    /// Whether the same request may succeed later, unchanged.
    pub retryable: bool,
    /// The `Retry-After` of the answer, in seconds: on every retryable 503 (RFC 9110, section 15.6.4). The caller's
    /// limit determines the time of `rate_limited`.
    pub retry_after_secs: Option<u32>,
}

impl CodeRow {
    /// The `type` of its problems (RFC 9457, section 3.1.1): the path of its page on the server that answers.
    pub fn kind(&self) -> String {
        format!("/docs/errors/{}", self.name)
    }
}

const fn row(code: ErrorCode, name: &'static str, status: u16, title: &'static str) -> CodeRow {
    CodeRow { code, name, status, title, retryable: false, retry_after_secs: None }
}

const fn later(code: ErrorCode, name: &'static str, title: &'static str, after_secs: u32) -> CodeRow {
    CodeRow { code, name, status: 503, title, retryable: true, retry_after_secs: Some(after_secs) }
}

/// In the order of [`ErrorCode`].
const ROWS: [CodeRow; ErrorCode::COUNT] = [
    row(ErrorCode::MalformedRequest, "malformed_request", 400, "The request is not valid HTTP/1.1"),
    row(ErrorCode::InvalidJson, "invalid_json", 400, "The body is not valid JSON"),
    row(ErrorCode::InvalidArgument, "invalid_argument", 400, "An argument is not valid"),
    row(ErrorCode::InvalidTimestamp, "invalid_timestamp", 400, "A timestamp is not valid"),
    row(ErrorCode::InvalidPageToken, "invalid_page_token", 400, "The page token is not valid"),
    row(ErrorCode::ValueTypeMismatch, "value_type_mismatch", 400, "A value is not of the feature's type"),
    row(ErrorCode::IdentityMismatch, "identity_mismatch", 400, "The feature has another identity"),
    row(ErrorCode::Unauthenticated, "unauthenticated", 401, "A valid API key or token is required"),
    row(ErrorCode::LocalOnly, "local_only", 403, "Available only over the local socket"),
    row(ErrorCode::CrossSite, "cross_site", 403, "Cross-origin request refused"),
    row(ErrorCode::PermissionDenied, "permission_denied", 403, "Permission denied"),
    row(ErrorCode::FeatureNotFound, "feature_not_found", 404, "Feature not found"),
    row(ErrorCode::VersionNotFound, "version_not_found", 404, "Version not found"),
    row(ErrorCode::EntityTypeNotFound, "entity_type_not_found", 404, "Entity type not found"),
    row(ErrorCode::IndexNotFound, "index_not_found", 404, "Index not found"),
    row(ErrorCode::BagNotFound, "bag_not_found", 404, "Bag not found"),
    row(ErrorCode::KeyNotFound, "key_not_found", 404, "API key not found"),
    row(ErrorCode::JobNotFound, "job_not_found", 404, "Job not found"),
    row(ErrorCode::NotFound, "not_found", 404, "Path not found"),
    row(ErrorCode::MethodNotAllowed, "method_not_allowed", 405, "Method not allowed"),
    CodeRow {
        code: ErrorCode::RequestTimeout,
        name: "request_timeout",
        status: 408,
        title: "The request did not arrive in time",
        retryable: true,
        retry_after_secs: None,
    },
    row(ErrorCode::FeatureExists, "feature_exists", 409, "The feature already exists"),
    row(ErrorCode::VersionExists, "version_exists", 409, "The version already exists"),
    row(ErrorCode::EntityTypeExists, "entity_type_exists", 409, "The entity type already exists"),
    row(ErrorCode::IndexExists, "index_exists", 409, "The index already exists"),
    row(ErrorCode::DefaultVersion, "default_version", 409, "The default version changes only with its feature"),
    row(ErrorCode::KeyExists, "key_exists", 409, "An API key with this name already exists"),
    row(ErrorCode::KeyRevoked, "key_revoked", 409, "The API key is revoked"),
    row(ErrorCode::KeyExpired, "key_expired", 409, "The API key has expired"),
    row(ErrorCode::TooManyKeys, "too_many_keys", 409, "Too many API keys"),
    row(ErrorCode::JobIsOver, "job_is_over", 409, "The job has finished"),
    row(ErrorCode::TooManyIndexes, "too_many_indexes", 409, "Too many indexes"),
    row(ErrorCode::TooManyJobs, "too_many_jobs", 409, "Too many jobs"),
    row(ErrorCode::BackupDirNotEmpty, "backup_dir_not_empty", 409, "The directory is not empty"),
    row(ErrorCode::BackupRunning, "backup_running", 409, "Another backup is in progress"),
    row(ErrorCode::PoolResizing, "pool_resizing", 409, "The pool is still being resized"),
    row(ErrorCode::LengthRequired, "length_required", 411, "The request body is missing"),
    row(ErrorCode::EtagMismatch, "etag_mismatch", 412, "The resource changed after the entity tag was read"),
    row(ErrorCode::PayloadTooLarge, "payload_too_large", 413, "The body is too large"),
    row(ErrorCode::BagTooLarge, "bag_too_large", 413, "The bag is larger than 256 KiB"),
    CodeRow {
        code: ErrorCode::ResponseTooLarge,
        name: "response_too_large",
        status: 413,
        title: "The response is too large",
        retryable: true,
        retry_after_secs: None,
    },
    row(ErrorCode::LookupTooLarge, "lookup_too_large", 413, "The items of the lookup are too large"),
    row(ErrorCode::AggregateTooLarge, "aggregate_too_large", 413, "The aggregates need too much memory"),
    row(ErrorCode::UnsupportedMediaType, "unsupported_media_type", 415, "Unsupported content type"),
    row(ErrorCode::ExpectationFailed, "expectation_failed", 417, "Unsupported expectation"),
    row(ErrorCode::UnknownHost, "unknown_host", 421, "Unknown host name"),
    row(ErrorCode::TtlTooLong, "ttl_too_long", 422, "The expiry is more than 20 years ahead"),
    row(
        ErrorCode::TimestampTooFarAhead,
        "timestamp_too_far_ahead",
        422,
        "The timestamp is too far ahead of the server's clock",
    ),
    row(ErrorCode::TooManyEntries, "too_many_entries", 422, "The bag has too many indexed values"),
    row(ErrorCode::OutOfRange, "out_of_range", 422, "An aggregate does not fit its type"),
    CodeRow {
        code: ErrorCode::RateLimited,
        name: "rate_limited",
        status: 429,
        title: "Rate limit exceeded",
        retryable: true,
        retry_after_secs: None,
    },
    row(ErrorCode::HeadTooLarge, "head_too_large", 431, "The request head is too large"),
    row(ErrorCode::Internal, "internal", 500, "The server failed"),
    row(ErrorCode::BackupFailed, "backup_failed", 500, "The backup failed"),
    row(ErrorCode::BackupUnsupported, "backup_unsupported", 501, "Backups are not supported for these stores"),
    row(ErrorCode::TransferCodingUnsupported, "transfer_coding_unsupported", 501, "Unsupported transfer coding"),
    later(ErrorCode::Overloaded, "overloaded", "Too many operations in flight", 1),
    later(ErrorCode::StoreUnavailable, "store_unavailable", "The item store is unavailable", 2),
    row(ErrorCode::TooManyTombstones, "too_many_tombstones", 503, "Too many tombstones in the list"),
    later(ErrorCode::MetadataUnavailable, "metadata_unavailable", "The metadata store is unavailable", 2),
    later(
        ErrorCode::IssuerUnavailable,
        "issuer_unavailable",
        "The signing keys of the token's issuer are unavailable",
        5,
    ),
    later(ErrorCode::Draining, "draining", "The server is stopping", 1),
    CodeRow {
        code: ErrorCode::DeadlineExceeded,
        name: "deadline_exceeded",
        status: 504,
        title: "Deadline exceeded",
        retryable: true,
        retry_after_secs: None,
    },
    row(ErrorCode::HttpVersionUnsupported, "http_version_unsupported", 505, "Unsupported HTTP version"),
];

impl ErrorCode {
    pub const COUNT: usize = Self::HttpVersionUnsupported as usize + 1;

    /// All codes with their fixed properties, by status.
    pub fn table() -> &'static [CodeRow; Self::COUNT] {
        &ROWS
    }

    pub fn row(self) -> &'static CodeRow {
        &ROWS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn status(self) -> u16 {
        self.row().status
    }
}

impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("A stable code for programs. Newer servers may send codes that are not in this list."))
            .enum_values(Some(ROWS.map(|row| row.name)))
            .into()
    }
}

impl ToSchema for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_codes() {
        for (place, row) in ErrorCode::table().iter().enumerate() {
            assert_eq!(row.code as usize, place, "{}", row.name);
        }
        assert!(ErrorCode::table().is_sorted_by_key(|row| row.status));
    }

    #[test]
    fn every_retryable_503_has_a_retry_time() {
        for row in ErrorCode::table() {
            assert_eq!(row.retry_after_secs.is_some(), row.status == 503 && row.retryable, "{}", row.name);
        }
    }
}
