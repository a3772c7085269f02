//! Why an operation was refused or failed, independent of the protocol of the caller.

use super::bag_conditions::BagError;
use crate::access::token::NoRandomness;
use crate::access::{Denied, Limited};
use crate::actors::ListError;
use crate::backup::BackupError;
use crate::domain::index::{ENTRIES_MAX, TooManyEntries};
use crate::domain::{Invalid, JobId};
use crate::metadata::MetadataError;
use crate::wire::Problem;

#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// A part of the request is not valid for its feature.
    #[error("{field}: {invalid}")]
    Invalid { field: &'static str, invalid: Invalid },
    /// One request of several names a list that cannot exist.
    #[error("{}", .0.detail)]
    Malformed(Box<Problem>),
    /// The value or key of an item to add, or to remove, is not valid for its feature. Nothing was done.
    #[error("{member} of item {index}: {invalid}")]
    InvalidItem { index: usize, member: &'static str, invalid: Invalid },
    /// A value or key to find or to remove is not valid for its feature.
    #[error("{field}, entry {index}: {invalid}")]
    InvalidEntry { field: &'static str, index: usize, invalid: Invalid },
    #[error("the bag would have more than {ENTRIES_MAX} index entries: shorten the indexed arrays")]
    TooManyEntries,
    #[error(transparent)]
    Bag(#[from] BagError),
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The catalog lacks the definition, and the metadata store cannot be asked now.
    #[error("cannot query the metadata store: {reason}")]
    CatalogUnavailable { reason: String },
    /// The caller's own deadline passed.
    #[error("deadline exceeded")]
    DeadlineExceeded { outcome_unknown: bool },
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The caller may not see this job, and gets the error of a missing one.
    #[error("{}", MetadataError::JobNotFound(*.job))]
    JobOutOfSight { job: JobId, denied: Denied },
    /// The caller exceeds their limits.
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// Other lists of the same call have used up the answer. This list is not at fault.
    #[error("the response would be too large: request this in a separate call, or with fewer others")]
    NoRoomInAnswer,
    /// The items of a lookup have more bytes than an answer may have.
    #[error(
        "the items of the first {fitting} of {asked} members fill a response (http.response_bytes_max): look up fewer \
         members in a call"
    )]
    LookupTooLarge { fitting: usize, asked: usize },
    /// Answers that clients have not read yet fill their memory. The request is not at fault.
    #[error("no memory for the response now")]
    NoMemoryForAnswer,
    /// A stored value cannot be read. The text is only for the log.
    #[error("{0}")]
    Damaged(String),
}

impl From<TooManyEntries> for ServiceError {
    fn from(_: TooManyEntries) -> Self {
        Self::TooManyEntries
    }
}

impl ServiceError {
    /// One request of several names a list that cannot exist. Its result is this error.
    pub(crate) fn malformed(problem: &Problem) -> Self {
        Self::Malformed(Box::new(problem.clone()))
    }

    pub(crate) fn invalid(field: &'static str) -> impl FnOnce(Invalid) -> Self {
        move |invalid| Self::Invalid { field, invalid }
    }
}
