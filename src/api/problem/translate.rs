//! The only place where errors of the inner layers become problems.

use super::{ErrorCode, Problem};
use crate::access::{Denied, Limited, whole_secs};
use crate::actors::ListError;
use crate::api::body::Lack;
use crate::backup::BackupError;
use crate::items::StoreError;
use crate::metadata::MetadataError;
use crate::service::{BagError, ServiceError};

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Invalid { field, invalid } => Self::from(invalid).at(field),
            ServiceError::Malformed(problem) => *problem,
            ServiceError::InvalidItem { index, member, invalid } => {
                Self::from(invalid).at(format!("items[{index}].{member}"))
            }
            ServiceError::InvalidEntry { field, index, invalid } => Self::from(invalid).at(format!("{field}[{index}]")),
            ServiceError::TooManyEntries => Self::new(ErrorCode::TooManyEntries, error.to_string()),
            ServiceError::Bag(error) => error.into(),
            ServiceError::List(error) => error.into(),
            ServiceError::Metadata(error) => error.into(),
            ServiceError::CatalogUnavailable { .. } => Self::new(ErrorCode::MetadataUnavailable, error.to_string()),
            ServiceError::DeadlineExceeded { outcome_unknown } => deadline_exceeded(outcome_unknown),
            ServiceError::Backup(error) => error.into(),
            ServiceError::Denied(error) => error.into(),
            ServiceError::JobOutOfSight { job, denied } => {
                Self::from(MetadataError::JobNotFound(job)).in_place_of(denied.into())
            }
            ServiceError::Limited(limited) => limited.into(),
            ServiceError::NoRandomness(error) => Self::internal(error.to_string()),
            ServiceError::NoMemoryForAnswer => Lack::RoomForAnswer.problem(),
            ServiceError::NoRoomInAnswer => Self::new(ErrorCode::ResponseTooLarge, error.to_string()),
            ServiceError::LookupTooLarge { .. } => Self::new(ErrorCode::LookupTooLarge, error.to_string()),
            ServiceError::Damaged(what) => Self::internal(what),
        }
    }
}

impl From<BagError> for Problem {
    fn from(error: BagError) -> Self {
        let code = match error {
            BagError::NotFound => ErrorCode::BagNotFound,
            BagError::Changed | BagError::IsThere => ErrorCode::EtagMismatch,
            BagError::TooLarge => ErrorCode::BagTooLarge,
        };
        Self::new(code, error.to_string())
    }
}

/// A refusal names the key of the caller and the missing permission, and no stored data.
impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let code = match denied {
            Denied::LocalOnly => ErrorCode::LocalOnly,
            Denied::NoRole { .. } | Denied::OutOfScope { .. } => ErrorCode::PermissionDenied,
        };
        Self::new(code, denied.to_string())
    }
}

impl From<Limited> for Problem {
    fn from(limited: Limited) -> Self {
        let retry_after_secs = Some(whole_secs(limited.retry_after).max(1));
        Self { retry_after_secs, ..Self::new(ErrorCode::RateLimited, limited.to_string()) }
    }
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Overloaded => Self::new(ErrorCode::Overloaded, error.to_string()),
            ListError::Limited(limited) => limited.into(),
            ListError::Draining => Self::new(ErrorCode::Draining, "the server is stopping: use another server"),
            ListError::NoSession { reason } => {
                let detail = "the item store is unreachable";
                Self::new(ErrorCode::StoreUnavailable, detail).with_cause(reason)
            }
            ListError::NotResized { reason } => {
                let detail = "new list actors could not open sessions with the item store: the pool is unchanged";
                Self::new(ErrorCode::StoreUnavailable, detail).with_cause(reason)
            }
            ListError::Resizing => Self::new(
                ErrorCode::PoolResizing,
                "a pool resize is still waiting for running operations; no other change was started: check GET \
                 /v1/pool",
            ),
            ListError::DeadlineExceeded { outcome_unknown } => deadline_exceeded(outcome_unknown),
            ListError::ItemRefused { index, invalid } => {
                // The only refusal at this point is an item that would live too long.
                Self::from(invalid).at(format!("items[{index}].timestamp"))
            }
            ListError::Store(error) => of_store_error(error),
            ListError::Panicked { outcome_unknown } => {
                Self::internal("a list operation panicked").with_outcome_unknown(outcome_unknown)
            }
        }
    }
}

