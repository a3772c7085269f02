//! The error codes of the API: one table, which answers, the OpenAPI document, `docs/api.md` and the
//! tests all go by. A code is stable: clients branch on it.

use actix_web::http::StatusCode;

/// What a request was refused or failed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    InvalidJson,
    InvalidArgument,
    InvalidTimestamp,
    InvalidPageToken,
    ValueTypeMismatch,
    LocalOnly,
    FeatureNotFound,
    VersionNotFound,
    NotFound,
    MethodNotAllowed,
    FeatureExists,
    VersionExists,
    DefaultVersion,
    BackupDirNotEmpty,
    BackupRunning,
    EtagMismatch,
    PayloadTooLarge,
    UnsupportedMediaType,
    TtlTooLong,
    Internal,
    BackupFailed,
    BackupUnsupported,
    Overloaded,
    StoreUnavailable,
    MetadataUnavailable,
    Draining,
    DeadlineExceeded,
}

/// What is fixed about a code.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub code: ErrorCode,
    pub name: &'static str,
    pub status: StatusCode,
    pub title: &'static str,
    /// Whether the same request may succeed later, unchanged.
    pub retryable: bool,
    /// The `Retry-After` of the answer, in seconds: on every 503 (RFC 9110, section 15.6.4).
    pub retry_after_secs: Option<u32>,
}

const fn row(code: ErrorCode, name: &'static str, status: StatusCode, title: &'static str) -> Row {
    Row { code, name, status, title, retryable: false, retry_after_secs: None }
}

const fn later(code: ErrorCode, name: &'static str, title: &'static str, after_secs: u32) -> Row {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Row { code, name, status, title, retryable: true, retry_after_secs: Some(after_secs) }
}

/// In the order of [`ErrorCode`].
const ROWS: [Row; ErrorCode::COUNT] = [
    row(ErrorCode::InvalidJson, "invalid_json", StatusCode::BAD_REQUEST, "The body is not JSON"),
    row(ErrorCode::InvalidArgument, "invalid_argument", StatusCode::BAD_REQUEST, "An argument is not valid"),
    row(ErrorCode::InvalidTimestamp, "invalid_timestamp", StatusCode::BAD_REQUEST, "A timestamp is not valid"),
    row(ErrorCode::InvalidPageToken, "invalid_page_token", StatusCode::BAD_REQUEST, "The page token is not valid"),
    row(
        ErrorCode::ValueTypeMismatch,
        "value_type_mismatch",
        StatusCode::BAD_REQUEST,
        "A value is not of the feature's type",
    ),
    row(ErrorCode::LocalOnly, "local_only", StatusCode::FORBIDDEN, "Only from the server's own machine"),
    row(ErrorCode::FeatureNotFound, "feature_not_found", StatusCode::NOT_FOUND, "There is no such feature"),
    row(ErrorCode::VersionNotFound, "version_not_found", StatusCode::NOT_FOUND, "The feature has no such version"),
    row(ErrorCode::NotFound, "not_found", StatusCode::NOT_FOUND, "There is nothing at this path"),
    row(
        ErrorCode::MethodNotAllowed,
        "method_not_allowed",
        StatusCode::METHOD_NOT_ALLOWED,
        "This path has no such method",
    ),
    row(ErrorCode::FeatureExists, "feature_exists", StatusCode::CONFLICT, "The feature exists already"),
    row(ErrorCode::VersionExists, "version_exists", StatusCode::CONFLICT, "The version exists already"),
    row(
        ErrorCode::DefaultVersion,
        "default_version",
        StatusCode::CONFLICT,
        "The default version changes with its feature only",
    ),
    row(ErrorCode::BackupDirNotEmpty, "backup_dir_not_empty", StatusCode::CONFLICT, "The directory is not empty"),
    row(ErrorCode::BackupRunning, "backup_running", StatusCode::CONFLICT, "Another backup is being made"),
    row(
        ErrorCode::EtagMismatch,
        "etag_mismatch",
        StatusCode::PRECONDITION_FAILED,
        "It was changed since the entity tag was read",
    ),
    row(ErrorCode::PayloadTooLarge, "payload_too_large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
    row(
        ErrorCode::UnsupportedMediaType,
        "unsupported_media_type",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "The body must be application/json",
    ),
    row(ErrorCode::TtlTooLong, "ttl_too_long", StatusCode::UNPROCESSABLE_ENTITY, "Nothing may live beyond 20 years"),
    row(ErrorCode::Internal, "internal", StatusCode::INTERNAL_SERVER_ERROR, "The server failed"),
    row(ErrorCode::BackupFailed, "backup_failed", StatusCode::INTERNAL_SERVER_ERROR, "The backup was not made"),
    row(
        ErrorCode::BackupUnsupported,
        "backup_unsupported",
        StatusCode::NOT_IMPLEMENTED,
        "These stores are backed up in another way",
    ),
    later(ErrorCode::Overloaded, "overloaded", "Too many operations in flight", 1),
    later(ErrorCode::StoreUnavailable, "store_unavailable", "The item store is not available", 2),
    later(ErrorCode::MetadataUnavailable, "metadata_unavailable", "The metadata store is not available", 2),
    later(ErrorCode::Draining, "draining", "The server is stopping", 1),
    Row {
        code: ErrorCode::DeadlineExceeded,
        name: "deadline_exceeded",
        status: StatusCode::GATEWAY_TIMEOUT,
        title: "The deadline passed",
        retryable: true,
        retry_after_secs: None,
    },
];

impl ErrorCode {
    pub const COUNT: usize = Self::DeadlineExceeded as usize + 1;

    /// All codes with what is fixed about them, by status.
    pub fn table() -> &'static [Row; Self::COUNT] {
        &ROWS
    }

    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn status(self) -> StatusCode {
        self.row().status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_codes() {
        for (place, row) in ErrorCode::table().iter().enumerate() {
            assert_eq!(row.code as usize, place, "{}", row.name);
        }
        assert!(ErrorCode::table().is_sorted_by_key(|row| row.status.as_u16()));
    }

    #[test]
    fn every_503_says_when_to_come_back() {
        for row in ErrorCode::table() {
            assert_eq!(row.retry_after_secs.is_some(), row.status == StatusCode::SERVICE_UNAVAILABLE, "{}", row.name);
        }
    }

    #[test]
    fn the_guide_lists_the_table() {
        let guide = include_str!("../../../docs/api.md");
        let errors = guide.split("\n## Errors\n").nth(1).unwrap();
        let lines: Vec<_> = errors.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<_> = ErrorCode::table()
            .iter()
            .map(|row| {
                let retryable = if row.retryable { "yes" } else { "no" };
                (format!("| `{}` | {} |", row.name, row.status.as_u16()), format!("| {retryable} |"))
            })
            .collect();
        assert_eq!(lines.len(), expected.len(), "docs/api.md must have one row for each code");
        for (line, (start, end)) in lines.iter().zip(&expected) {
            assert!(line.starts_with(start) && line.ends_with(end), "expected {start} … {end}, found {line}");
        }
    }
}
