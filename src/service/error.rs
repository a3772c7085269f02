//! Why an operation was refused or failed, in words that do not depend on who asked for it how.

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
    /// A part of the request is not valid for what it is about.
    #[error("{field}: {invalid}")]
    Invalid { field: &'static str, invalid: Invalid },
    /// One request of several asks for what cannot exist.
    #[error("{}", .0.detail)]
    Malformed(Box<Problem>),
    /// The value or key of an item to add, or to remove, is not valid for its feature. Nothing was done.
    #[error("{member} of item {index}: {invalid}")]
    InvalidItem { index: usize, member: &'static str, invalid: Invalid },
    /// One of the values or keys that are looked for, or are to go, is not valid for its feature.
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
    /// A definition is not known here, and whether it exists cannot be told now.
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
    /// The caller may not know of this job: they are told that there is none.
    #[error("{}", MetadataError::JobNotFound(*.job))]
    JobOutOfSight { job: JobId, denied: Denied },
    /// The caller asks for more than they may.
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// Other lists of the same call have used up what an answer may hold. Nothing is wrong with this one.
    #[error("the response would be too large: request this in a separate call, or with fewer others")]
    NoRoomInAnswer,
    /// The items of a look-up have more bytes than an answer may have.
    #[error(
        "the items of the first {fitting} of {asked} members fill a response (http.response_bytes_max): look up fewer \
         members in a call"
    )]
    LookupTooLarge { fitting: usize, asked: usize },
    /// Answers that were not taken yet fill the memory for them. Nothing is wrong with the request.
    #[error("no memory for the response now")]
    NoMemoryForAnswer,
    /// What is stored cannot be read. The text is for the log alone.
    #[error("{0}")]
    Damaged(String),
}

impl From<TooManyEntries> for ServiceError {
    fn from(_: TooManyEntries) -> Self {
        Self::TooManyEntries
    }
}

impl ServiceError {
    /// One request of several asks for what cannot exist: its answer says so in its place.
    pub(crate) fn malformed(problem: &Problem) -> Self {
        Self::Malformed(Box::new(problem.clone()))
    }

    pub(crate) fn invalid(field: &'static str) -> impl FnOnce(Invalid) -> Self {
        move |invalid| Self::Invalid { field, invalid }
    }
}