/// No `From`, because both types are from other packages.
fn of_store_error(error: StoreError) -> Problem {
    let outcome_unknown = error.outcome_unknown();
    match error {
        StoreError::Unavailable { reason, .. } => {
            let detail = "the item store cannot do this now; see the server's log";
            Problem::new(ErrorCode::StoreUnavailable, detail).with_cause(reason)
        }
        StoreError::TooManyTombstones { .. } => Problem::new(
            ErrorCode::TooManyTombstones,
            "the database reached its limit of tombstones in this list; the request succeeds again after \
             compaction removes them; read newer items with min_timestamp, or contact the database's operators",
        ),
        StoreError::Overloaded { reason } => {
            Problem::new(ErrorCode::Overloaded, "the item store is overloaded").with_cause(reason)
        }
        StoreError::Timeout { .. } => deadline_exceeded(outcome_unknown),
        StoreError::Refused(invalid) => invalid.into(),
        StoreError::Internal { reason, .. } => Problem::internal(reason),
    }
    .with_outcome_unknown(outcome_unknown)
}

impl From<MetadataError> for Problem {
    fn from(error: MetadataError) -> Self {
        let outcome_unknown = error.outcome_unknown();
        let text = error.to_string();
        match error {
            MetadataError::FeatureExists(_) => Self::new(ErrorCode::FeatureExists, text),
            MetadataError::VersionExists(..) => Self::new(ErrorCode::VersionExists, text),
            MetadataError::FeatureNotFound(_) => Self::new(ErrorCode::FeatureNotFound, text),
            MetadataError::VersionNotFound(..) => Self::new(ErrorCode::VersionNotFound, text),
            MetadataError::EntityTypeExists(_) => Self::new(ErrorCode::EntityTypeExists, text),
            MetadataError::EntityTypeNotFound(_) => Self::new(ErrorCode::EntityTypeNotFound, text),
            MetadataError::DefaultVersion => Self::new(ErrorCode::DefaultVersion, text),
            MetadataError::Property(invalid) => Self::from(invalid),
            MetadataError::EtagMismatch => Self::new(ErrorCode::EtagMismatch, text),
            MetadataError::KeyNotFound(_) => Self::new(ErrorCode::KeyNotFound, text),
            MetadataError::KeyExists(_) => Self::new(ErrorCode::KeyExists, text),
            MetadataError::KeyRevoked(_) => Self::new(ErrorCode::KeyRevoked, text),
            MetadataError::KeyExpired(_) => Self::new(ErrorCode::KeyExpired, text).at("expires"),
            MetadataError::TooManyKeys => Self::new(ErrorCode::TooManyKeys, text),
            MetadataError::JobNotFound(_) => Self::new(ErrorCode::JobNotFound, text),
            MetadataError::JobIsOver { .. } => Self::new(ErrorCode::JobIsOver, text),
            MetadataError::IndexExists(..) => Self::new(ErrorCode::IndexExists, text),
            MetadataError::IndexNotFound(..) => Self::new(ErrorCode::IndexNotFound, text),
            MetadataError::TooManyIndexes(_) => Self::new(ErrorCode::TooManyIndexes, text),
            MetadataError::TooManyJobs => Self::new(ErrorCode::TooManyJobs, text),
            MetadataError::Unavailable { reason, .. } => {
                Self::new(ErrorCode::MetadataUnavailable, text).with_cause(reason)
            }
            MetadataError::DatabaseInconsistency { .. } | MetadataError::Internal { .. } => Self::internal(text),
        }
        .with_outcome_unknown(outcome_unknown)
    }
}

/// A caller with the permission for backups has access to the data directory, and may see the errors of its disk.
impl From<BackupError> for Problem {
    fn from(error: BackupError) -> Self {
        let text = error.to_string();
        match error {
            BackupError::Unsupported(text) => Self::new(ErrorCode::BackupUnsupported, text),
            BackupError::NotEmpty { .. } => Self::new(ErrorCode::BackupDirNotEmpty, text).at("dir"),
            BackupError::UnfitDir(text) => Self::argument("dir", text),
            BackupError::Running => Self::new(ErrorCode::BackupRunning, text),
            BackupError::Stopping => Self::new(ErrorCode::Draining, "the server is stopping: the backup was not made"),
            BackupError::Failed(reason) => Self::new(ErrorCode::BackupFailed, text).with_cause(reason),
        }
    }
}

const LATE: &str = "deadline exceeded; nothing was changed";
const LATE_IN_DOUBT: &str = "deadline exceeded: the write may have been applied or may still be applied";
const LATE_READ: &str = "deadline exceeded before the read was complete: try again, or read less";

/// The caller's deadline, or the operation's, has passed.
fn deadline_exceeded(outcome_unknown: bool) -> Problem {
    let detail = if outcome_unknown { LATE_IN_DOUBT } else { LATE };
    Problem::new(ErrorCode::DeadlineExceeded, detail).with_outcome_unknown(outcome_unknown)
}

/// The problem of an operation that reads. A read has no unknown outcome, regardless of the store's error.
pub(crate) fn of_read(mut problem: Problem) -> Problem {
    if [LATE, LATE_IN_DOUBT].contains(&&*problem.detail) {
        problem.detail = LATE_READ.into();
    }
    problem.with_outcome_unknown(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Invalid;

    #[test]
    fn store_errors_keep_their_remedies() {
        let errors = [
            StoreError::Unavailable { reason: "disk full".to_owned(), outcome_unknown: true },
            StoreError::TooManyTombstones { outcome_unknown: true },
            StoreError::Overloaded { reason: "busy".to_owned() },
            StoreError::Timeout { outcome_unknown: true },
            StoreError::Timeout { outcome_unknown: false },
            StoreError::Refused(Invalid::argument("too large")),
            StoreError::Internal { reason: "damaged".to_owned(), outcome_unknown: true },
        ];
        for error in errors {
            let problem = of_store_error(error.clone());
            assert_eq!(problem.code.row().retryable, error.is_retryable(), "{error}");
            assert_eq!(problem.outcome_unknown, error.outcome_unknown(), "{error}");
        }
    }

    #[test]
    fn errors_of_list_operations_have_their_codes() {
        let (none, unsure) = (false, true);
        for (error, code, outcome_unknown) in [
            (ListError::Overloaded, ErrorCode::Overloaded, none),
            (ListError::Draining, ErrorCode::Draining, none),
            (ListError::Resizing, ErrorCode::PoolResizing, none),
            (ListError::NoSession { reason: "no route".to_owned() }, ErrorCode::StoreUnavailable, none),
            (ListError::DeadlineExceeded { outcome_unknown: true }, ErrorCode::DeadlineExceeded, unsure),
            (ListError::DeadlineExceeded { outcome_unknown: false }, ErrorCode::DeadlineExceeded, none),
            (ListError::Panicked { outcome_unknown: true }, ErrorCode::Internal, unsure),
        ] {
            let problem = Problem::from(error);
            assert_eq!((problem.code, problem.outcome_unknown), (code, outcome_unknown));
        }
        let refused = ListError::ItemRefused { index: 3, invalid: Invalid::ttl_too_long("too far in the future") };
        let problem = Problem::from(refused);
        assert_eq!((problem.code, problem.field.as_deref()), (ErrorCode::TtlTooLong, Some("items[3].timestamp")));
    }

    #[test]
    fn internal_texts_of_failures_are_not_sent() {
        let damaged = ServiceError::Damaged("secret".to_owned());
        let store = StoreError::Internal { reason: "secret".to_owned(), outcome_unknown: false };
        for problem in [Problem::from(damaged), of_store_error(store)] {
            assert!(!problem.detail.contains("secret"));
            assert_eq!(problem.cause.as_deref(), Some("secret"));
        }
    }
}
